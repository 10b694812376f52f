/**
 * Events that could not be processed, kept as they arrived so that an operator can look at them and have
 * them processed again. They were acknowledged: only beyond the limits are the oldest given up.
 *
 * Table `dead_letters`: letter u32 (from 1, ascending) -> `head length u32 little-endian, head as
 * MessagePack [project, step, reason, time in milliseconds, origin], raw bytes`. Letters of old versions
 * have no origin.
 */
import type { PageRequest } from '../../base/pages.ts'
import type {
  DeadLetter,
  DeadLetterCounts,
  DeadLetterOrigin,
  StoredDeadLetter,
} from '../../rules/events/dead-letter.ts'
import { pack, seal, unpack } from '../lmdb/codec.ts'
import type { Entry, Table } from '../lmdb/environment.ts'
import { readNumber, storeNumber } from '../lmdb/event-state.ts'
import { numberInKey, numberKey } from '../lmdb/keys.ts'
import { entriesOf } from '../lmdb/records.ts'
import { LETTER_REASON_UNITS_MAX, LETTERS_BYTES_MAX, LETTERS_MAX } from './limits.ts'
import { RecordRing } from './record-ring.ts'

type Head = readonly [
  projectId: number,
  step: string,
  reason: string,
  storedAtMs: number,
  origin?: readonly [
    flags: number,
    arrivedAtMs: number,
    sentAtMs: number | null,
    address: string,
    uuid: Uint8Array | null,
  ],
]

/** Reads and writes dead letters. For the one writing thread. */
export class DeadLetters {
  readonly #table: Table
  readonly #state: Table
  /** What the next `store` writes, by number, with its value. */
  readonly #pending = new Map<number, readonly [letter: StoredDeadLetter, value: Buffer]>()
  /** What it removes. */
  readonly #removed = new Set<number>()
  /** All letters, stored or not: what is kept must not depend on when they are stored. */
  readonly #ring: RecordRing<number>
  #isLoaded = false
  #last = 0
  #forgotten = 0
  /** Bytes of memory, estimated, of what was noted since the last `store`. */
  gatheredBytes = 0
  /** Letters that were ever noted by this object. */
  added = 0

  constructor(table: Table, state: Table, lettersMax = LETTERS_MAX, bytesMax = LETTERS_BYTES_MAX) {
    this.#table = table
    this.#state = state
    this.#ring = new RecordRing(lettersMax, bytesMax)
  }

  /** Number of the newest letter that there ever was, 0 when there was none. */
  get newest(): number {
    this.#load()
    return this.#last
  }

  /** Notes a copy of a letter, with the time of the log; it is stored by the next `store`. */
  add(letter: DeadLetter, logTimeMs: number): void {
    const ring = this.#load()
    this.added++
    const stored = {
      ...letter,
      reason: letter.reason.slice(0, LETTER_REASON_UNITS_MAX),
      raw: Buffer.from(letter.raw),
      number: ++this.#last,
      storedAtMs: logTimeMs,
      origin: letter.origin === undefined ? null : copyOf(letter.origin),
    }
    const packed = pack(headOf(stored))
    const length = Buffer.allocUnsafe(4)
    length.writeUInt32LE(packed.length)
    const value = seal(numberKey(stored.number), length, packed, stored.raw)
    this.#pending.set(stored.number, [stored, value])
    // A letter is in memory as it arrived and as it is stored.
    this.gatheredBytes += 2 * value.length
    ring.add(stored.number, value.length)
    for (let oldest = ring.excess(); oldest !== undefined; oldest = ring.excess()) {
      this.#forget(oldest)
      this.#forgotten++
    }
  }

  /**
   * Letters behind `after` up to `through`, those that wait for `store` included; such as come meanwhile are
   * not among them. Throws `DamagedRecordError`.
   */
  *some(after: number, through: number, limit: number): Generator<StoredDeadLetter> {
    const waiting = [...this.#pending.values()].filter(([{ number }]) => number > after)
    let count = 0
    for (const letter of readDeadLetters(this.#table, after)) {
      if (letter.number > through || count === limit) return
      if (this.#removed.has(letter.number)) continue
      count++
      yield letter
    }
    for (const [letter] of waiting) {
      if (letter.number > through || count++ === limit) return
      yield letter
    }
  }

  /** Notes that a letter is not needed any more; it is removed by the next `store`. */
  remove(number: number): void {
    this.#load()
    this.#forget(number)
  }

  /** Stores what was noted. Only in a write transaction. */
  store(): void {
    if (this.#pending.size === 0 && this.#removed.size === 0) return
    for (const [number, [, value]] of this.#pending) {
      void this.#table.put(numberKey(number), value)
    }
    for (const number of this.#removed) void this.#table.remove(numberKey(number))
    this.#pending.clear()
    this.#removed.clear()
    this.gatheredBytes = 0
    // The table tells the newest only as long as that one is there.
    storeNumber(this.#state, 'letters', this.#last)
  }

  /** What there is now. Cost: reads all letters, once. */
  takeCounts(): DeadLetterCounts {
    const { count, bytes } = this.#load()
    const counts = { count, bytes, forgotten: this.#forgotten }
    this.#forgotten = 0
    return counts
  }

  #forget(number: number): void {
    this.#ring.delete(number)
    if (!this.#pending.delete(number)) this.#removed.add(number)
  }

  #load(): RecordRing<number> {
    if (this.#isLoaded) return this.#ring
    this.#isLoaded = true
    for (const { key, value } of this.#table.getRange()) {
      this.#last = numberInKey(key, 0)
      this.#ring.add(this.#last, value.length)
    }
    this.#last = Math.max(this.#last, readNumber(this.#state, 'letters') ?? 0)
    return this.#ring
  }
}

function copyOf(origin: DeadLetterOrigin): DeadLetterOrigin {
  return { ...origin, uuid: origin.uuid === null ? null : Buffer.from(origin.uuid) }
}

function headOf({ projectId, step, reason, storedAtMs, origin }: StoredDeadLetter): Head {
  if (origin === null) return [projectId, step, reason, storedAtMs]
  const { flags, arrivedAtMs, sentAtMs, address, uuid } = origin
  const sentAt = Number.isNaN(sentAtMs) ? null : sentAtMs
  return [projectId, step, reason, storedAtMs, [flags, arrivedAtMs, sentAt, address, uuid]]
}

function originOf(packed: Head[4]): DeadLetterOrigin | null {
  if (packed === undefined) return null
  const [flags, arrivedAtMs, sentAtMs, address, uuid] = packed
  return { flags, arrivedAtMs, sentAtMs: sentAtMs ?? Number.NaN, address, uuid }
}

/** Number of dead letters. */
export function countDeadLetters(table: Table): number {
  return table.getKeysCount({})
}

/** Dead letters behind number `after`, oldest first. Throws `DamagedRecordError`. */
export function* readDeadLetters(table: Table, after = 0): Generator<StoredDeadLetter> {
  for (const entry of entriesOf(table, { start: numberKey(after + 1) })) yield letterOf(entry)
}

/** A page of dead letters, newest first. Throws `DamagedRecordError`. */
export function newestDeadLetters(
  table: Table,
  { limit, offset }: PageRequest,
): readonly StoredDeadLetter[] {
  return Array.from(entriesOf(table, { reverse: true, limit, offset }), letterOf)
}

function letterOf({ key, value: bytes }: Entry): StoredDeadLetter {
  const rawStart = 4 + bytes.readUInt32LE()
  // Written by `store`; the checksum says that it is unchanged.
  const head = unpack(bytes.subarray(4, rawStart)) as Head
  const [projectId, step, reason, storedAtMs, packedOrigin] = head
  const raw = Buffer.from(bytes.subarray(rawStart))
  const origin = originOf(packedOrigin)
  return { number: numberInKey(key, 0), projectId, step, reason, storedAtMs, raw, origin }
}
