/**
 * One node of a cluster: its outbox, which accepts, and its copy, which follows and answers those that have none; or
 * in place of the copy what asks them. Loaded by those alone who are in a cluster.
 */
import { hostname } from 'node:os'
import type { Clock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { MetricPage } from '../base/metrics.ts'
import { refusal } from '../base/refusals.ts'
import type { Settings } from '../config/settings.ts'
import { DailySalts } from '../engine/front/daily-salts.ts'
import type { DistantSources } from '../engine/front/decisions.ts'
import type { FlagService } from '../engine/front/flag-service.ts'
import type { DefinitionSource } from '../engine/front/flag-snapshots.ts'
import type { LiveEvents } from '../engine/front/live-events.ts'
import { type Queries, queriesOf, type WorkerPool } from '../engine/threads/pool.ts'
import type {
  AppendResult,
  AppendTask,
  CommandOutcome,
  ProcessResult,
} from '../engine/threads/tasks.ts'
import type { CatalogueCopy, ChangeLog } from '../ports/change-log.ts'
import { SHARED_CATALOGUE } from '../store/catalog/organization-store.ts'
import { outboxFolder, readProcessedPosition } from '../store/directory/data-dir.ts'
import { LogReader } from '../store/log/event-log.ts'
import { readOrigin } from '../store/open-store.ts'
import { addMetrics, type ClusterFigures } from './cluster-metrics.ts'
import { ControlState } from './control-state.ts'
import { Edge, NO_PROCESSING } from './edge.ts'
import { EdgeOutbox } from './edge-outbox.ts'
import { HolderService } from './holder-service.ts'
import { HOLDER_LATE_MS_MAX, MESSAGE_HEADS_BYTES_MAX } from './limits.ts'
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
  /** Carries out calls, and appends to the log of the outbox. */
  readonly pool: Pick<WorkerPool, 'append' | 'run' | 'queries'>
  /** Flags, and what decisions need where events are stored. */
  readonly flags: () => Pick<FlagService, 'snapshots' | 'stored'>
  /** Somebody waits for what is in the log. */
  readonly hurry: () => void
  /** What became of a command that others have carried out. */
  readonly onOutcome: (outcome: CommandOutcome) => void
  /** A block of the shared log can be processed. */
  readonly onBlock: (number: number, bytes: number, events: number) => void
  /** The catalogue of this machine. */
  readonly catalogue: CatalogueCopy
  /** Which warehouse the catalogue names, and what copies to one here. */
  readonly warehouse: () => string | null
  readonly copy: { readonly troubles: readonly string[] } | null
  /** The outbox may forget blocks up to that number. */
  readonly onStored: (through: number) => void
}

/** A node of a cluster. */
export class ClusterNode {
  /** Null: events are stored here. */
  readonly #edge: Edge | null
  /** Calls of threads, here or where events are stored. */
  readonly queries: Queries
  readonly #holder: HolderService | null
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
  /** The copy had everything that the stream had at `seen`, and when. */
  #current = { seen: Number.POSITIVE_INFINITY, atMs: Number.NEGATIVE_INFINITY }
  readonly #timer: NodeJS.Timeout

  constructor(options: ClusterNodeOptions) {
    this.#options = options
    const { settings, clock, logger, pool, onStored } = options
    const folder = outboxFolder(settings.dataDir)
    const identity = new OutboxIdentity(folder)
    this.#name = identity.name
    noteBrokers(settings.dataDir, settings.cluster)
    this.#log = new LogReader({ dataDir: folder })
    this.#brokers = new NatsBrokers(settings.cluster, logger)
    this.#stream = this.#brokers.stream(EVENT_STREAM)
    this.#outbox = new EdgeOutbox({
      ...{ identity, clock, logger, onStored, append: (task) => pool.append(task) },
      ...{ log: this.#log, shared: this.#stream, others: this.#brokers },
      isMajorityNeeded: settings.durability === 'replicated',
      copies: settings.clusterCopies,
    })
    this.#control = new ControlState({
      ...{ stream: this.#brokers.stream(CONTROL_STREAM), copy: options.catalogue, logger },
      place: SHARED_CATALOGUE.place(settings.dataDir),
      onChange: () => options.flags().snapshots.refresh(),
    })
    this.#salts = new SharedSalts({
      ...{ stream: this.#brokers.stream(SALT_STREAM), clock },
      salts: new DailySalts(settings.dataDir),
    })
    const control = (): number => this.#control.place?.number ?? 0
    const asking = { messages: this.#brokers, pool, control }
    const isHolder = settings.partitions !== 'none'
    const onDefinitions = (ids: readonly number[]): void =>
      options.flags().snapshots.definitionsChanged(ids)
    this.#edge = isHolder ? null : new Edge({ ...asking, folder, onDefinitions })
    this.queries = this.#edge === null ? pool.queries : queriesOf(this.#edge)
    this.#holder = isHolder
      ? new HolderService({ ...asking, stored: () => options.flags().stored, hurry: options.hurry })
      : null
    this.#timer = setInterval(() => this.#announce(), ANNOUNCE_MS)
    addMetrics(options.page, () => this.#figures)
  }

  /** Opens the outbox and begins to follow; with or without brokers. */
  async start(): Promise<void> {
    const { settings, channel, logger, pool, onBlock } = this.#options
    const { last } = await pool.append({ blocks: [], trimThrough: 0 })
    this.#outbox.start(last)
    await Promise.all([this.#control.caughtUp(CATCH_UP_MS), this.#salts.ready(CATCH_UP_MS)])
    const tooSmall = this.#smallMessages()
    if (tooSmall !== null) throw new OperatorError(tooSmall)
    if (this.#holder === null) return
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

  /** Who processes: where no events are stored, nobody does. */
  static processing({ partitions }: Settings, pool: WorkerPool): Pick<WorkerPool, 'run'> {
    return partitions === 'none' ? NO_PROCESSING : pool
  }

  /** Where decisions of this machine get what is stored; undefined: it is here. */
  get elsewhere():
    | { readonly definitions: DefinitionSource; readonly sources: DistantSources }
    | undefined {
    const edge = this.#edge
    return edge === null ? undefined : { definitions: edge.definitions, sources: edge }
  }

  /** A command of this machine is in the log, and somebody waits. Null: it is carried out here. */
  logged(uuid: string, isAwaited: () => boolean): true | null {
    if (this.#edge === null) return null
    void this.#edge.outcome(uuid, isAwaited).then((known) => {
      if (known !== null) this.#options.onOutcome(known.outcome)
    })
    return true
  }

  /** Streams of what is stored here. */
  streams(live: Pick<LiveEvents, 'open'>): Pick<LiveEvents, 'open'> {
    if (this.#edge === null) return live
    return { open: () => Promise.reject(refusal('streams_elsewhere')) }
  }

  /** As `WorkerPool.append`. */
  append(task: AppendTask): Promise<AppendResult> {
    return this.#outbox.append(task)
  }

  /** Who orders changes of the catalogue. */
  get changes(): ChangeLog {
    return this.#control
  }

  /** What processing has stored here. */
  processed(result: ProcessResult): void {
    this.#feed?.processed(result.processed)
    this.#holder?.processed(result)
  }

  /** Another machine erases copies of events, too, and says then that an erasure is done. */
  get isSaidElsewhere(): boolean {
    return this.#options.copy === null && this.#options.warehouse() !== null
  }

  /** What somebody should know: sentences. */
  get troubles(): readonly string[] {
    const { aloneSinceMs, unsentBlocks } = this.#outbox
    const alone =
      aloneSinceMs === null
        ? []
        : [`No majority of brokers answers: ${unsentBlocks} blocks are on this disk alone.`]
    const parts = [this.#feed?.trouble ?? null, this.#edge?.trouble ?? null, this.#control.trouble]
    const troubles = [...parts, this.#smallMessages()]
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
      ...(this.#edge?.link.counts ?? { asked: 0, unanswered: 0 }),
      answered: this.#holder?.answered ?? 0,
    }
  }

  /** A copy that lacks something, or is late, must not answer others. */
  #lookWhetherCurrent(now: number): void {
    const feed = this.#feed
    if (feed === null || this.#holder === null) return
    const { seen, incarnation } = this.#stream
    // Before it is known how far the stream reaches, it is not known whether this copy does.
    if (this.#current.seen === Number.POSITIVE_INFINITY && incarnation !== '') {
      this.#current = { ...this.#current, seen }
    }
    if (feed.storedSequence >= this.#current.seen) this.#current = { seen, atMs: now }
    const isCurrent = now - this.#current.atMs < HOLDER_LATE_MS_MAX
    this.#holder.serve(isCurrent && feed.trouble === null && this.#control.trouble === null)
  }

  #announce(): void {
    const now = performance.now()
    this.#lookWhetherCurrent(now)
    const isNews = this.#feed?.takeNews() === true
    if (!isNews && now - this.#announcedAtMs < ANNOUNCE_AGAIN_MS) return
    this.#announcedAtMs = now
    const feed = this.#feed
    const { copy } = this.#options
    this.#brokers.announce({
      ...{ replica: this.#name, isHolder: this.#holder !== null },
      ...{ host: hostname(), places: feed?.places ?? {} },
      position: feed?.position ?? { incarnation: '', sequence: 0 },
      ...{ waiting: feed?.waitingCount ?? 0, unsent: this.#outbox.unsentBlocks },
      ...{ control: this.#control.place?.number ?? -1, warehouse: this.#options.warehouse() },
      isCopying: copy !== null,
      troubles: [...this.troubles, ...(copy?.troubles ?? [])],
    })
  }

  async close(): Promise<void> {
    this.#edge?.close()
    this.#holder?.close()
    this.#outbox.close()
    this.#feed?.close()
    this.#control.close()
    this.#salts.close()
    clearInterval(this.#timer)
    await this.#brokers.close()
    await this.#log.close()
  }
}
