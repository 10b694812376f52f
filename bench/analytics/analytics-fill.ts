/**
 * The setup of the benches `analytics` and `queries`: stores the same events in a data directory and in the databases
 * that Tenrec is compared with, holds back some events for later, and watches the daemon's memory.
 */
import { personUuid } from '../../src/rules/persons/person-uuid.ts'
import { type Daemon, PROJECT_KEY } from '../daemon.ts'
import type { BenchContext } from '../harness.ts'
import { AnalyticStore, PROJECT_ID } from './analytics-store.ts'
import { AnalyticWorkload } from './analytics-workload.ts'
import { type EventTable, rowOf } from './event-table.ts'

const PERSONS = 200_000
/** A small run has fewer persons, so that each person still has several events. */
const EVENTS_PER_PERSON_MIN = 5
const EVENTS_PER_COMMIT = 20_000
const EVENTS_TOLD = 1_000_000
const EVENTS_PER_REQUEST = 500
const MEMORY_POLL_MS = 100

/** A data directory with events, and a way to add more. */
export interface FilledStore {
  readonly dataDir: string
  /** Sends this many of the events that were held back to the daemon and the tables, and waits until all are stored. */
  addLater(count: number, daemon: Daemon): Promise<void>
}

/**
 * Creates a data directory with this many events, and inserts the same events into the tables. `later` is the number of
 * further events of the same 90 days that are held back for `addLater`.
 */
export async function fillAll(
  context: BenchContext,
  events: number,
  tables: readonly EventTable[],
  later = 0,
): Promise<FilledStore> {
  const dataDir = context.newFolder()
  // A daemon is started once, to create the project of the events.
  const first = await context.startDaemon({ dataDir })
  await first.stop()
  const persons = Math.min(PERSONS, Math.floor(events / EVENTS_PER_PERSON_MIN))
  const distinctIds = Array.from({ length: persons }, (_, person) => `person-${person}`)
  const uuids = distinctIds.map((distinctId) => personUuid(PROJECT_ID, distinctId))
  const workload = new AnalyticWorkload({ seed: context.seed, events: events + later, persons })
  const store = new AnalyticStore(dataDir)
  let inserted: Promise<unknown> = Promise.resolve()
  for (let stored = 0; stored < events; ) {
    const end = Math.min(events, stored + EVENTS_PER_COMMIT)
    let rows = ''
    for (; stored < end; stored++) {
      const event = workload.next()
      store.add(event, distinctIds[event.person] ?? '')
      if (tables.length > 0) rows += `${rowOf(event, uuids[event.person] ?? '')}\n`
    }
    store.commit()
    await inserted
    inserted = Promise.all(tables.map((table) => table.insert(rows)))
    // The error is not lost: the code that awaits this promise receives it.
    inserted.catch(() => undefined)
    if (!context.isQuick && stored % EVENTS_TOLD === 0) console.error(`# ${stored} stored`)
  }
  await inserted
  await store.close()
  for (const table of tables) {
    const rows = await table.settle()
    if (rows !== events) throw new Error(`the baseline has ${rows} of ${events} events`)
  }
  return {
    dataDir,
    async addLater(count, daemon) {
      let rows = ''
      for (let sent = 0; sent < count; sent += EVENTS_PER_REQUEST) {
        const batch = Array.from({ length: Math.min(EVENTS_PER_REQUEST, count - sent) }, () => {
          const event = workload.next()
          rows += `${rowOf(event, uuids[event.person] ?? '')}\n`
          return {
            event: event.name,
            distinct_id: distinctIds[event.person],
            timestamp: new Date(event.timeSeconds * 1000).toISOString(),
            properties: event.properties,
          }
        })
        const body = JSON.stringify({ api_key: PROJECT_KEY, batch })
        const response = await fetch(`${daemon.url}/batch/`, { method: 'POST', body })
        await response.arrayBuffer()
        if (response.status !== 200) throw new Error(`/batch/ answered ${response.status}`)
      }
      for (const table of tables) await table.insert(rows)
      await daemon.drain()
    },
  }
}

/** Records the largest anonymous memory of a daemon. */
export class MemoryWatch {
  readonly #daemon: Daemon
  readonly #timer: NodeJS.Timeout
  #highestBytes = 0

  constructor(daemon: Daemon) {
    this.#daemon = daemon
    this.#timer = setInterval(() => this.#look(), MEMORY_POLL_MS)
  }

  /** Ends the recording and returns the largest value in bytes. */
  end(): number {
    this.stop()
    this.#look()
    return this.#highestBytes
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const { anonymousBytes } = this.#daemon.memory()
    if (anonymousBytes > this.#highestBytes) this.#highestBytes = anonymousBytes
  }
}
