/** Counts the garbage collections of a daemon's main thread, with an observer that runs in that thread. */
import { readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:perf_hooks'

/** The collections of one kind since the start of the daemon, or since `forget`. */
export interface Collections {
  readonly count: number
  readonly longestMs: number
}

/** Watches the collections of one daemon. The daemon creates and writes `file`. */
export class CollectionWatch {
  readonly #file: string

  constructor(file: string) {
    this.#file = file
    this.forget()
  }

  /** Leaves out the collections so far, such as the collections during the start. */
  forget(): void {
    writeFileSync(this.#file, '')
  }

  /** The environment variables with which the daemon must be started. */
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

  /**
   * Returns the collections of the whole heap or, if `isWhole` is false, all other collections: those of young objects,
   * and incremental steps.
   */
  read(isWhole: boolean): Collections {
    const lines = readFileSync(this.#file, 'utf8').split('\n').filter(Boolean)
    const durations = lines
      .map((line) => line.split(' ').map(Number))
      .filter(([kind]) => (kind === constants.NODE_PERFORMANCE_GC_MAJOR) === isWhole)
      .map(([, elapsedMs = 0]) => elapsedMs)
    return { count: durations.length, longestMs: Math.max(0, ...durations) }
  }
}
