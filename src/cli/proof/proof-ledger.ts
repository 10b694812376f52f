/**
 * Records the events that a proof has sent, and their state. Events are numbered from 0, and the UUID of an event
 * contains its number, so a few bytes of memory per event are enough.
 */
import { createHash, randomBytes } from 'node:crypto'
import { isObject } from '../../base/json.ts'
import { PROOF_EVENTS_MAX } from '../limits.ts'

/** An event as it is sent. */
export interface ProofEvent {
  readonly uuid: string
  readonly event: string
  readonly distinct_id: string
  readonly properties: { readonly sequence: number; readonly pad: string; readonly sum: string }
}

/** The events that are stored wrongly, by their numbers. */
export interface Comparison {
  /** Acknowledged events that are not stored. */
  readonly lost: readonly number[]
  /** Events that are stored more than once. */
  readonly doubled: readonly number[]
  /** Events that are stored with different content. */
  readonly altered: readonly number[]
  /** Number of stored events that were never sent. */
  readonly inventedCount: number
}

/** Returns random numbers from 0 to 1. The numbers depend only on a seed, so that a proof can be repeated. */
export type Random = () => number

const UNKNOWN = 1
const ACKNOWLEDGED = 2
const PAD_CHARACTERS = 400
const NAMES = 7
const DISTINCT_IDS = 997
const SUM_CHARACTERS = 12
const NUMBER_DIGITS = 12
const COUNT_CEILING = 255

/** Returns the random number generator mulberry32. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The events of one proof. */
export class ProofLedger {
  readonly #random: Random
  readonly #states = new Uint8Array(PROOF_EVENTS_MAX)
  /** The first four groups of digits of a UUID. They are the same for all events of this proof. */
  readonly #prefix: string
  readonly #pads = new Uint16Array(PROOF_EVENTS_MAX)
  readonly #unknown = new Set<number>()
  #sentCount = 0

  constructor(random: Random) {
    this.#random = random
    const digits = randomBytes(8).toString('hex')
    const groups = [digits.slice(0, 8), digits.slice(8, 12), `4${digits.slice(12, 15)}`]
    this.#prefix = `${groups.join('-')}-8${digits.slice(13, 16)}-`
  }

  get sentCount(): number {
    return this.#sentCount
  }

  get acknowledgedCount(): number {
    return this.#sentCount - this.#unknown.size
  }

  /** True if another event can be created. */
  get hasRoom(): boolean {
    return this.#sentCount < PROOF_EVENTS_MAX
  }

  /** The numbers of the events that were sent and are not acknowledged. */
  get unknown(): Iterable<number> {
    return this.#unknown
  }

  isAcknowledged(number: number): boolean {
    return this.#states[number] === ACKNOWLEDGED
  }

  /** Creates an event, and returns its number. The event counts as sent from now on. */
  add(): number {
    const number = this.#sentCount++
    this.#states[number] = UNKNOWN
    this.#pads[number] = Math.floor(this.#random() * PAD_CHARACTERS)
    this.#unknown.add(number)
    return number
  }

  /** Returns the event with a number. It is always the same for this number. */
  eventOf(number: number): ProofEvent {
    const uuid = this.uuidOf(number)
    const pad = 'p'.repeat(this.#pads[number] ?? 0)
    return {
      uuid,
      event: `proof ${number % NAMES}`,
      distinct_id: `proof-${number % DISTINCT_IDS}`,
      properties: { sequence: number, pad, sum: sumOf(uuid, pad) },
    }
  }

  uuidOf(number: number): string {
    return this.#prefix + number.toString(16).padStart(NUMBER_DIGITS, '0')
  }

  acknowledge(numbers: readonly number[]): void {
    for (const number of numbers) {
      this.#states[number] = ACKNOWLEDGED
      this.#unknown.delete(number)
    }
  }

  /** Compares the ledger with all stored events, in the form in which an export writes them. */
  async compare(stored: AsyncIterable<unknown>): Promise<Comparison> {
    const counts = new Uint8Array(this.#sentCount)
    const altered: number[] = []
    let inventedCount = 0
    for await (const event of stored) {
      const number = this.#numberOf(event)
      if (number === null) {
        inventedCount++
        continue
      }
      const count = counts[number] ?? 0
      counts[number] = Math.min(COUNT_CEILING, count + 1)
      if (!isSame(event, this.eventOf(number))) altered.push(number)
    }
    const lost: number[] = []
    const doubled: number[] = []
    for (const [number, count] of counts.entries()) {
      if (count > 1) doubled.push(number)
      if (count === 0 && this.isAcknowledged(number)) lost.push(number)
    }
    return { lost, doubled, altered, inventedCount }
  }

  /** Returns the number of a stored event. Returns null if the event was never sent. */
  #numberOf(event: unknown): number | null {
    const uuid = isObject(event) ? event['uuid'] : undefined
    if (typeof uuid !== 'string' || !uuid.startsWith(this.#prefix)) return null
    const number = Number.parseInt(uuid.slice(-NUMBER_DIGITS), 16)
    return number < this.#sentCount ? number : null
  }
}

function isSame(stored: unknown, sent: ProofEvent): boolean {
  if (!isObject(stored) || !isObject(stored['properties'])) return false
  const { sequence, pad, sum } = stored['properties']
  return (
    stored['event'] === sent.event &&
    stored['distinct_id'] === sent.distinct_id &&
    sequence === sent.properties.sequence &&
    pad === sent.properties.pad &&
    sum === sent.properties.sum
  )
}

function sumOf(uuid: string, pad: string): string {
  return createHash('sha1').update(`${uuid}|${pad}`).digest('hex').slice(0, SUM_CHARACTERS)
}
