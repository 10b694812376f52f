/** One node of a cluster: its edge, which accepts, and its copy, which follows. Loaded by those alone who have one. */
import type { Clock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { MetricPage } from '../base/metrics.ts'
import type { Settings } from '../config/settings.ts'
import type { AppendResult, AppendTask } from '../engine/threads/tasks.ts'
import { outboxFolder, readProcessedPosition } from '../store/directory/data-dir.ts'
import { LogReader } from '../store/log/event-log.ts'
import { readOrigin } from '../store/open-store.ts'
import { addMetrics, type ClusterFigures } from './cluster-metrics.ts'
import { EdgeOutbox } from './edge-outbox.ts'
import { NatsLog } from './nats.ts'
import { OutboxIdentity } from './outbox-identity.ts'
import { ReplicaFeed } from './replica-feed.ts'

/** What a node works with. */
export interface ClusterNodeOptions {
  readonly settings: Settings
  readonly clock: Clock
  readonly logger: Logger
  /** By which the processing thread gets the shared log. */
  readonly channel: string
  readonly page: MetricPage
  /** Appends to the log of the outbox. */
  readonly append: (task: AppendTask) => Promise<AppendResult>
  /** A block of the shared log can be processed. */
  readonly onBlock: (number: number, bytes: number, events: number) => void
  /** The outbox may forget blocks up to that number. */
  readonly onStored: (through: number) => void
}

/** A node of a cluster. */
export class ClusterNode {
  readonly #shared: NatsLog
  readonly #outbox: EdgeOutbox
  readonly #log: LogReader
  readonly #options: ClusterNodeOptions
  readonly #name: string
  #feed: ReplicaFeed | null = null

  constructor(options: ClusterNodeOptions) {
    this.#options = options
    const { settings, clock, logger, append, onStored } = options
    const folder = outboxFolder(settings.dataDir)
    const identity = new OutboxIdentity(folder)
    this.#name = identity.name
    this.#log = new LogReader({ dataDir: folder })
    this.#shared = new NatsLog(settings.cluster, logger)
    this.#outbox = new EdgeOutbox({
      ...{ append, identity, clock, logger, onStored },
      ...{ log: this.#log, shared: this.#shared },
      isMajorityNeeded: settings.durability === 'replicated',
      copies: settings.clusterCopies,
    })
    addMetrics(options.page, () => this.#figures)
  }

  /** Opens the outbox and begins to follow; with or without brokers. */
  async start(): Promise<void> {
    const { settings, channel, logger, append, onBlock } = this.#options
    const { last } = await append({ blocks: [], trimThrough: 0 })
    this.#outbox.start(last)
    const { dataDir } = settings
    const origin = readOrigin(dataDir)
    const position = readProcessedPosition(dataDir)
    if (origin === null && position > 0) {
      throw new OperatorError(
        `${dataDir} has events of a single box, which the brokers do not have: begin a cluster with an empty directory`,
      )
    }
    this.#feed = new ReplicaFeed({
      ...{ shared: this.#shared, channel, name: this.#name, logger, onBlock },
      ...{ origin, position },
    })
  }

  /** As `WorkerPool.append`. */
  append(task: AppendTask): Promise<AppendResult> {
    return this.#outbox.append(task)
  }

  /** Everything up to this block of the shared log is stored here. */
  processed(through: number): void {
    this.#feed?.processed(through)
  }

  /** What somebody should know: sentences. */
  get troubles(): readonly string[] {
    const { aloneSinceMs, unsentBlocks } = this.#outbox
    const alone =
      aloneSinceMs === null
        ? []
        : [`No majority of brokers answers: ${unsentBlocks} blocks are on this disk alone.`]
    const trouble = this.#feed?.trouble ?? null
    return trouble === null ? alone : [...alone, trouble]
  }

  get #figures(): ClusterFigures {
    const { counts, aloneSinceMs, unsentBlocks } = this.#outbox
    const waiting = this.#feed?.waitingCount ?? 0
    return { ...counts, isAlone: aloneSinceMs !== null, unsentBlocks, waiting }
  }

  async close(): Promise<void> {
    this.#outbox.close()
    this.#feed?.close()
    await this.#shared.close()
    await this.#log.close()
  }
}
