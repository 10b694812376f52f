/**
 * Stores many events of the usual traffic in a data directory without a running daemon. It uses the code that processes
 * accepted events. Only HTTP and the log are left out, because with them it would take several times as long.
 */
import { normalizeEvent } from '../../src/rules/capture/normalize.ts'
import type { EventContext } from '../../src/rules/capture/types.ts'
import { applyEvent } from '../../src/rules/persons/apply-event.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../src/rules/persons/limits.ts'
import type { PersonContext } from '../../src/rules/persons/person-repository.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import type { BenchContext } from '../harness.ts'
import { writeUuid } from './bodies.ts'
import { EventGenerator } from './events.ts'

/** The number of the first project of a daemon. */
const PROJECT_ID = 1
const EVENTS_PER_COMMIT = 20_000
const EVENTS_TOLD = 1_000_000
/** An upper bound for the bytes of one event as JSON. */
const EVENT_BYTES = 2000
const DISTINCT_EVENTS = 50_000
const USERS = 200_000
const STEP_MS = 250
const MAINTAIN_MS = 1000
/** The number of the stream of uuids. No load of the same bench uses this stream or a later one. */
const STREAM = 60_000
const FIRST_MS = Date.UTC(2024, 4, 1)

/**
 * Creates a data directory with this many events, or with fewer if `millisecondsMax` is over. Returns the number of
 * events. An event takes about 15 us.
 */
export async function fillStore(
  context: BenchContext,
  events: number,
  millisecondsMax: number,
): Promise<{ readonly dataDir: string; readonly events: number }> {
  const dataDir = context.newFolder()
  // A daemon is started once, to create the project of the events.
  const first = await context.startDaemon({ dataDir })
  await first.stop()
  const endMs = performance.now() + millisecondsMax
  const traffic = new StoredTraffic(dataDir, context.seed, Math.min(events, DISTINCT_EVENTS))
  let stored = 0
  while (stored < events && performance.now() < endMs) {
    const count = Math.min(EVENTS_PER_COMMIT, events - stored)
    traffic.add(count)
    stored += count
    if (stored % EVENTS_TOLD === 0) console.error(`# ${stored} stored`)
    // This pause lets the process handle signals.
    await new Promise((resolve) => setImmediate(resolve))
  }
  await traffic.close()
  return { dataDir, events: stored }
}

class StoredTraffic {
  readonly #writer: ProcessingWriter
  readonly #drawn: readonly { readonly properties: Record<string, unknown> }[]
  readonly #uuid = Buffer.from('00000000-0000-0000-0000-000000000000')
  #ordinal = 0

  constructor(dataDir: string, seed: number, distinctEvents: number) {
    this.#writer = new ProcessingWriter({ dataDir, isFlushDeferred: true })
    const generator = new EventGenerator({ seed, users: USERS })
    this.#drawn = Array.from({ length: distinctEvents }, () => generator.event())
  }

  /** Stores this many events in one transaction. Throws if an event is not stored. */
  add(count: number): void {
    for (let added = 0; added < count; added++) this.#add(this.#ordinal++)
    // The log stays empty, so the position in the log stays 0.
    this.#writer.commit(0)
    this.#writer.warehouse.writeIndex?.()
  }

  /** Merges all segments that can be merged, as a daemon does when it is idle, and closes the folder. */
  async close(): Promise<void> {
    while (this.#writer.warehouse.maintain(MAINTAIN_MS));
    await this.#writer.close()
  }

  #add(ordinal: number): void {
    const drawn = this.#drawn[ordinal % this.#drawn.length]
    const timeMs = FIRST_MS + ordinal * STEP_MS
    writeUuid(this.#uuid, 0, STREAM, ordinal)
    const uuid = this.#uuid.toString('latin1')
    const timestamp = new Date(timeMs).toISOString()
    const given = { ...drawn, properties: { ...drawn?.properties }, timestamp, uuid }
    const outcome = normalizeEvent(given, contextOf(timeMs), EVENT_BYTES)
    if (outcome.kind === 'drop') throw new Error(`an event was dropped: ${outcome.reason}`)
    const { event } = outcome
    const uuidBytes = Buffer.from(uuid.replaceAll('-', ''), 'hex')
    const identity = { projectId: PROJECT_ID, event, uuidBytes, uuidOffset: 0, hasClientUuid: true }
    const admission = this.#writer.admit(identity)
    if (admission === null) throw new Error('an event was taken for a duplicate')
    const persons = this.#writer.persons(PROJECT_ID, event, admission)
    const { personMode } = applyEvent(event, EVENT_BYTES, persons, personContextOf(timeMs))
    this.#writer.append(identity, admission, timeMs, personMode, false, 0)
  }
}

function contextOf(arrivedAtMs: number): EventContext {
  return {
    arrivedAtMs,
    sentAtMs: null,
    isSentAtInvalid: false,
    ip: '',
    isIpAnonymized: true,
    isHistorical: false,
    propertiesBytesMax: 0,
    aiPropertiesBytesMax: 0,
  }
}

function personContextOf(arrivedAtMs: number): PersonContext {
  return { projectId: PROJECT_ID, arrivedAtMs, propertiesBytesMax: PERSON_PROPERTIES_BYTES_MAX }
}
