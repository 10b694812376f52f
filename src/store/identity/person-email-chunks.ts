/**
 * The e-mail addresses of a project's persons close together, for searches that look into every one of
 * them: a million addresses are some megabytes that are gone through as bytes.
 *
 * Table `email_chunks`: project, P / 256 -> 256 lengths u16 little-endian, then as many texts, UTF-8 in
 * lower case, in the order of P; sealed. Length 0: none. A text of more than 256 bytes is cut there and
 * its length has the top bit set: whoever finds nothing in it has to look at the person.
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

/** What a search found. */
export interface EmailHits {
  /** P of the persons whose address contains what was wanted. */
  readonly found: readonly number[]
  /** P of persons whose address is too long to say. */
  readonly unsure: readonly number[]
}

/** The changes of one commit. For the one writing thread. */
export class EmailChunkWrites {
  readonly #projectId: number
  readonly #table: Table
  readonly #changes = new Map<number, Map<number, string | null>>()

  constructor(projectId: number, table: Table) {
    this.#projectId = projectId
    this.#table = table
  }

  /** Notes the address of a person; null: none any more. */
  set(number: number, email: string | null): void {
    const chunk = Math.floor(number / PERSONS)
    const changes = getOrAdd(this.#changes, chunk, () => new Map<number, string | null>())
    changes.set(number % PERSONS, email)
  }

  /** Stores what was noted. Only in a write transaction. Cost: the chunks that have changes. */
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
 * The persons whose e-mail address contains `wanted`, ignoring case, in the order of P. About 20 ms for a
 * million addresses. Throws `DamagedRecordError`.
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
  // Nothing but the lengths tells where a text ends, and most chunks hold no hit and no cut text.
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

/** The parts of a chunk after changes: the lengths, then the texts that there are. */
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
