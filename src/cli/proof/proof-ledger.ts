/**
 * What a proof has sent, and what became of it. Events are numbered from 0. The number is in the uuid, so that a byte
 * for each event is enough to know them all.
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

/** What is wrong with what was read, as numbers of events. */
export interface Comparison {
  /** Acknowledged and not there. */
  readonly lost: readonly number[]
  /** There more than once. */
  readonly doubled: readonly number[]
  /** There, and not as it was sent. */
  readonly altered: readonly number[]
  /** Events that were never sent. */
  readonly inventedCount: number
}

/** Numbers from 0 to 1 that depend on a seed only. */
export type Random = () => number

const UNKNOWN = 1
const ACKNOWLEDGED = 2
const PAD_CHARACTERS = 400
const NAMES = 7
const DISTINCT_IDS = 997
const SUM_CHARACTERS = 12
const NUMBER_DIGITS = 12
const COUNT_CEILING = 255

/** The generator mulberry32. */
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
  /** The first four groups of every uuid of this proof. */
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

  /** Whether another event may be made. */
  get hasRoom(): boolean {
    return this.#sentCount < PROOF_EVENTS_MAX
  }

  /** Numbers of events that were sent and not acknowledged. */
  get unknown(): Iterable<number> {
    return this.#unknown
  }

  isAcknowledged(number: number): boolean {
    return this.#states[number] === ACKNOWLEDGED
  }

  /** Makes a new event and answers its number. It counts as sent. */
  add(): number {
    const number = this.#sentCount++
    this.#states[number] = UNKNOWN
    this.#pads[number] = Math.floor(this.#random() * PAD_CHARACTERS)
    this.#unknown.add(number)
    return number
  }

  /** The same event each time. */
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

  /** Compares with all stored events, each as an export writes it. */
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

  /** Null for an event that was not sent. */
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
