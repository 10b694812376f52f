/** The garbage collections of a daemon's main thread, as an observer in it sees them. */
import { readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:perf_hooks'

/** The number of collections of one kind since the start of the daemon, or since `forget`. */
export interface Collections {
  readonly count: number
  readonly longestMs: number
}

/** Watches one daemon. The daemon creates and writes `file`. */
export class CollectionWatch {
  readonly #file: string

  constructor(file: string) {
    this.#file = file
    this.forget()
  }

  /** Excludes the collections so far, such as those during the start. */
  forget(): void {
    writeFileSync(this.#file, '')
  }

  /** The environment variables that the daemon needs. */
  get environment(): Readonly<Record<string, string>> {
    const code = `
      import { appendFileSync } from 'node:fs'
      import { PerformanceObserver } from 'node:perf_hooks'
      import { isMainThread } from 'node:worker_threads'
      const note = ({ detail, duration }) =>
        appendFileSync(${JSON.stringify(this.#file)}, detail.kind + ' ' + duration + '\\n')
      const observer = new PerformanceObserver((list) => list.getEntries().forEach(note))
      if (isMainThread) observer.observe({ entryTypes: ['gc'] })`
    return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` }
  }

  /** Collections of the whole heap, or all others, which are of young objects or incremental steps. */
  read(isWhole: boolean): Collections {
    const lines = readFileSync(this.#file, 'utf8').split('\n').filter(Boolean)
    const durations = lines
      .map((line) => line.split(' ').map(Number))
      .filter(([kind]) => (kind === constants.NODE_PERFORMANCE_GC_MAJOR) === isWhole)
      .map(([, elapsedMs = 0]) => elapsedMs)
    return { count: durations.length, longestMs: Math.max(0, ...durations) }
  }
}
