/**
 * Logs of who changed what: entries by project, and by what they are about. Nothing removes them.
 */
import type { Entries } from '../../base/pages.ts'
import { emptyValue, seal, unseal } from './codec.ts'
import type { Table } from './environment.ts'
import { NUMBER_MAX, numberInKey, pairKey, tripleKey } from './keys.ts'

/** Where a log stands: its entries, and which of them are about what. */
export interface EntryTables {
  readonly entries: Table
  readonly items: Table
}

/**
 * Stores an entry of a log under a number that was never used: project, entry -> JSON; project,
 * subject, entry -> nothing. Only in a write transaction.
 */
export function storeEntry(
  { entries, items }: EntryTables,
  projectId: number,
  subject: number,
  entry: number,
  json: string,
): void {
  const key = pairKey(projectId, entry)
  entries.putSync(key, seal(key, Buffer.from(json)))
  const itemKey = tripleKey(projectId, subject, entry)
  items.putSync(itemKey, emptyValue(itemKey))
}

/**
 * A log behind its newest `offset` entries; of one subject, or of the project (`subject` null).
 * `name`: of the table of entries. Throws `DamagedRecordError`.
 */
export function listEntries(
  { entries, items }: EntryTables,
  name: string,
  projectId: number,
  subject: number | null,
  offset: number,
  limit: number,
): Entries {
  const table = subject === null ? entries : items
  const keyOf = (number: number): Buffer =>
    subject === null ? pairKey(projectId, number) : tripleKey(projectId, subject, number)
  const first = keyOf(0)
  const options = { start: keyOf(NUMBER_MAX), end: first, reverse: true, offset, limit }
  const numbers = [...table.getKeys(options)].map((key) => numberInKey(key, first.length - 4))
  const end = subject === null ? pairKey(projectId + 1, 0) : tripleKey(projectId, subject + 1, 0)
  const keys = numbers.map((number) => pairKey(projectId, number))
  return {
    totalCount: table.getKeysCount({ start: first, end }),
    entries: textsOf(entries, name, keys),
  }
}

function* textsOf(table: Table, name: string, keys: readonly Buffer[]): Generator<string> {
  for (const key of keys) {
    const value = table.get(key)
    if (value !== undefined) yield unseal(name, key, value).toString('utf8')
  }
}
