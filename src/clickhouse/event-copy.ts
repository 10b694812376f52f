/** The daemon's side of the copy in ClickHouse: runs the thread that writes the copy, and reports its state. */
import { Worker } from 'node:worker_threads'
import type { Clock } from '../base/clock.ts'
import type { Logger } from '../base/log.ts'
import type { MetricPage } from '../base/metrics.ts'
import type { Settings } from '../config/settings.ts'
import type { CopiedSegment, ErasedJob } from '../ports/warehouse.ts'
import type { SinkNews, SinkOrder, SinkThreadData } from './copy-thread.ts'
import { RETRY_MS_MAX } from './limits.ts'
import { addWarehouseMetrics, type WarehouseFigures } from './warehouse-metrics.ts'

const SINK_THREAD = new URL('./copy-thread.js', import.meta.url)

/** What the daemon passes to its copy in ClickHouse. */
export interface EventCopyOptions extends SinkThreadData {
  readonly clock: Clock
  readonly log: Logger
  readonly page: MetricPage
  /** Called when `takeNews` has something to return. */
  readonly onNews: () => void
}

/** An erasure that waits until its events are erased in ClickHouse. */
interface Erasing {
  readonly job: ErasedJob
  readonly done: Promise<void>
  readonly resolve: () => void
}

/**
 * Creates the `EventCopy` for the ClickHouse database in the setting `warehouse`. Returns null without this setting.
 * `onNews` is called when `takeNews` has something to return.
 */
export function openCopy(
  parts: { readonly settings: Settings; readonly clock: Clock; readonly log: Logger },
  page: MetricPage,
  onNews: () => void,
): EventCopy | null {
  const { dataDir, warehouse: address, warehouseKeepDays: keepDays, cluster } = parts.settings
  if (address === null) return null
  const isAlone = cluster.length === 0
  return new EventCopy({ ...parts, dataDir, address, isAlone, keepDays, page, onNews })
}

/** Controls the copy of stored events in ClickHouse, from the main thread of the daemon. */
export class EventCopy {
  readonly #options: EventCopyOptions
  #thread: Worker | null = null
  #ended: Promise<unknown> = Promise.resolve()
  #restart: NodeJS.Timeout | undefined
  #news: SinkNews | null = null
  #trouble: string | null = null
  #failures = 0
  #isClosing = false
  readonly #copied: CopiedSegment[] = []
  readonly #erased: ErasedJob[] = []
  #segments = 0
  /** The erasures that are not carried out in ClickHouse yet. */
  readonly #erasures = new Map<string, Erasing>()

  constructor(options: EventCopyOptions) {
    this.#options = options
    addWarehouseMetrics(options.page, () => this.#figures)
  }

  /** Starts to copy. It does not matter whether ClickHouse can be reached yet. */
  start(): void {
    const { dataDir, address, isAlone, keepDays, log } = this.#options
    const workerData: SinkThreadData = { dataDir, address, isAlone, keepDays }
    const thread = new Worker(SINK_THREAD, { workerData })
    this.#thread = thread
    for (const { job } of this.#erasures.values()) this.#order(job)
    thread.on('message', (news: SinkNews) => this.#heard(news))
    thread.on('error', (err) => {
      log.error(
        { err },
        'The thread that copies events to the warehouse has ended. Tenrec starts it again.',
      )
    })
    this.#ended = new Promise((resolve) => {
      thread.once('exit', () => {
        resolve(null)
        if (this.#isClosing) return
        this.#hadTrouble('The thread that copies events has ended. Tenrec starts it again.')
        this.#restart = setTimeout(() => this.start(), RETRY_MS_MAX)
      })
    })
  }

  /**
   * Erases the events of a job in ClickHouse, after the store has erased them. Resolves when ClickHouse has no event of
   * the job any more.
   */
  readonly erase = (job: ErasedJob): Promise<void> => {
    const name = `${job.projectId} ${job.number}`
    let erasing = this.#erasures.get(name)
    if (erasing === undefined) {
      let resolve = (): void => undefined
      const done = new Promise<void>((settle) => {
        resolve = settle
      })
      erasing = { job, done, resolve }
      this.#erasures.set(name, erasing)
      this.#order(job)
    }
    return erasing.done
  }

  /** The current problems of the copy, as sentences for `/_health`. */
  get troubles(): readonly string[] {
    const strangers = this.#news?.state.strangers ?? []
    return [
      ...(this.#trouble === null
        ? []
        : [`No events are copied to the warehouse: ${this.#trouble}`]),
      ...strangers.map(
        (project) =>
          `The warehouse has events of project ${project} that this store does not have, so none are copied. See docs/WAREHOUSE.md.`,
      ),
    ]
  }

  /**
   * Returns what was reported since the last call: the segments whose columns may now be removed from the store, and
   * the jobs whose events ClickHouse no longer contains.
   */
  takeNews(): {
    readonly copied: readonly CopiedSegment[]
    readonly erasedCopies: readonly ErasedJob[]
  } {
    return { copied: this.#copied.splice(0), erasedCopies: this.#erased.splice(0) }
  }

  /** Ends the thread and waits until it has closed its store. Running requests to ClickHouse are aborted. */
  async close(): Promise<void> {
    this.#isClosing = true
    clearTimeout(this.#restart)
    this.#thread?.postMessage('stop' satisfies SinkOrder)
    await this.#ended
  }

  #order(job: ErasedJob): void {
    this.#thread?.postMessage(job satisfies SinkOrder)
  }

  #heard(news: SinkNews): void {
    const { log } = this.#options
    this.#news = news
    if (news.copied !== null) {
      this.#copied.push(news.copied)
      this.#segments++
      this.#options.onNews()
    }
    if (news.erased !== null) {
      this.#erased.push(news.erased)
      this.#options.onNews()
      const name = `${news.erased.projectId} ${news.erased.number}`
      this.#erasures.get(name)?.resolve()
      this.#erasures.delete(name)
    }
    if (news.trouble !== null) this.#hadTrouble(news.trouble)
    else if (this.#trouble !== null) {
      this.#trouble = null
      log.info(
        { waiting: news.state.waitingEvents },
        'Copying events to the warehouse works again.',
      )
    }
  }

  #hadTrouble(trouble: string): void {
    this.#failures++
    if (this.#trouble === null && !this.#isClosing) {
      this.#options.log.warn(
        { trouble },
        'No events can be copied to the warehouse. Tenrec will try again.',
      )
    }
    this.#trouble = trouble
  }

  get #figures(): WarehouseFigures {
    const state = this.#news?.state
    const sinceMs = state?.waitingSinceMs ?? null
    return {
      isAway: this.#trouble !== null,
      waitingEvents: state?.waitingEvents ?? 0,
      waitingErasures: this.#erasures.size,
      lagSeconds: sinceMs === null ? 0 : Math.max(0, this.#options.clock.now() - sinceMs) / 1000,
      rows: state?.rows ?? 0,
      bytes: state?.bytes ?? 0,
      inserts: state?.inserts ?? 0,
      failures: this.#failures,
      segments: this.#segments,
    }
  }
}
