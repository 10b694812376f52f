/**
 * Reads tables of persons for static cohorts, including exports of Tenrec, PostHog and spreadsheets. It finds the
 * columns that identify the persons. Source: docs/compatibility/persons.md, "Cohorts".
 */
import { csvRecords, unguardedCell } from '../../../base/csv.ts'
import { formatUuid, parseUuid } from '../../../base/ids.ts'

/** The members of a cohort that an uploaded table names. */
export interface TableMembers {
  readonly distinctIds: readonly string[]
  readonly personUuids: readonly string[]
}

/** Matches the header of a column of distinct IDs. Lists have a column for each ID, such as `person.distinct_ids.0`. */
const DISTINCT_ID = /^(?:(?:person|actor)\.)?(?:event_)?distinct[_-]?ids?(?:\.\d+)?$/i
/**
 * The headers of columns with person UUIDs, most reliable first. In a table of events, `uuid` is the UUID of the event.
 */
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

/**
 * Returns the members that a table names. Throws 400 `invalid_input` with `attr` `csv` for a quoted cell without an
 * end.
 */
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
  /** The columns of distinct IDs. The first one with a value identifies the person of a row. */
  readonly distinctIds: readonly number[]
  /** The column of UUIDs, which identifies the person if those columns are empty. Null if there is no such column. */
  readonly uuid: number | null
  /** True if the first line may be a person instead of a header. It is a person if the other cells are not UUIDs. */
  readonly isDoubtful: boolean
}

/** Returns the columns that a header names, or null if it names none. */
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
  // None of the IDs is a UUID. So `id` was the header of a column of distinct IDs, or is a distinct ID itself.
  return isDoubtful && personUuids.length === 0
    ? { distinctIds: others, personUuids }
    : { distinctIds, personUuids }
}

/**
 * Returns the distinct ID in a cell. If a table for spreadsheets has put an apostrophe before it, the ID is returned
 * both without and with the apostrophe.
 */
function idsOf(cell: string): readonly string[] {
  if (cell === '') return []
  const plain = unguardedCell(cell)
  return plain === null ? [cell] : [plain, cell]
}

/** Returns the text up to the first line break. Column names contain no line breaks. */
function firstLine(text: string): string {
  return /^[^\r\n]*/.exec(text)?.[0] ?? ''
}
