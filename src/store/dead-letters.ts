/**
 * Events that could not be processed, kept as they arrived so that an operator can look at them and send
 * them again. They were acknowledged: none is ever dropped by itself.
 *
 * Table `dead_letters`: letter u32 (from 1, ascending) -> `head length u32 little-endian, head as
 * MessagePack [project, step, reason, time in milliseconds], raw bytes`.
 */
import { pack, seal, unpack, unseal } from './codec.ts'
import type { Table } from './environment.ts'
import { numberInKey, numberKey } from './keys.ts'

const TABLE = 'dead_letters'
const REASON_UNITS_MAX = 1000

/** An event, or a whole block, that could not be processed. */
export interface DeadLetter {
  /** 0 when the project is not known. */
  readonly projectId: number
  /** Where it failed: `read` or `process`. */
  readonly step: string
  /** What was thrown. */
  readonly reason: string
  /** What was accepted. */
  readonly raw: Uint8Array
}

/** A dead letter as it was stored. */
export interface StoredDeadLetter extends DeadLetter {
  readonly number: number
  readonly storedAtMs: number
}

type Head = readonly [projectId: number, step: string, reason: string, storedAtMs: number]

/** Writes dead letters. For the one writing thread. */
export class DeadLetters {
  readonly #table: Table
  #pending: StoredDeadLetter[] = []
  #last: number | null = null

  constructor(table: Table) {
    this.#table = table
  }

  /** Notes a copy of a letter; it is stored by the next `store`. */
  add(letter: DeadLetter, nowMs: number): void {
    this.#last ??= lastLetter(this.#table)
    this.#pending.push({
      projectId: letter.projectId,
      step: letter.step,
      reason: letter.reason.slice(0, REASON_UNITS_MAX),
      raw: Buffer.from(letter.raw),
      number: ++this.#last,
      storedAtMs: nowMs,
    })
  }

  /** Stores what was noted. Only in a write transaction. */
  store(): void {
    for (const letter of this.#pending) {
      const key = numberKey(letter.number)
      const head: Head = [letter.projectId, letter.step, letter.reason, letter.storedAtMs]
      const packed = pack(head)
      const length = Buffer.allocUnsafe(4)
      length.writeUInt32LE(packed.length)
      void this.#table.put(key, seal(key, length, packed, letter.raw))
    }
    this.#pending = []
  }
}

function lastLetter(table: Table): number {
  for (const key of table.getKeys({ reverse: true, limit: 1 })) return numberInKey(key, 0)
  return 0
}

/** Number of dead letters. */
export function countDeadLetters(table: Table): number {
  return table.getKeysCount({})
}

/** Dead letters behind number `after`, oldest first. Throws `DamagedRecordError`. */
export function* readDeadLetters(table: Table, after = 0): Generator<StoredDeadLetter> {
  for (const { key, value } of table.getRange({ start: numberKey(after + 1) })) {
    const bytes = unseal(TABLE, key, value)
    const rawStart = 4 + bytes.readUInt32LE()
    // Written by `store`; the checksum says that it is unchanged.
    const head = unpack(bytes.subarray(4, rawStart)) as Head
    const [projectId, step, reason, storedAtMs] = head
    const number = numberInKey(key, 0)
    yield {
      number,
      projectId,
      step,
      reason,
      storedAtMs,
      raw: Buffer.from(bytes.subarray(rawStart)),
    }
  }
}
