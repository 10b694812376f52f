/** The garbage collections of a daemon's main thread, as an observer in it sees them. */
import { readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:perf_hooks'

/** Collections of one kind since the daemon was started, or `forget`. */
export interface Collections {
  readonly count: number
  readonly longestMs: number
}

/** Watches one daemon; `file` is made and written by it. */
export class CollectionWatch {
  readonly #file: string

  constructor(file: string) {
    this.#file = file
    this.forget()
  }

  /** Those so far, as of the start, do not count. */
  forget(): void {
    writeFileSync(this.#file, '')
  }

  /** What the daemon is to have in its environment. */
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

  /** Those of the whole heap, or all the others, which are of young objects or steps of a whole one. */
  read(isWhole: boolean): Collections {
    const lines = readFileSync(this.#file, 'utf8').split('\n').filter(Boolean)
    const durations = lines
      .map((line) => line.split(' ').map(Number))
      .filter(([kind]) => (kind === constants.NODE_PERFORMANCE_GC_MAJOR) === isWhole)
      .map(([, elapsedMs = 0]) => elapsedMs)
    return { count: durations.length, longestMs: Math.max(0, ...durations) }
  }
}
