/**
 * Dead letters: events that could not be processed. They are stored as they arrived, so that an operator can inspect
 * them and have them processed again. The clients were told that these events were accepted. So only the operator
 * removes letters, except that the oldest letter is removed if a limit is exceeded.
 *
 *   dead_letters   letter u32 (from 1, ascending) -> head length u32 little-endian | head | raw bytes
 *     head         MessagePack [project, step, reason, time in milliseconds, origin]
 *
 * Letters of old versions have no origin.
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

/** Reads and writes dead letters. Only the thread that writes to the store uses it. */
export class DeadLetters {
  readonly #table: Table
  readonly #state: Table
  /**
   * The letters that were added since the last `store`, by number. Each is there twice: as an object, and as the bytes
   * to write.
   */
  readonly #pending = new Map<number, readonly [letter: StoredDeadLetter, value: Buffer]>()
  /** The numbers of the letters that the next `store` removes. */
  readonly #removed = new Set<number>()
  /**
   * The sizes of all letters. Letters that are not stored yet are included, so that the choice of the letters to remove
   * does not depend on when letters are stored.
   */
  readonly #ring: RecordRing<number>
  #isLoaded = false
  #last = 0
  #forgotten = 0
  /** The estimated number of bytes of memory of the letters that were added since the last `store`. */
  gatheredBytes = 0
  /** The number of letters that were added since this object was created. */
  added = 0

  constructor(table: Table, state: Table, lettersMax = LETTERS_MAX, bytesMax = LETTERS_BYTES_MAX) {
    this.#table = table
    this.#state = state
    this.#ring = new RecordRing(lettersMax, bytesMax)
  }

  /** The number of the newest letter that was ever added, or 0 if there was none. */
  get newest(): number {
    this.#load()
    return this.#last
  }

  /**
   * Adds a copy of a letter. The next `store` writes it. `logTimeMs` is the time at which the letter counts as stored.
   * It comes from the log, so that processing the same log again gives the same time.
   */
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
    // Counted twice, because the letter is in memory as an object and as the bytes to write.
    this.gatheredBytes += 2 * value.length
    ring.add(stored.number, value.length)
    for (let oldest = ring.excess(); oldest !== undefined; oldest = ring.excess()) {
      this.#forget(oldest)
      this.#forgotten++
    }
  }

  /**
   * Yields the letters with numbers after `after` up to `through`, at most `limit` of them. Letters that are not stored
   * yet are included. Letters that are added during the iteration are not. Throws `DamagedRecordError`.
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

  /** Removes a letter from memory. The next `store` removes it from the table. */
  remove(number: number): void {
    this.#load()
    this.#forget(number)
  }

  /** Writes the changes to the tables. Call it only within a write transaction. */
  store(): void {
    if (this.#pending.size === 0 && this.#removed.size === 0) return
    for (const [number, [, value]] of this.#pending) {
      void this.#table.put(numberKey(number), value)
    }
    for (const number of this.#removed) void this.#table.remove(numberKey(number))
    this.#pending.clear()
    this.#removed.clear()
    this.gatheredBytes = 0
    // The number is stored separately. If the newest letter was removed, the table does not contain its number any
    // more.
    storeNumber(this.#state, 'letters', this.#last)
  }

  /** Returns the current counts. The first call reads all letters from the table. */
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

/** Returns the number of dead letters. */
export function countDeadLetters(table: Table): number {
  return table.getKeysCount({})
}

/** Returns the dead letters after number `after`, oldest first. Throws `DamagedRecordError`. */
export function* readDeadLetters(table: Table, after = 0): Generator<StoredDeadLetter> {
  for (const entry of entriesOf(table, { start: numberKey(after + 1) })) yield letterOf(entry)
}

/** Returns a page of dead letters, newest first. Throws `DamagedRecordError`. */
export function newestDeadLetters(
  table: Table,
  { limit, offset }: PageRequest,
): readonly StoredDeadLetter[] {
  return Array.from(entriesOf(table, { reverse: true, limit, offset }), letterOf)
}

function letterOf({ key, value: bytes }: Entry): StoredDeadLetter {
  const rawStart = 4 + bytes.readUInt32LE()
  // The cast is right: `store` wrote the record, and its checksum matches.
  const head = unpack(bytes.subarray(4, rawStart)) as Head
  const [projectId, step, reason, storedAtMs, packedOrigin] = head
  const raw = Buffer.from(bytes.subarray(rawStart))
  const origin = originOf(packedOrigin)
  return { number: numberInKey(key, 0), projectId, step, reason, storedAtMs, raw, origin }
}
