/**
 * What one thread has open. Stores are opened at the first call that needs them and stay open; the pool
 * sends each call always to the same threads.
 */
import type { CachesOfThread } from '../../base/memory/memory-board.ts'
import type { Proposal } from '../../ports/change-log.ts'
import type { LogAppender, LogReader } from '../../ports/log.ts'
import type { Outbox } from '../../ports/outbox.ts'
import type { Warehouse } from '../../ports/warehouse.ts'
import { ProjectDirectory, SHARED_CATALOGUE } from '../../store/catalog/organization-store.ts'
import type { EventReader } from '../../store/warehouse/read/event-reader.ts'
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

/** Which implementation the thread of the log works with. */
export interface AppendWiring {
  /** `partition`: in a cluster, that of the outbox. */
  appender(settings: ThreadSettings, partition: number): LogAppender
}

/** Which implementations the processing thread works with. */
export interface ProcessWiring {
  processor(settings: ThreadSettings, damage: DamageReports): LogProcessor
  /** Of what the processor of this thread stores. */
  outbox(): Outbox
}

/** Which implementations all other threads work with. */
export interface ReadWiring {
  /** For whoever looks something up in the log. */
  log(settings: ThreadSettings): LogReader
  /** Persons and all that is not in the warehouse. */
  reader(settings: ThreadSettings, damage: DamageReports): EventReader
  /** Of the thread whose reader that is. */
  warehouse(reader: EventReader): Warehouse
}

/** Which implementations a thread works with. */
export type ThreadWiring = AppendWiring | ProcessWiring | ReadWiring

/** The stores of a thread that reads, checks uploads, or changes flags and the organization. */
export class ThreadStores {
  readonly settings: ThreadSettings
  /** Of queries. */
  readonly remembered: RememberedParts
  /** Of queries that had to be computed in pieces. */
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

  /** In a cluster: what a call has decided and not written; once. */
  takeProposal(): Proposal | null {
    return SHARED_CATALOGUE.takeProposal()
  }

  /** In a cluster. */
  get catalogue(): ReturnType<typeof SHARED_CATALOGUE.open> {
    return this.#once('catalogue', () => SHARED_CATALOGUE.open(this.settings.dataDir))
  }

  get log(): LogReader {
    return this.#once('log', () => this.#wiring.log(this.settings))
  }

  get reader(): EventReader {
    return this.#once('reader', () => this.#wiring.reader(this.settings, this.#damage))
  }

  /** A call has ended, and with it whatever it asked. */
  rest(): void {
    if (this.#open.has('reader')) this.reader.scans?.rest()
  }

  /** What the caches of the thread hold. */
  get caches(): CachesOfThread {
    const remembered = this.settings.analytics === undefined ? {} : this.remembered.caches
    return this.#open.has('reader') ? { ...this.reader.caches, ...remembered } : remembered
  }

  /** Gives up what can be made again; not while a call uses it. */
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

  /** Working memory of one question on this thread. */
  get questionBytesMax(): number {
    const { plan, analytics } = this.settings
    if (plan === undefined || analytics === undefined) return Number.POSITIVE_INFINITY
    return plan.questionBytes / analytics.cache.shared.threads
  }

  /** Bytes of its own that decoded columns take. */
  get cachedBytes(): number {
    return this.#open.has('reader') ? (this.reader.caches.column_values?.bytes ?? 0) : 0
  }

  /** Time that one analytic question may take. */
  get queryMsMax(): number {
    if (this.settings.analytics === undefined) throw new TypeError('not a thread for analytics')
    return this.settings.analytics.queryMsMax
  }

  /** Closes what is open, what was opened last first. */
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
    // Opened under this name by nobody else.
    return store as Store
  }
}
