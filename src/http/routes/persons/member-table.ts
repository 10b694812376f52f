/**
 * Tables of persons for static cohorts, also those that Tenrec, PostHog or a spreadsheet has written: which column
 * says who the persons are. Source: docs/compatibility/persons.md, "Cohorts".
 */
import { csvRecords, unguardedCell } from '../../../base/csv.ts'
import { formatUuid, parseUuid } from '../../../base/ids.ts'

/** The members of a cohort that an uploaded table names. */
export interface TableMembers {
  readonly distinctIds: readonly string[]
  readonly personUuids: readonly string[]
}

/** Header of columns of distinct ids; lists have a column for each, such as `person.distinct_ids.0`. */
const DISTINCT_ID = /^(?:(?:person|actor)\.)?(?:event_)?distinct[_-]?ids?(?:\.\d+)?$/i
/** Headers of columns of persons' uuids, the surest first: in a table of events `uuid` is that of the event. */
const PERSON_UUID = [
  'person_id',
  'person_uuid',
  'person.uuid',
  'person.id',
  'actor.uuid',
  'actor.id',
  'uuid',
  'id',
]
const SEPARATORS = [',', ';', '\t'] as const

/** The members that a table names. Throws 400 `invalid_input` with `attr` `csv` for a quoted cell without an end. */
export function readMemberTable(text: string): TableMembers {
  for (const separator of SEPARATORS) {
    const [header = []] = csvRecords(firstLine(text), separator, 'csv')
    const columns = columnsOf(header)
    if (columns !== null) return membersBelow(text, separator, columns)
  }
  const cells = Array.from(csvRecords(text, ',', 'csv'), ([cell = '']) => cell)
  return { distinctIds: cells.flatMap(idsOf), personUuids: [] }
}

interface Columns {
  /** The first of them that has anything in a row says who it is. */
  readonly distinctIds: readonly number[]
  /** Says it where none of those does; null: there is no such column. */
  readonly uuid: number | null
  /** The header may as well be the first person: it is one when the others are no uuids. */
  readonly isDoubtful: boolean
}

/** Null for a line that names no column. */
function columnsOf(header: readonly string[]): Columns | null {
  const distinctIds = [...header.keys()].filter((index) => DISTINCT_ID.test(header[index] ?? ''))
  const names = header.map((name) => name.toLowerCase())
  const found = PERSON_UUID.map((name) => names.indexOf(name)).find((index) => index >= 0) ?? -1
  if (distinctIds.length === 0 && found < 0) return null
  const isDoubtful = distinctIds.length === 0 && ['uuid', 'id'].includes(names[found] ?? '')
  return { distinctIds, uuid: found < 0 ? null : found, isDoubtful }
}

function membersBelow(text: string, separator: string, columns: Columns): TableMembers {
  const { distinctIds: idColumns, uuid: uuidColumn, isDoubtful } = columns
  const distinctIds: string[] = []
  const personUuids: string[] = []
  const others: string[] = []
  let isHeader = true
  for (const cells of csvRecords(text, separator, 'csv')) {
    if (isHeader) {
      isHeader = false
      continue
    }
    const id = idColumns.map((column) => cells[column] ?? '').find((cell) => cell !== '')
    const uuidText = uuidColumn === null ? '' : (cells[uuidColumn] ?? '')
    const uuid = parseUuid(uuidText)
    if (id !== undefined) distinctIds.push(...idsOf(id))
    else if (uuid !== null) personUuids.push(formatUuid(uuid, 0))
    else others.push(...idsOf(cells[0] ?? ''))
  }
  // Ids that no uuid is among: `id` was the name of a column of distinct ids, or a distinct id itself.
  return isDoubtful && personUuids.length === 0
    ? { distinctIds: others, personUuids }
    : { distinctIds, personUuids }
}

/** A distinct id, also as it was before a table for spreadsheets put an apostrophe in front of it. */
function idsOf(cell: string): readonly string[] {
  if (cell === '') return []
  const plain = unguardedCell(cell)
  return plain === null ? [cell] : [plain, cell]
}

/** Up to the first line break; names of columns have none. */
function firstLine(text: string): string {
  return /^[^\r\n]*/.exec(text)?.[0] ?? ''
}
