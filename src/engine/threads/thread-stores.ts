/**
 * The open stores of one thread. A store is opened by the first call that needs it, and stays open. Each kind of thread
 * gets only its own calls, so no thread opens all stores.
 */
import type { CachesOfThread } from '../../base/memory/memory-board.ts'
import type { Proposal } from '../../ports/change-log.ts'
import type { LogAppender, LogReader } from '../../ports/log.ts'
import type { Outbox } from '../../ports/outbox.ts'
import type { Warehouse } from '../../ports/warehouse.ts'
import { ProjectDirectory, SHARED_CATALOGUE } from '../../store/catalog/organization-store.ts'
import type { EventReader } from '../../store/events/read/event-reader.ts'
import type { DamageReports } from '../front/damage-reports.ts'
import type { LogProcessor } from '../processor/log-processor.ts'
import { FlagTasks } from './flag-tasks.ts'
import { OrganizationWorker } from './organization-tasks.ts'
import { PieceCounts } from './queries/query-parts.ts'
import { RememberedParts } from './queries/remembered-parts.ts'
import type { ThreadSettings } from './tasks.ts'

interface Closable {
  close(): Promise<void>
}

/** The function with which the writer thread opens its logs. */
export interface AppendWiring {
  /** Opens the appender of a log. In a cluster, this is the outbox of `partition`. */
  appender(settings: ThreadSettings, partition: number): LogAppender
}

/** The functions with which the processing thread opens what it works with. */
export interface ProcessWiring {
  processor(settings: ThreadSettings, damage: DamageReports): LogProcessor
  /** Returns the outbox to which the processor reports its commits. */
  outbox(): Outbox
}

/** The functions with which all threads except the writer thread and the processing thread open what they work with. */
export interface ReadWiring {
  /** Opens the log, to look up single blocks. */
  log(settings: ThreadSettings): LogReader
  /** Opens the reader of the store: of events, persons, groups, cohorts and so on. */
  reader(settings: ThreadSettings, damage: DamageReports): EventReader
  /** Returns the store of events that belongs to a reader. */
  warehouse(reader: EventReader): Warehouse
}

/** The functions with which a thread opens what it works with. They depend on the kind of the thread. */
export type ThreadWiring = AppendWiring | ProcessWiring | ReadWiring

/** The stores of a thread that reads, checks uploads, or changes flags and the organization. */
export class ThreadStores {
  readonly settings: ThreadSettings
  /** The cached results of queries. */
  readonly remembered: RememberedParts
  /** For each query that had to be computed in pieces, the number of pieces. */
  readonly pieceCounts = new PieceCounts()
  readonly #wiring: ReadWiring
  readonly #damage: DamageReports
  readonly #open = new Map<string, Closable>()

  constructor(settings: ThreadSettings, wiring: ReadWiring, damage: DamageReports) {
    this.settings = settings
    this.remembered = new RememberedParts(settings.plan?.rememberedBytes)
    this.#wiring = wiring
    this.#damage = damage
    if (settings.sharedLogChannel !== undefined) SHARED_CATALOGUE.propose(settings.dataDir)
  }

  /**
   * In a cluster, returns the changes of the catalogue that the current call proposes, and clears them. They are not
   * written yet.
   */
  takeProposal(): Proposal | null {
    return SHARED_CATALOGUE.takeProposal()
  }

  /** In a cluster, the copy of the catalogue on this machine. */
  get catalogue(): ReturnType<typeof SHARED_CATALOGUE.open> {
    return this.#once('catalogue', () => SHARED_CATALOGUE.open(this.settings.dataDir))
  }

  get log(): LogReader {
    return this.#once('log', () => this.#wiring.log(this.settings))
  }

  get reader(): EventReader {
    return this.#once('reader', () => this.#wiring.reader(this.settings, this.#damage))
  }

  /** Call it when a call has ended. Releases resources that only a running scan needs. */
  rest(): void {
    if (this.#open.has('reader')) this.reader.scans?.rest()
  }

  /** The sizes of the thread's caches. */
  get caches(): CachesOfThread {
    const remembered = this.settings.analytics === undefined ? {} : this.remembered.caches
    return this.#open.has('reader') ? { ...this.reader.caches, ...remembered } : remembered
  }

  /** Evicts everything that can be computed or read again. Do not call it while a call is running. */
  release(): void {
    if (this.#open.has('reader')) this.reader.release()
  }

  get warehouse(): Warehouse {
    return this.#wiring.warehouse(this.reader)
  }

  get directory(): ProjectDirectory {
    return this.#once('directory', () => new ProjectDirectory(this.settings.dataDir))
  }

  get flags(): FlagTasks {
    return this.#once('flags', () => new FlagTasks(this.settings.dataDir))
  }

  get organization(): OrganizationWorker {
    return this.#once('organization', () => new OrganizationWorker(this.settings.dataDir))
  }

  /** The number of bytes that one query may use on this thread. */
  get questionBytesMax(): number {
    const { plan, analytics } = this.settings
    if (plan === undefined || analytics === undefined) return Number.POSITIVE_INFINITY
    return plan.questionBytes / analytics.cache.shared.threads
  }

  /** How many bytes of decoded columns are in the caches of this thread alone. */
  get cachedBytes(): number {
    return this.#open.has('reader') ? (this.reader.caches.column_values?.bytes ?? 0) : 0
  }

  /** The time that one analytic query may take, in milliseconds. */
  get queryMsMax(): number {
    if (this.settings.analytics === undefined) throw new TypeError('not a thread for analytics')
    return this.settings.analytics.queryMsMax
  }

  /** Closes the open stores. The store that was opened last is closed first. */
  async close(): Promise<void> {
    for (const store of [...this.#open.values()].reverse()) await store.close()
    this.#open.clear()
  }

  #once<Store extends Closable>(name: string, open: () => Store): Store {
    let store = this.#open.get(name)
    if (store === undefined) {
      store = open()
      this.#open.set(name, store)
    }
    // The cast is safe, because only a store of this type is opened under this name.
    return store as Store
  }
}
