/**
 * Numbers for the sessions of a project, given in the order in which scans meet them and kept for as long
 * as their thread keeps anything. A session is looked up once for each segment that holds it, by the 16
 * bytes of its id as they are stored: texts are made when somebody wants to read them.
 */
import { randomFillSync } from 'node:crypto'
import { formatUuid, parseUuid } from '../../../base/ids.ts'
import { getOrAdd } from '../../../base/maps.ts'
import { withRoom } from '../../../rules/analytics/growing-arrays.ts'
import { isSessionId, SESSION_ID } from '../../../rules/analytics/session-id.ts'
import { stretchAt, stretchOf } from '../format/session-stretches.ts'
import type { ScanSegment, TextOf } from './event-scan-segment.ts'

const ID_BYTES = 16
const ID_WORDS = 4
/** Milliseconds since 1970, at the beginning. */
const TIME_BYTES = 6
/** Where the version is, and the bits of version 7: what makes a session (rules/analytics/session-id.ts). */
const VERSION_AT = 6
const VERSION_BITS = 0xf0
const VERSION_7 = 0x70
const SLOTS_START = 4096

/** The sessions of the events of a segment. */
export interface SessionColumn {
  /** For each place the position of its session in `numbers`. */
  readonly ids: Uint16Array
  /** The number of each; 0 for what makes no session. */
  readonly numbers: Uint32Array
}

/** The numbers of one project, from 1. */
export class SessionNumbers {
  #count = 0
  /** Four words for each number: its id. */
  #words = new Uint32Array(SLOTS_START)
  /** Numbers by their ids, the next free slot being taken; 0 where there is none. At most half of them are. */
  #slots = new Uint32Array(SLOTS_START)
  /** Nobody who chooses ids knows them, and so which ids share a slot. */
  readonly #factors = randomFillSync(new Uint32Array(ID_WORDS)).map((factor) => factor | 1)
  /** Ids that hold capitals, which are others than those without. */
  readonly #byText = new Map<string, number>()
  /** Of these. */
  readonly #beganMs = new Map<number, number>()
  readonly #texts: (string | undefined)[] = [undefined]
  /** By the column that they are the numbers of. */
  readonly #numbers = new WeakMap<object, Uint32Array>()
  /** The id that is looked up. */
  readonly #wanted = new Uint32Array(ID_WORDS)
  readonly #wantedBytes = new Uint8Array(this.#wanted.buffer)

  /** The largest number. */
  get count(): number {
    return this.#count
  }

  /** The text of each number; 0 is undefined. Cost: linear in those that are new since it was last asked for. */
  get texts(): readonly (string | undefined)[] {
    const bytes = new Uint8Array(this.#words.buffer)
    for (const [text, number] of this.#byText) this.#texts[number] = text
    for (let number = 1; number <= this.#count; number++) {
      this.#texts[number] ??= formatUuid(bytes, number * ID_BYTES)
    }
    return this.#texts
  }

  /** The stretches in which marked sessions began (session-stretches.ts). Linear. */
  stretchesOf(marks: Uint8Array): ReadonlySet<number> {
    const bytes = new Uint8Array(this.#words.buffer)
    const stretches = new Set<number>()
    let last = -1
    for (let number = 1; number <= this.#count; number++) {
      if (marks[number] !== 1) continue
      const stretch = stretchAt(bytes, number * ID_BYTES)
      if (stretch !== last) stretches.add(stretch)
      last = stretch
    }
    for (const [text, number] of this.#byText) {
      if (marks[number] === 1) stretches.add(stretchOf(text))
    }
    return stretches
  }

  /** The time that the id of each of some numbers begins with, milliseconds since 1970; 0 for no session. */
  beganMs(numbers: Uint32Array): Float64Array {
    const bytes = Buffer.from(this.#words.buffer)
    return Float64Array.from(
      numbers,
      (number) => this.#beganMs.get(number) ?? bytes.readUIntBE(number * ID_BYTES, TIME_BYTES),
    )
  }

  /** The sessions of a segment; new ones get numbers. Linear, but known when it is asked for again. */
  ofSegment(segment: ScanSegment, textOf: TextOf): SessionColumn {
    const stored = segment.sessionIds
    if (stored.uuids !== null) {
      const { ids, uuids } = stored
      return { ids, numbers: this.#known(stored, () => this.#numbersOf(uuids)) }
    }
    const column = segment.property(SESSION_ID, textOf)
    const { ids, values } = column
    const numbers = this.#known(column, () =>
      Uint32Array.from(values, (value) => this.#numberOfValue(value)),
    )
    return { ids, numbers }
  }

  #known(column: object, find: () => Uint32Array): Uint32Array {
    let numbers = this.#numbers.get(column)
    if (numbers === undefined) {
      numbers = find()
      this.#numbers.set(column, numbers)
    }
    return numbers
  }

  #numberOfValue(value: unknown): number {
    if (!isSessionId(value)) return 0
    const bytes = parseUuid(value)
    if (bytes === null || formatUuid(bytes, 0) !== value) {
      return getOrAdd(this.#byText, value, () => {
        const number = this.#add()
        const digits = value.replace('-', '').slice(0, 2 * TIME_BYTES)
        this.#beganMs.set(number, Number.parseInt(digits, 16))
        return number
      })
    }
    return this.#numberAt(bytes, 0)
  }

  /** Of 16 bytes each; position 0 is nobody's. */
  #numbersOf(uuids: Uint8Array): Uint32Array {
    const numbers = new Uint32Array(1 + uuids.length / ID_BYTES)
    for (let index = 1; index < numbers.length; index++) {
      const start = (index - 1) * ID_BYTES
      const isSession = ((uuids[start + VERSION_AT] ?? 0) & VERSION_BITS) === VERSION_7
      numbers[index] = isSession ? this.#numberAt(uuids, start) : 0
    }
    return numbers
  }

  #numberAt(bytes: Uint8Array, start: number): number {
    for (let index = 0; index < ID_BYTES; index++) {
      this.#wantedBytes[index] = bytes[start + index] ?? 0
    }
    const slot = this.#slotOf(this.#wanted, 0)
    const known = this.#slots[slot] ?? 0
    if (known !== 0) return known
    const number = this.#add()
    this.#words.set(this.#wanted, number * ID_WORDS)
    this.#slots[slot] = number
    if (number * 2 > this.#slots.length) this.#enlarge()
    return number
  }

  #add(): number {
    const number = ++this.#count
    this.#words = withRoom(this.#words, number * ID_WORDS + ID_WORDS - 1)
    return number
  }

  /** The slot that holds an id, or may take it. */
  #slotOf(words: Uint32Array, start: number): number {
    const a = words[start] ?? 0
    const b = words[start + 1] ?? 0
    const c = words[start + 2] ?? 0
    const d = words[start + 3] ?? 0
    const factors = this.#factors
    const sum =
      Math.imul(a, factors[0] ?? 1) +
      Math.imul(b, factors[1] ?? 1) +
      Math.imul(c, factors[2] ?? 1) +
      Math.imul(d, factors[3] ?? 1)
    const shift = 1 + Math.clz32(this.#slots.length)
    const mask = this.#slots.length - 1
    // The high bits of the sum depend on all of the id.
    const slots = this.#slots
    const known = this.#words
    for (let slot = (sum >>> 0) >>> shift; ; slot = (slot + 1) & mask) {
      const number = slots[slot] ?? 0
      if (number === 0) return slot
      const place = number * ID_WORDS
      // The last word is the one that differs most.
      if (
        known[place + 3] === d &&
        known[place + 2] === c &&
        known[place + 1] === b &&
        known[place] === a
      ) {
        return slot
      }
    }
  }

  #enlarge(): void {
    this.#slots = new Uint32Array(this.#slots.length * 2)
    for (let number = 1; number <= this.#count; number++) {
      // A version 7 is never all zeros: those are the ids with capitals.
      const start = number * ID_WORDS
      if ((this.#words[start + 1] ?? 0) === 0) continue
      this.#slots[this.#slotOf(this.#words, start)] = number
    }
  }
}
