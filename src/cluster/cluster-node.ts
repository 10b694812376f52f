/** One node of a cluster: its edge, which accepts, and its copy, which follows. Loaded by those alone who have one. */
import { hostname } from 'node:os'
import type { Clock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { MetricPage } from '../base/metrics.ts'
import type { Settings } from '../config/settings.ts'
import { DailySalts } from '../engine/front/daily-salts.ts'
import type { AppendResult, AppendTask } from '../engine/threads/tasks.ts'
import type { CatalogueCopy, ChangeLog } from '../ports/change-log.ts'
import { SHARED_CATALOGUE } from '../store/catalog/organization-store.ts'
import { outboxFolder, readProcessedPosition } from '../store/directory/data-dir.ts'
import { LogReader } from '../store/log/event-log.ts'
import { readOrigin } from '../store/open-store.ts'
import { addMetrics, type ClusterFigures } from './cluster-metrics.ts'
import { ControlState } from './control-state.ts'
import { EdgeOutbox } from './edge-outbox.ts'
import { MESSAGE_HEADS_BYTES_MAX } from './limits.ts'
import { CONTROL_STREAM, EVENT_STREAM, NatsBrokers, SALT_STREAM } from './nats.ts'
import { OutboxIdentity } from './outbox-identity.ts'
import { ReplicaFeed } from './replica-feed.ts'
import { noteBrokers } from './shared-change.ts'
import type { SharedStream } from './shared-log.ts'
import { SharedSalts } from './shared-salts.ts'

/** Who starts waits that long for changes of the catalogue that were made meanwhile, with or without brokers. */
const CATCH_UP_MS = 1000
const ANNOUNCE_MS = 250
/** What did not change is told so often: whoever starts hears of it. */
const ANNOUNCE_AGAIN_MS = 2000

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
  /** The catalogue of this machine. */
  readonly catalogue: CatalogueCopy
  /** It has changed. */
  readonly onCatalogue: () => void
  /** The outbox may forget blocks up to that number. */
  readonly onStored: (through: number) => void
}

/** A node of a cluster. */
export class ClusterNode {
  readonly #brokers: NatsBrokers
  readonly #stream: SharedStream
  readonly #outbox: EdgeOutbox
  readonly #log: LogReader
  readonly #options: ClusterNodeOptions
  readonly #name: string
  #feed: ReplicaFeed | null = null
  readonly #control: ControlState
  readonly #salts: SharedSalts
  #announcedAtMs = 0
  readonly #timer: NodeJS.Timeout

  constructor(options: ClusterNodeOptions) {
    this.#options = options
    const { settings, clock, logger, append, onStored } = options
    const folder = outboxFolder(settings.dataDir)
    const identity = new OutboxIdentity(folder)
    this.#name = identity.name
    noteBrokers(settings.dataDir, settings.cluster)
    this.#log = new LogReader({ dataDir: folder })
    this.#brokers = new NatsBrokers(settings.cluster, logger)
    this.#stream = this.#brokers.stream(EVENT_STREAM)
    this.#outbox = new EdgeOutbox({
      ...{ append, identity, clock, logger, onStored },
      ...{ log: this.#log, shared: this.#stream, others: this.#brokers },
      isMajorityNeeded: settings.durability === 'replicated',
      copies: settings.clusterCopies,
    })
    this.#control = new ControlState({
      ...{ stream: this.#brokers.stream(CONTROL_STREAM), copy: options.catalogue, logger },
      place: SHARED_CATALOGUE.place(settings.dataDir),
      onChange: options.onCatalogue,
    })
    this.#salts = new SharedSalts({
      ...{ stream: this.#brokers.stream(SALT_STREAM), clock },
      salts: new DailySalts(settings.dataDir),
    })
    this.#timer = setInterval(() => this.#announce(), ANNOUNCE_MS)
    addMetrics(options.page, () => this.#figures)
  }

  /** Opens the outbox and begins to follow; with or without brokers. */
  async start(): Promise<void> {
    const { settings, channel, logger, append, onBlock } = this.#options
    const { last } = await append({ blocks: [], trimThrough: 0 })
    this.#outbox.start(last)
    await Promise.all([this.#control.caughtUp(CATCH_UP_MS), this.#salts.ready(CATCH_UP_MS)])
    const tooSmall = this.#smallMessages()
    if (tooSmall !== null) throw new OperatorError(tooSmall)
    const { dataDir } = settings
    const origin = readOrigin(dataDir)
    const position = readProcessedPosition(dataDir)
    // one-box.ts was there before.
    if (origin === null && position > 0) throw new TypeError('these events are of one box')
    this.#feed = new ReplicaFeed({
      ...{ shared: this.#stream, channel, logger, onBlock },
      ...{ origin, position },
    })
  }

  /** As `WorkerPool.append`. */
  append(task: AppendTask): Promise<AppendResult> {
    return this.#outbox.append(task)
  }

  /** Who orders changes of the catalogue. */
  get changes(): ChangeLog {
    return this.#control
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
    const troubles = [this.#feed?.trouble ?? null, this.#control.trouble, this.#smallMessages()]
    return [...alone, ...troubles.filter((trouble) => trouble !== null)]
  }

  /** A body that no message can hold would stay in the outbox for ever, and all behind it. */
  #smallMessages(): string | null {
    const { bodyBytesMax } = this.#options.settings
    const bytesMax = this.#brokers.messageBytesMax
    if (bytesMax === null || bytesMax >= bodyBytesMax + MESSAGE_HEADS_BYTES_MAX) return null
    const wanted = `set it to ${bodyBytesMax + MESSAGE_HEADS_BYTES_MAX} or more, or lower body_limit`
    return `max_payload of the brokers is ${bytesMax} and a body may have ${bodyBytesMax} bytes: ${wanted}.`
  }

  get #figures(): ClusterFigures {
    const { counts, aloneSinceMs, unsentBlocks } = this.#outbox
    const waiting = this.#feed?.waitingCount ?? 0
    const { counts: control, place } = this.#control
    return {
      ...{ ...counts, isAlone: aloneSinceMs !== null, unsentBlocks, waiting },
      ...{ control, controlNumber: place?.number ?? 0 },
    }
  }

  #announce(): void {
    const now = performance.now()
    const isNews = this.#feed?.takeNews() === true
    if (!isNews && now - this.#announcedAtMs < ANNOUNCE_AGAIN_MS) return
    this.#announcedAtMs = now
    const feed = this.#feed
    this.#brokers.announce({
      ...{ replica: this.#name, host: hostname(), places: feed?.places ?? {} },
      position: feed?.position ?? { incarnation: '', sequence: 0 },
      ...{ waiting: feed?.waitingCount ?? 0, unsent: this.#outbox.unsentBlocks },
      ...{ control: this.#control.place?.number ?? -1, troubles: this.troubles },
    })
  }

  async close(): Promise<void> {
    this.#outbox.close()
    this.#feed?.close()
    this.#control.close()
    this.#salts.close()
    clearInterval(this.#timer)
    await this.#brokers.close()
    await this.#log.close()
  }
}
