/**
 * Reads CSV tables of persons for static cohorts: exports of Tenrec, of PostHog, or of spreadsheets. It finds the
 * columns that identify the persons. Source: docs/compatibility/persons.md, "Cohorts".
 */
import { csvRecords, unguardedCell } from '../../../base/csv.ts'
import { formatUuid, parseUuid } from '../../../base/ids.ts'

/** The persons named in an uploaded table. */
export interface TableMembers {
  readonly distinctIds: readonly string[]
  readonly personUuids: readonly string[]
}

/**
 * Matches the header of a column with distinct IDs. An exported list has one column for each ID, such as
 * `person.distinct_ids.0`.
 */
const DISTINCT_ID = /^(?:(?:person|actor)\.)?(?:event_)?\$?distinct[_ -]?ids?(?:\.\d+)?$/i
/**
 * The headers of columns with person UUIDs, the most reliable first. `uuid` is less reliable, because in a table of
 * events it is the UUID of the event.
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
 * The persons named in a table, and the number of rows that name a person. One row may stand for several distinct IDs,
 * because it is not always clear which blanks and apostrophes belong to the ID (see `idsOf`).
 */
interface MemberTable extends TableMembers {
  readonly rowCount: number
}

/** Returns the persons named in a table. Throws 400 `invalid_input` with `attr` `csv` if a quoted cell has no end. */
export function readMemberTable(text: string): MemberTable {
  // The separators are tried one after the other. With a wrong separator, the first line may be invalid: if the
  // separator is a comma, the line `"distinct_id";"name"` has an error after the first quoted text.
  const faults: unknown[] = []
  for (const separator of SEPARATORS) {
    let columns: Columns | null = null
    try {
      const [header = []] = csvRecords(firstLine(text), separator, 'csv')
      columns = columnsOf(header.map((name) => name.trim()))
    } catch (fault) {
      faults.push(fault)
    }
    if (columns !== null) return membersBelow(text, separator, columns)
  }
  if (faults.length > 0) throw faults[0]
  const cells = Array.from(csvRecords(text, ',', 'csv'), ([cell = '']) => cell)
  return { ...membersOf(cells), personUuids: [] }
}

/** Returns the distinct IDs that the cells may stand for, and the number of cells that are not blank. */
function membersOf(cells: readonly string[]): { distinctIds: readonly string[]; rowCount: number } {
  const rows = cells.filter((cell) => cell.trim() !== '')
  return { distinctIds: rows.flatMap(idsOf), rowCount: rows.length }
}

interface Columns {
  /**
   * The indexes of the columns with distinct IDs. In each row, the first of these columns that is not empty identifies
   * the person.
   */
  readonly distinctIds: readonly number[]
  /**
   * The index of the column with UUIDs, or null if there is none. It identifies the person of a row in which all
   * columns with distinct IDs are empty.
   */
  readonly uuid: number | null
  /**
   * True if the first line may be a row with data, because the only name found in it is `id` or `uuid`, which could be
   * a distinct ID. The line counts as a header if a cell of this column is a UUID.
   */
  readonly isDoubtful: boolean
}

/** Returns the columns named in a header, or null if it names none. */
function columnsOf(header: readonly string[]): Columns | null {
  const distinctIds = [...header.keys()].filter((index) => DISTINCT_ID.test(header[index] ?? ''))
  const names = header.map((name) => name.toLowerCase())
  const found = PERSON_UUID.map((name) => names.indexOf(name)).find((index) => index >= 0) ?? -1
  if (distinctIds.length === 0 && found < 0) return null
  const isDoubtful = distinctIds.length === 0 && ['uuid', 'id'].includes(names[found] ?? '')
  return { distinctIds, uuid: found < 0 ? null : found, isDoubtful }
}

function membersBelow(text: string, separator: string, columns: Columns): MemberTable {
  const { distinctIds: idColumns, uuid: uuidColumn, isDoubtful } = columns
  const ids: string[] = []
  const personUuids: string[] = []
  const others: string[] = []
  let isHeader = true
  for (const cells of csvRecords(text, separator, 'csv')) {
    if (isHeader) {
      isHeader = false
      continue
    }
    const id = idColumns.map((column) => cells[column] ?? '').find((cell) => cell.trim() !== '')
    const uuidText = uuidColumn === null ? '' : (cells[uuidColumn] ?? '').trim()
    const uuid = parseUuid(uuidText)
    if (id !== undefined) ids.push(id)
    else if (uuid !== null) personUuids.push(formatUuid(uuid, 0))
    else others.push(cells[0] ?? '')
  }
  // If it is doubtful whether the first line is a header, and no cell below it is a UUID, the cells of the first column
  // are distinct IDs. The first line is then treated as their header, although it may be a distinct ID itself.
  const members = membersOf(isDoubtful && personUuids.length === 0 ? others : ids)
  return { ...members, personUuids, rowCount: members.rowCount + personUuids.length }
}

/**
 * Returns the distinct IDs that a cell may stand for. Blanks around the text may belong to the ID. An apostrophe in
 * front of it may belong to the ID, or may come from an export for spreadsheets. All of these forms are returned.
 */
function idsOf(cell: string): readonly string[] {
  const forms = new Set([cell, cell.trim()].flatMap((text) => [unguardedCell(text) ?? text, text]))
  forms.delete('')
  return [...forms]
}

/** Returns the text up to the first line break. Column names contain no line breaks. */
function firstLine(text: string): string {
  return /^[^\r\n]*/.exec(text)?.[0] ?? ''
}
