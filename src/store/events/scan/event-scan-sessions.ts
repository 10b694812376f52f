/**
 * Gives numbers to the sessions of a project, in the order in which scans find them. The numbers are valid until the
 * thread discards them. Sessions are found by the 16 bytes of their ids, once for each segment. The texts of ids are
 * created only if a query needs them.
 */
import { randomFillSync } from 'node:crypto'
import { formatUuid, parseUuid } from '../../../base/ids.ts'
import { getOrAdd } from '../../../base/maps.ts'
import { withRoom } from '../../../rules/analytics/growing-arrays.ts'
import { isSessionId, SESSION_ID } from '../../../rules/analytics/session-id.ts'
import { startRangeAt, startRangeOf } from '../format/session-starts.ts'
import type { ScanSegment, TextOf } from './event-scan-segment.ts'

const ID_BYTES = 16
const ID_WORDS = 4
/** A session id begins with a time in milliseconds since 1970. This is the number of bytes of that time. */
const TIME_BYTES = 6
/**
 * Where the version of an id is: the offset of its byte, and the bits of version 7. Only a UUID of version 7 is a
 * session id (rules/analytics/session-id.ts).
 */
const VERSION_AT = 6
const VERSION_BITS = 0xf0
const VERSION_7 = 0x70
const SLOTS_START = 4096

/** The sessions to which the events of a segment belong. */
export interface SessionColumn {
  /** For each position in name order (event-scan-names.ts), the index in `numbers` of the event's session. */
  readonly ids: Uint16Array
  /** The number of each session. 0 for a value that is not a session id. */
  readonly numbers: Uint32Array
}

/** Gives numbers to the sessions of one project, from 1 on. */
export class SessionNumbers {
  #count = 0
  /** The bytes of the ids, four 32-bit words for each number. */
  #words = new Uint32Array(SLOTS_START)
  /**
   * A hash table with linear probing, which finds the number of an id. 0 marks a free slot. At most half of the slots
   * are used.
   */
  #slots = new Uint32Array(SLOTS_START)
  /** Random factors for the hash. A client that does not know them cannot choose ids with the same hash. */
  readonly #factors = randomFillSync(new Uint32Array(ID_WORDS)).map((factor) => factor | 1)
  /**
   * The numbers of those ids that contain capital letters. Such an id and the same id in lower case are two sessions.
   */
  readonly #byText = new Map<string, number>()
  /** The start times of the sessions in `#byText`, in milliseconds since 1970, by number. */
  readonly #beganMs = new Map<number, number>()
  readonly #texts: (string | undefined)[] = [undefined]
  /** For each column of ids, the numbers of its sessions. */
  readonly #numbers = new WeakMap<object, Uint32Array>()
  /** The id that is being looked up now. */
  readonly #wanted = new Uint32Array(ID_WORDS)
  readonly #wantedBytes = new Uint8Array(this.#wanted.buffer)

  /** The largest number that was given to a session. */
  get count(): number {
    return this.#count
  }

  /**
   * The text of each session id, by number. Number 0 has none. A call creates the texts of the sessions that are new
   * since the last call.
   */
  get texts(): readonly (string | undefined)[] {
    const bytes = new Uint8Array(this.#words.buffer)
    for (const [text, number] of this.#byText) this.#texts[number] = text
    for (let number = 1; number <= this.#count; number++) {
      this.#texts[number] ??= formatUuid(bytes, number * ID_BYTES)
    }
    return this.#texts
  }

  /** Returns the start ranges (session-starts.ts) of the sessions that have a 1 in `marks`. Looks at every session. */
  startRangesOf(marks: Uint8Array): ReadonlySet<number> {
    const bytes = new Uint8Array(this.#words.buffer)
    const starts = new Set<number>()
    let last = -1
    for (let number = 1; number <= this.#count; number++) {
      if (marks[number] !== 1) continue
      const range = startRangeAt(bytes, number * ID_BYTES)
      if (range !== last) starts.add(range)
      last = range
    }
    for (const [text, number] of this.#byText) {
      if (marks[number] === 1) starts.add(startRangeOf(text))
    }
    return starts
  }

  /**
   * Returns, for each of these numbers, the time with which the session's id begins, in milliseconds since 1970. Number
   * 0 is not a session, and gets 0.
   */
  beganMs(numbers: Uint32Array): Float64Array {
    const bytes = Buffer.from(this.#words.buffer)
    return Float64Array.from(
      numbers,
      (number) => this.#beganMs.get(number) ?? bytes.readUIntBE(number * ID_BYTES, TIME_BYTES),
    )
  }

  /**
   * Returns the sessions of the events in a segment, and gives numbers to those that are new. The first call for a
   * segment looks at all its sessions. Later calls use the cache.
   */
  ofSegment(segment: ScanSegment, textOf: TextOf): SessionColumn {
    const stored = segment.sessionIds
    if (stored.uuids !== null) {
      const { ids, uuids } = stored
      return { ids, numbers: this.#known(stored, () => this.#numbersOf(uuids)) }
    }
    const column = segment.property(SESSION_ID, textOf)
    const { ids, first, values } = column
    const numbers = this.#known(column, () =>
      Uint32Array.from(values, (value) => this.#numberOfValue(value)),
    )
    const { rows } = segment.summary
    if (ids.length === rows) return { ids, numbers }
    const all = new Uint16Array(rows)
    all.set(ids, first)
    return { ids: all, numbers }
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

  /** Returns the numbers of some ids, each given by 16 bytes. Index 0 of the result stands for no session. */
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

  /** Returns the slot of an id in the hash table, or the free slot in which it is to be stored. */
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
    // The high bits of the sum are used, because they depend on all bytes of the id.
    const slots = this.#slots
    const known = this.#words
    for (let slot = (sum >>> 0) >>> shift; ; slot = (slot + 1) & mask) {
      const number = slots[slot] ?? 0
      if (number === 0) return slot
      const place = number * ID_WORDS
      // The last words are compared first, because they differ most often.
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
      // This word contains the version, so it is never 0 in a UUID of version 7. If it is 0, the number belongs to an
      // id with capital letters, which is stored as text.
      const start = number * ID_WORDS
      if ((this.#words[start + 1] ?? 0) === 0) continue
      this.#slots[this.#slotOf(this.#words, start)] = number
    }
  }
}
