/**
 * The outboxes of this machine, one for each partition. Each has a group commit and a folder of its own. An outbox is
 * created when the first request needs it. The next start opens the existing outboxes again. A request waits only for
 * the outbox of its partition.
 */
import { readdirSync } from 'node:fs'
import { getOrAdd } from '../base/maps.ts'
import type { Settings } from '../config/settings.ts'
import {
  type AcknowledgeTarget,
  type CommitOptions,
  type Commits,
  GroupCommit,
  type RequestBlock,
} from '../engine/front/group-commit.ts'
import type { AppendResult, AppendTask } from '../engine/threads/tasks.ts'
import type { RecordEvents, RecordHeader } from '../rules/capture/log-block.ts'
import { outboxFolder } from '../store/directory/data-dir.ts'
import { LogReader } from '../store/log/event-log.ts'
import { AcceptingOutbox } from './accepting-outbox.ts'
import { eventStream, type NatsBrokers } from './nats.ts'
import { OutboxIdentity } from './outbox-identity.ts'

/**
 * Accepted events count against the fair share of their sender until replicas report that the events are processed. If
 * too few replicas report, events count as processed after this fraction of the lag limit.
 */
const CHARGED_PART = 1 / 3

/** What the outboxes need from their node. */
export interface OutboxesOptions {
  readonly settings: Settings
  readonly brokers: NatsBrokers
  /** Appends to the log of an outbox, one append at a time. */
  readonly append: (task: AppendTask) => Promise<AppendResult>
  readonly partitionOf: (projectId: number) => number
  readonly commits: CommitOptions
}

interface Opened {
  readonly name: string
  readonly commit: GroupCommit
  readonly outbox: AcceptingOutbox
  readonly log: LogReader
  /** Opens the log at the first call. Later calls return the promise of the first call. */
  readonly started: () => Promise<void>
}

/** All outboxes of this process, as one receiver of accepted requests. */
export class Outboxes implements Commits {
  readonly #options: OutboxesOptions
  readonly #opened = new Map<number, Opened>()
  /** The same outboxes as an array, because each request iterates over all of them. */
  readonly #all: Opened[] = []
  #turn: Promise<unknown> = Promise.resolve()

  constructor(options: OutboxesOptions) {
    this.#options = options
  }

  /** Opens the existing outboxes, and the one of partition 0, whose name is the name of this machine. */
  async start(): Promise<void> {
    await this.#of(0).started()
    const names = readdirSync(outboxFolder(this.#options.settings.dataDir))
    for (const name of names) {
      const [, partition] = /^partition-(\d+)$/.exec(name) ?? []
      if (partition !== undefined) await this.#of(Number(partition)).started()
    }
  }

  /** The name by which other machines know this machine. */
  get name(): string {
    return this.#of(0).name
  }

  /** The number of blocks that the brokers do not have yet, by partition. */
  get unsentBlocks(): ReadonlyMap<number, number> {
    return new Map([...this.#opened].map(([of, { outbox }]) => [of, outbox.unsentBlocks]))
  }

  /** The number of blocks, in all partitions, that the brokers do not have yet. */
  get unsent(): number {
    return this.#all.reduce((sum, { outbox }) => sum + outbox.unsentBlocks, 0)
  }

  /** True if an outbox has found that no majority of brokers answers. */
  get isAlone(): boolean {
    return this.#all.some(({ outbox }) => outbox.aloneSinceMs !== null)
  }

  /** The counts of all outboxes, added up. */
  get counts(): AcceptingOutbox['counts'] {
    const sum = (name: keyof AcceptingOutbox['counts']): number =>
      this.#all.reduce((sum, { outbox }) => sum + outbox.counts[name], 0)
    return { alone: sum('alone'), messages: sum('messages'), messageBytes: sum('messageBytes') }
  }

  get pendingBytes(): number {
    return this.#all.reduce((sum, { commit }) => sum + commit.pendingBytes, 0)
  }

  get isHealthy(): boolean {
    return this.#all.every(({ commit }) => commit.isHealthy)
  }

  get commitAgeMs(): number {
    return Math.max(0, ...this.#all.map(({ commit }) => commit.commitAgeMs))
  }

  add(header: RecordHeader, events: RecordEvents, target: AcknowledgeTarget): number {
    return this.#of(this.#options.partitionOf(header.projectId)).commit.add(header, events, target)
  }

  addBlock(block: RequestBlock, target: AcknowledgeTarget): void {
    this.#of(this.#options.partitionOf(block.projectId)).commit.addBlock(block, target)
  }

  /**
   * Does nothing. This would be the place to drop blocks that this machine has processed. But an outbox may only drop
   * blocks that replicas have stored, and learns about them from the reports of the replicas.
   */
  trim(): void {}

  async drained(): Promise<void> {
    await Promise.all(this.#all.map(({ commit }) => commit.drained()))
  }

  async close(): Promise<void> {
    for (const { outbox } of this.#all) outbox.close()
    await Promise.all(this.#all.map(({ log }) => log.close()))
  }

  #of(partition: number): Opened {
    return getOrAdd(this.#opened, partition, () => this.#open(partition))
  }

  #open(partition: number): Opened {
    const { settings, brokers, commits } = this.#options
    const { clock, log: logger } = commits
    const folder = outboxFolder(settings.dataDir, partition)
    const identity = new OutboxIdentity(folder)
    const log = new LogReader({ dataDir: folder })
    const append = (task: AppendTask) => this.#append({ ...task, partition })
    const outbox = new AcceptingOutbox({
      identity,
      clock,
      logger,
      append,
      log,
      others: brokers,
      shared: brokers.stream(eventStream(partition)),
      isMajorityNeeded: settings.durability === 'replicated',
      copies: settings.clusterCopies,
      onStored: (through) => commit.trim(through),
    })
    let starting: Promise<void> | undefined
    const started = (): Promise<void> => {
      starting ??= append({ blocks: [], trimThrough: 0 }).then(({ last }) => outbox.start(last))
      return starting
    }
    const pool = {
      append: async (task: AppendTask): Promise<AppendResult> => {
        await started()
        return await outbox.append(task)
      },
    }
    const chargeMsMax = settings.processingLagMsMax * CHARGED_PART
    const commit = new GroupCommit({ ...commits, pool, chargeMsMax })
    const opened = { name: identity.name, commit, outbox, log, started }
    this.#all.push(opened)
    return opened
  }

  /**
   * Runs one append at a time for all outboxes, because a single thread writes them, and that thread does not return to
   * its event loop while it waits for the next append.
   */
  #append(task: AppendTask): Promise<AppendResult> {
    const turn = this.#turn.then(() => this.#options.append(task))
    this.#turn = turn.catch(() => undefined)
    return turn
  }
}
