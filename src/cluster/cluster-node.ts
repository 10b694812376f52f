/**
 * One node of a cluster: the part of a daemon that works with other machines. It has outboxes that accept events. If it
 * is a replica of a partition, it follows the shared log and answers the requests of other machines. For all other
 * partitions, it asks other machines. A single machine does not load this file.
 */
import { hostname } from 'node:os'
import { OperatorError } from '../base/errors.ts'
import type { MetricPage } from '../base/metrics.ts'
import { refusal } from '../base/refusals.ts'
import type { Settings } from '../config/settings.ts'
import { DailySalts } from '../engine/front/daily-salts.ts'
import type { FlagService } from '../engine/front/flag-service.ts'
import type { CommitOptions } from '../engine/front/group-commit.ts'
import type { LiveEvents } from '../engine/front/live-events.ts'
import { catalogueOf, type WorkerPool } from '../engine/threads/pool.ts'
import type { CommandOutcome, ProcessResult } from '../engine/threads/tasks.ts'
import { type ProjectDirectory, SHARED_CATALOGUE } from '../store/catalog/organization-store.ts'
import { outboxFolder, readProcessedPosition } from '../store/directory/data-dir.ts'
import { claimPartition, readOrigin } from '../store/open-store.ts'
import { addMetrics, type ClusterFigures } from './cluster-metrics.ts'
import { ControlState } from './control-state.ts'
import { Edge } from './edge.ts'
import { HolderService } from './holder-service.ts'
import { HOLDER_LATE_MS_MAX, MESSAGE_HEADS_BYTES_MAX } from './limits.ts'
import { CONTROL_STREAM, eventStream, NatsBrokers, SALT_STREAM } from './nats.ts'
import { EDITION, OlderMachines } from './older-machines.ts'
import { Outboxes } from './outboxes.ts'
import { ReplicaFeed } from './replica-feed.ts'
import { noteBrokers } from './shared-change.ts'
import { SharedSalts } from './shared-salts.ts'
import type { SharedStream } from './shared-stream.ts'

/**
 * The longest time for which a start waits until this machine has the earlier changes of the catalogue. After this
 * time, the start continues without them.
 */
const CATCH_UP_MS = 1000
const ANNOUNCE_MS = 250
/** A node repeats its report at this interval even if nothing has changed, so that new machines receive it. */
const ANNOUNCE_AGAIN_MS = 2000

/** What a node needs from the daemon around it. */
export interface ClusterNodeOptions {
  readonly settings: Settings
  /** The name of the channel by which the processing thread receives the shared log. */
  readonly channel: string
  readonly page: MetricPage
  /** The threads of this daemon: they carry out calls, and append to the log of the outbox. */
  readonly pool: Pick<WorkerPool, 'append' | 'run' | 'queries'>
  /** Gives access to the flag snapshots, and to the stored persons and groups that flag decisions need. */
  readonly flags: () => Pick<FlagService, 'snapshots' | 'stored'>
  /** Starts the next processing run at once, because a request waits for the results of blocks in the log. */
  readonly hurry: () => void
  /** Called with the outcome of a command that another machine has carried out. */
  readonly onOutcome: (outcome: CommandOutcome) => void
  /** Called when a block of the shared log can be processed. */
  readonly onBlock: (number: number, bytes: number, events: number) => void
  /** The partitions of projects, and the name of the cluster's warehouse. */
  readonly directory: Pick<ProjectDirectory, 'partitionOf' | 'partitions' | 'warehouse'>
  /** The copy of events to ClickHouse on this machine, or null if this machine does not copy events. */
  readonly copy: { readonly troubles: readonly string[] } | null
  readonly commits: CommitOptions
}

/** One node of a cluster; the top of this file describes it. */
export class ClusterNode {
  /** Sends requests to the machines that store other partitions. */
  readonly edge: Edge
  /** The partition that this machine stores, or null. */
  readonly #held: number | null
  readonly #holder: HolderService | null
  readonly #brokers: NatsBrokers
  /** Receives accepted requests. */
  readonly commits: Outboxes
  readonly #options: ClusterNodeOptions
  #stream: SharedStream | null = null
  #feed: ReplicaFeed | null = null
  readonly #partitionOf: (projectId: number) => number
  /** Orders the changes of the catalogue that this machine makes, together with those of other machines. */
  readonly changes: ControlState
  readonly #salts: SharedSalts
  readonly #older: OlderMachines
  #announcedAtMs = 0
  /**
   * `seen`: the last sequence number of the stream at the last check. `atMs`: the last time at which this replica had
   * stored everything up to `seen`. Both are used to decide whether this replica is up to date.
   */
  #current = { seen: Number.POSITIVE_INFINITY, atMs: Number.NEGATIVE_INFINITY }
  readonly #timer: NodeJS.Timeout

  constructor(options: ClusterNodeOptions) {
    this.#options = options
    const { settings, pool, directory, commits } = options
    const { clock, log: logger } = commits
    const { dataDir, partitions } = settings
    this.#held = partitions[0] ?? null
    // A request without a project, such as a command about dead letters, belongs to the partition of this machine.
    const partitionOf = (projectId: number | null): number =>
      projectId === null || projectId === 0 ? (this.#held ?? 0) : directory.partitionOf(projectId)
    this.#partitionOf = partitionOf
    this.#brokers = new NatsBrokers(settings.cluster, logger)
    this.#older = new OlderMachines(() => clock.monotonic())
    this.#brokers.onReport((report) => this.#older.hear(report))
    this.commits = new Outboxes({
      settings,
      brokers: this.#brokers,
      partitionOf,
      commits,
      append: (task) => pool.append(task),
    })
    this.changes = new ControlState({
      stream: this.#brokers.stream(CONTROL_STREAM),
      copy: catalogueOf(pool),
      logger,
      place: SHARED_CATALOGUE.place(dataDir),
      onChange: () => options.flags().snapshots.refresh(),
    })
    this.#salts = new SharedSalts({
      stream: this.#brokers.stream(SALT_STREAM),
      clock,
      salts: new DailySalts(dataDir),
    })
    const control = (): number => this.changes.place?.number ?? 0
    const asking = { messages: this.#brokers, pool, control }
    this.edge = new Edge({
      ...asking,
      held: this.#held,
      partitionOf,
      folder: outboxFolder(dataDir),
      onDefinitions: (ids) => options.flags().snapshots.definitionsChanged(ids),
    })
    const holding = { ...asking, stored: () => options.flags().stored, hurry: options.hurry }
    this.#holder =
      this.#held === null ? null : new HolderService({ ...holding, partition: this.#held })
    this.#timer = setInterval(() => this.#announce(), ANNOUNCE_MS)
    addMetrics(options.page, () => this.#figures)
  }

  /** Opens the outboxes and starts to follow the streams. Brokers need not answer for this. Throws `OperatorError`. */
  async start(): Promise<void> {
    const { settings, channel, onBlock } = this.#options
    const { dataDir, cluster } = settings
    const held = this.#held
    if (held !== null) claimPartition(dataDir, held)
    await this.commits.start()
    noteBrokers(dataDir, cluster)
    await Promise.all([this.changes.caughtUp(CATCH_UP_MS), this.#salts.ready(CATCH_UP_MS)])
    const tooSmall = this.#smallMessages()
    if (tooSmall !== null) throw new OperatorError(tooSmall)
    if (held === null) return
    const shared = this.#brokers.stream(eventStream(held))
    this.#stream = shared
    this.#feed = new ReplicaFeed({
      shared,
      channel,
      onBlock,
      logger: this.#options.commits.log,
      origin: readOrigin(dataDir),
      position: readProcessedPosition(dataDir),
    })
  }

  /**
   * Called when a command of this machine is in a log and a client waits for its outcome. Returns null if this machine
   * carries out the command itself.
   */
  logged(uuid: string, isAwaited: () => boolean, projectId: number): true | null {
    const partition = this.#partitionOf(projectId)
    if (partition === this.#held) return null
    void this.edge.outcome(partition, uuid, isAwaited).then((known) => {
      if (known !== null) this.#options.onOutcome(known.outcome)
    })
    return true
  }

  /**
   * Returns the live event streams, limited to the projects that are stored here. A stream of any other project is
   * refused.
   */
  streams(live: Pick<LiveEvents, 'open'>): Pick<LiveEvents, 'open'> {
    return {
      open: (request) =>
        this.edge.isElsewhere(request.filter.projectId)
          ? Promise.reject(refusal('streams_elsewhere'))
          : live.open(request),
    }
  }

  /**
   * Passes on what processing on this machine has done: the feed can confirm blocks, and waiting requests can be
   * answered.
   */
  processed(result: ProcessResult): void {
    this.#feed?.processed(result.processed)
    this.#holder?.processed(result)
  }

  /**
   * True if this machine stores partition 0, and another machine copies its events to the warehouse. Events of other
   * partitions are not copied. The other machine also erases the copies, and only then writes to the log that an
   * erasure is done.
   */
  get isSaidElsewhere(): boolean {
    const { copy, directory } = this.#options
    return this.#held === 0 && copy === null && directory.warehouse() !== null
  }

  /** True while a machine of an older version reports its status. */
  get isMixed(): boolean {
    return this.#older.areThere
  }

  /** The current problems of this node, as sentences for `/_health`. */
  get troubles(): readonly string[] {
    const what = `${this.commits.unsent} blocks are stored on this disk only`
    const alone = this.commits.isAlone ? [`No majority of brokers answers: ${what}.`] : []
    const parts = [this.#feed?.trouble ?? null, this.changes.trouble, this.#smallMessages()]
    const troubles = parts.filter((trouble) => trouble !== null)
    return [...alone, ...troubles, ...this.edge.troubles]
  }

  /**
   * Returns a sentence if the largest allowed request body does not fit into a message of the brokers. Such a body
   * would stay in the outbox forever and block all later ones.
   */
  #smallMessages(): string | null {
    const { bodyBytesMax } = this.#options.settings
    const bytesMax = this.#brokers.messageBytesMax
    if (bytesMax === null || bytesMax >= bodyBytesMax + MESSAGE_HEADS_BYTES_MAX) return null
    const wanted = `Set it to at least ${bodyBytesMax + MESSAGE_HEADS_BYTES_MAX}, or lower \`body_limit\``
    return `\`max_payload\` of the brokers is ${bytesMax} bytes, but a body may have ${bodyBytesMax} bytes. ${wanted}.`
  }

  get #figures(): ClusterFigures {
    const { counts, isAlone, unsent, unsentBlocks } = this.commits
    const waiting = this.#feed?.waitingCount ?? 0
    const { counts: control, place } = this.changes
    return {
      ...counts,
      isAlone,
      unsent,
      unsentBlocks,
      waiting,
      control,
      controlNumber: place?.number ?? 0,
      ...this.edge.link.counts,
      answered: this.#holder?.answered ?? 0,
    }
  }

  /** Decides whether this replica answers other machines: only while it lacks no blocks and is up to date. */
  #lookWhetherCurrent(now: number): void {
    const feed = this.#feed
    if (feed === null || this.#stream === null || this.#holder === null) return
    const { seen, incarnation } = this.#stream
    // `seen` stays infinite until the end of the stream is known: before that, this replica cannot tell whether it has
    // reached the end.
    if (this.#current.seen === Number.POSITIVE_INFINITY && incarnation !== '') {
      this.#current = { ...this.#current, seen }
    }
    if (feed.storedSequence >= this.#current.seen) this.#current = { seen, atMs: now }
    const isCurrent = now - this.#current.atMs < HOLDER_LATE_MS_MAX
    this.#holder.serve(isCurrent && feed.trouble === null && this.changes.trouble === null)
  }

  #announce(): void {
    const now = performance.now()
    this.#lookWhetherCurrent(now)
    const isNews = this.#feed?.takeNews() === true
    if (!isNews && now - this.#announcedAtMs < ANNOUNCE_AGAIN_MS) return
    this.#announcedAtMs = now
    const feed = this.#feed
    const { copy, directory } = this.#options
    this.#brokers.announce({
      replica: this.commits.name,
      host: hostname(),
      edition: EDITION,
      partition: this.#held,
      partitions: directory.partitions(),
      places: feed?.places ?? {},
      position: feed?.position ?? { incarnation: '', sequence: 0 },
      waiting: feed?.waitingCount ?? 0,
      unsent: this.commits.unsent,
      control: this.changes.place?.number ?? -1,
      warehouse: directory.warehouse(),
      isCopying: copy !== null,
      troubles: [...this.troubles, ...(copy?.troubles ?? [])],
    })
  }

  async close(): Promise<void> {
    this.edge.close()
    this.#holder?.close()
    await this.commits.close()
    this.#feed?.close()
    this.changes.close()
    this.#salts.close()
    clearInterval(this.#timer)
    await this.#brokers.close()
  }
}
