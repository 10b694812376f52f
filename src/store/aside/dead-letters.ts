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
  #pending: StoredDeadLetter[] = []
  #removed: number[] = []
  /** The letters that are stored. */
  readonly #ring: RecordRing<number>
  #isLoaded = false
  #last = 0
  #forgotten = 0
  /** Letters that were ever noted by this object. */
  added = 0

  constructor(table: Table, lettersMax = LETTERS_MAX, bytesMax = LETTERS_BYTES_MAX) {
    this.#table = table
    this.#ring = new RecordRing(lettersMax, bytesMax)
  }

  /** Number of the newest letter, 0 when there is none. */
  get newest(): number {
    this.#load()
    return this.#last
  }

  /** Notes a copy of a letter; it is stored by the next `store`. */
  add(letter: DeadLetter, nowMs: number): void {
    this.#load()
    this.added++
    this.#pending.push({
      ...letter,
      reason: letter.reason.slice(0, LETTER_REASON_UNITS_MAX),
      raw: Buffer.from(letter.raw),
      number: ++this.#last,
      storedAtMs: nowMs,
      origin: letter.origin === undefined ? null : copyOf(letter.origin),
    })
  }

  /** Letters that are stored, behind `after` up to `through`. Throws `DamagedRecordError`. */
  *some(after: number, through: number, limit: number): Generator<StoredDeadLetter> {
    let count = 0
    for (const letter of readDeadLetters(this.#table, after)) {
      if (letter.number > through || count++ === limit) return
      yield letter
    }
  }

  /** Notes that a letter is not needed any more; it is removed by the next `store`. */
  remove(number: number): void {
    this.#load()
    this.#removed.push(number)
  }

  /** Stores what was noted. Only in a write transaction. */
  store(): void {
    if (this.#pending.length === 0 && this.#removed.length === 0) return
    const ring = this.#load()
    for (const letter of this.#pending) {
      const key = numberKey(letter.number)
      const packed = pack(headOf(letter))
      const length = Buffer.allocUnsafe(4)
      length.writeUInt32LE(packed.length)
      const value = seal(key, length, packed, letter.raw)
      void this.#table.put(key, value)
      ring.add(letter.number, value.length)
    }
    for (const number of this.#removed) this.#forget(number)
    this.#pending = []
    this.#removed = []
    for (let oldest = ring.excess(); oldest !== undefined; oldest = ring.excess()) {
      this.#forget(oldest)
      this.#forgotten++
    }
  }

  /** What is stored now. Cost: reads all letters, once. */
  takeCounts(): DeadLetterCounts {
    const { count, bytes } = this.#load()
    const counts = { count, bytes, forgotten: this.#forgotten }
    this.#forgotten = 0
    return counts
  }

  #forget(number: number): void {
    this.#ring.delete(number)
    void this.#table.remove(numberKey(number))
  }

  #load(): RecordRing<number> {
    if (this.#isLoaded) return this.#ring
    this.#isLoaded = true
    for (const { key, value } of this.#table.getRange()) {
      this.#last = numberInKey(key, 0)
      this.#ring.add(this.#last, value.length)
    }
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
