/**
 * What one thread has open. Stores are opened at the first call that needs them and stay open; the pool
 * sends each call always to the same threads.
 */
import type { LogAppender, LogReader } from '../../ports/log.ts'
import type { Outbox } from '../../ports/outbox.ts'
import type { Warehouse } from '../../ports/warehouse.ts'
import { ProjectDirectory } from '../../store/catalog/organization-store.ts'
import type { EventReader } from '../../store/warehouse/read/event-reader.ts'
import type { DamageReports } from '../front/damage-reports.ts'
import { LiveRows } from '../processor/live-rows.ts'
import type { LogProcessor } from '../processor/log-processor.ts'
import { FlagTasks } from './flag-tasks.ts'
import { OrganizationWorker } from './organization-tasks.ts'
import { FrontWatch } from './queries/front-watch.ts'
import { RememberedParts } from './queries/remembered-parts.ts'
import type { ThreadSettings } from './tasks.ts'

interface Closable {
  close(): Promise<void>
}

/** Which implementations the threads of a process work with. */
export interface ThreadWiring {
  appender(settings: ThreadSettings): LogAppender
  /** For whoever looks something up in it. */
  log(settings: ThreadSettings): LogReader
  processor(settings: ThreadSettings, damage: DamageReports): LogProcessor
  /** Persons and all that is not in the warehouse. */
  reader(settings: ThreadSettings, damage: DamageReports): EventReader
  /** Of the thread whose reader that is. */
  warehouse(reader: EventReader): Warehouse
  /** Of what the processor of this thread stores. */
  outbox(): Outbox
}

/** The stores of a thread. */
export class ThreadStores {
  readonly settings: ThreadSettings
  /** Of queries. */
  readonly remembered = new RememberedParts()
  readonly front: FrontWatch
  readonly #wiring: ThreadWiring
  readonly #damage: DamageReports
  #live: LiveRows | undefined
  readonly #open = new Map<string, Closable>()

  constructor(settings: ThreadSettings, wiring: ThreadWiring, damage: DamageReports) {
    this.settings = settings
    this.front = new FrontWatch(settings.frontRequests ?? new Int32Array(1))
    this.#wiring = wiring
    this.#damage = damage
  }

  get appender(): LogAppender {
    return this.#once('appender', () => this.#wiring.appender(this.settings))
  }

  get log(): LogReader {
    return this.#once('log', () => this.#wiring.log(this.settings))
  }

  get processor(): LogProcessor {
    return this.#once('processor', () => this.#wiring.processor(this.settings, this.#damage))
  }

  /** What streams want of the processor of this thread. */
  get live(): LiveRows {
    this.#live ??= new LiveRows(this.#wiring.outbox())
    return this.#live
  }

  get reader(): EventReader {
    return this.#once('reader', () => this.#wiring.reader(this.settings, this.#damage))
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
