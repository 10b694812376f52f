/**
 * Stores the e-mail addresses of a project's persons compactly, for searches that read all of them. A million addresses
 * are some megabytes, which are searched as bytes. Every record of table `email_chunks` ends with a checksum:
 *
 *   project, person number / 256 -> 256 lengths u16 little-endian | the texts of 256 persons in order
 *
 * The texts are UTF-8 in lower case. Length 0 means that there is no address. A text of more than 256 bytes is
 * truncated, and the top bit of its length is set. If a search does not find the wanted text in a truncated address, it
 * must also search the whole address in the record of the person.
 */
import { getOrAdd } from '../../base/maps.ts'
import { DamagedRecordError } from '../faults.ts'
import type { Table } from '../lmdb/environment.ts'
import { keysOf, numberInKey, pairKey } from '../lmdb/keys.ts'
import { entriesOf, load, store } from '../lmdb/records.ts'
import { EMAIL_TEXT_BYTES_MAX } from './limits.ts'

const PERSONS = 256
const HEAD_BYTES = PERSONS * 2
const CUT = 0x8000

/** The result of a search by e-mail address. */
export interface EmailHits {
  /** The numbers of the persons whose address contains the text that was searched. */
  readonly found: readonly number[]
  /**
   * The numbers of the persons whose address is truncated. The searched text was not found, but may be in the part that
   * was cut off.
   */
  readonly unsure: readonly number[]
}

/** Collects the addresses that change in one commit, for the one writing thread. */
export class EmailChunkWrites {
  readonly #projectId: number
  readonly #table: Table
  readonly #changes = new Map<number, Map<number, string | null>>()

  constructor(projectId: number, table: Table) {
    this.#projectId = projectId
    this.#table = table
  }

  /** Sets the address of a person. Null means that the person has none. */
  set(number: number, email: string | null): void {
    const chunk = Math.floor(number / PERSONS)
    const changes = getOrAdd(this.#changes, chunk, () => new Map<number, string | null>())
    changes.set(number % PERSONS, email)
  }

  /**
   * Stores the changes. Call it only within a write transaction. The cost depends on the number of chunks that change.
   */
  store(): void {
    for (const [chunk, changes] of [...this.#changes].sort(([a], [b]) => a - b)) {
      const key = pairKey(this.#projectId, chunk)
      const stored = load(this.#table, key)
      const texts = changedTexts(stored && checked(this.#table, key, stored), changes)
      if (texts.length === 1) void this.#table.remove(key)
      else store(this.#table, key, ...texts)
    }
    this.#changes.clear()
  }
}

/**
 * Returns the persons whose e-mail address contains `wanted`, in the order of person numbers. Upper and lower case do
 * not matter. Takes about 20 ms for a million addresses. Throws `DamagedRecordError`.
 */
export function searchEmails(table: Table, projectId: number, wanted: string): EmailHits {
  const found: number[] = []
  const unsure: number[] = []
  const bytes = Buffer.from(wanted.toLowerCase(), 'utf8')
  for (const { key, value } of entriesOf(table, keysOf(projectId))) {
    const first = numberInKey(key, 4) * PERSONS
    searchChunk(checked(table, key, value), bytes, first, found, unsure)
  }
  return { found, unsure }
}

function searchChunk(
  chunk: Buffer,
  wanted: Buffer,
  first: number,
  found: number[],
  unsure: number[],
): void {
  let hit = chunk.indexOf(wanted, HEAD_BYTES)
  let hasCut = false
  // Most chunks have neither a hit nor a truncated text, so only the top bits of the lengths are checked first.
  for (let head = 1; head < HEAD_BYTES; head += 2) {
    if (((chunk[head] ?? 0) & (CUT >>> 8)) !== 0) hasCut = true
  }
  if (hit < 0 && !hasCut) return
  let start = HEAD_BYTES
  for (let index = 0; index < PERSONS; index++) {
    const word = chunk.readUInt16LE(index * 2)
    const end = start + (word & ~CUT)
    while (hit >= 0 && hit < start) hit = chunk.indexOf(wanted, start)
    if (hit >= 0 && end > start && hit + wanted.length <= end) found.push(first + index)
    else if ((word & CUT) !== 0) unsure.push(first + index)
    start = end
  }
}

/** Returns the two parts of a chunk after changes: the 256 lengths, and the texts. */
function changedTexts(
  chunk: Buffer | undefined,
  changes: ReadonlyMap<number, string | null>,
): readonly Buffer[] {
  const head = Buffer.alloc(HEAD_BYTES)
  const parts: Buffer[] = [head]
  let start = HEAD_BYTES
  for (let index = 0; index < PERSONS; index++) {
    let word = chunk?.readUInt16LE(index * 2) ?? 0
    const end = start + (word & ~CUT)
    const change = changes.get(index)
    let text = chunk?.subarray(start, end) ?? null
    start = end
    if (change !== undefined) {
      const whole = change === null ? null : Buffer.from(change.toLowerCase(), 'utf8')
      text = whole?.subarray(0, EMAIL_TEXT_BYTES_MAX) ?? null
      word = (text?.length ?? 0) + ((whole?.length ?? 0) > EMAIL_TEXT_BYTES_MAX ? CUT : 0)
    }
    head.writeUInt16LE(word, index * 2)
    if (text !== null && text.length > 0) parts.push(text)
  }
  return parts
}

function checked(table: Table, key: Uint8Array, chunk: Buffer): Buffer {
  let bytes = HEAD_BYTES
  if (chunk.length >= HEAD_BYTES) {
    for (let index = 0; index < PERSONS; index++) bytes += chunk.readUInt16LE(index * 2) & ~CUT
  }
  if (chunk.length !== bytes) {
    throw new DamagedRecordError(table.name, key, 'the value has a wrong length')
  }
  return chunk
}
