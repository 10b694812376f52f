/**
 * Pages on a thread: rows are read, written as text and handed over as bytes, up to a limit of bytes. A
 * thread for short reads gives a page up that grows too large or takes too long; a thread for long ones
 * then makes it from the start.
 */
import { ServiceError } from '../../base/errors.ts'
import { PAGE_BYTES_MAX, SHORT_PAGE_BYTES_MAX, SHORT_PAGE_MS_MAX } from '../../base/limits.ts'
import type { CountedRows, RowFormat, RowsText, RowText } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import { RowsWriter, rowText } from '../../base/rows-writer.ts'
import type { EventListQuery, EventRows } from '../../rules/events/event-queries.ts'
import type { GroupRows } from '../../rules/persons/group-shapes.ts'
import { personBody, withWireTimes } from '../../rules/persons/person-answer.ts'
import type { PersonListQuery, PersonReference, TimelineQuery, TimelineRows } from '../../rules/persons/person-queries.ts'
import { timelineTooLarge } from '../../rules/persons/person-views.ts'
import type { EventReader } from '../../store/warehouse/read/event-reader.ts'
import type { FlagTasks } from './flag-tasks.ts'

/** A group of columns with more bytes than this takes too long to decode for a short read. */
const SHORT_GROUP_BYTES_MAX = 2 * 1024 * 1024

/** Name of a page -> what it takes and what it answers. */
export interface PageQuestions {
  listEvents: { values: [query: EventListQuery]; result: EventRows }
  listWarnings: { values: [projectId: number, limit: number]; result: RowsText }
  listPersons: { values: [query: PersonListQuery]; result: CountedRows }
  personValues: {
    values: [projectId: number, key: string, contains: string | null]
    result: RowsText
  }
  personActivity: {
    values: [projectId: number, person: PersonReference | null, offset: number, limit: number]
    result: CountedRows | null
  }
  propertiesTimeline: { values: [query: TimelineQuery]; result: TimelineRows | null }
  listGroups: {
    values: [
      projectId: number,
      typeIndex: number,
      search: string | null,
      limit: number,
      cursor: string | null,
    ]
    result: GroupRows
  }
  listCohorts: { values: [projectId: number, limit: number, offset: number]; result: CountedRows }
  getCohort: { values: [projectId: number, id: number]; result: { row: RowText } | null }
  cohortsOfPerson: { values: [projectId: number, person: PersonReference]; result: RowsText | null }
  listActions: { values: [projectId: number, limit: number, offset: number]; result: CountedRows }
  listErasures: { values: [projectId: number, limit: number, offset: number]; result: CountedRows }
  flagActivity: {
    values: [projectId: number, flagId: number | null, offset: number, limit: number]
    result: CountedRows | null
  }
}

/** Name of a page. */
export type PageName = keyof PageQuestions

/** Readers: make a page. */
export type PageTask<Name extends PageName = PageName> = {
  [Each in Name]: {
    readonly kind: Each
    readonly values: PageQuestions[Each]['values']
    readonly format: RowFormat
    /** Null: a short read. Else shared memory; another number than 0 means that nobody waits any more. */
    readonly cancelled: Int32Array | null
  }
}[Name]

/** What each page answers; null in the place of a page that is no short read. */
export type PageResults = {
  readonly [Name in PageName]: { readonly page: PageQuestions[Name]['result'] } | null
}

const PAGE_NAMES: ReadonlySet<string> = new Set<PageName>([
  'listEvents',
  'listWarnings',
  'listPersons',
  'personValues',
  'personActivity',
  'propertiesTimeline',
  'listGroups',
  'listCohorts',
  'getCohort',
  'cohortsOfPerson',
  'listActions',
  'listErasures',
  'flagActivity',
])

/** Whether a task of some kind makes a page. */
export function isPageKind(kind: string): kind is PageName {
  return PAGE_NAMES.has(kind)
}

/** The stores of a thread. */
export interface PageSources {
  readonly reader: () => EventReader
  readonly flags: () => FlagTasks
}

/** Stops a page that is no short read. */
class NotShortError extends Error {}

/** Asked between rows, and before what takes long: throws when the page is to be given up. */
type Check = (groupBytes?: number) => void

/** Makes a page; null when it is no short read. Throws `ServiceError`, and as the readers. */
export function makePage(task: PageTask, sources: PageSources): PageResults[PageName] {
  const { format, cancelled } = task
  const writer = new RowsWriter(format, cancelled === null ? SHORT_PAGE_BYTES_MAX : PAGE_BYTES_MAX)
  const check = cancelled === null ? shortCheck() : longCheck(cancelled)
  try {
    const page = answer(task, sources, writer, check)
    const isCut = page !== null && 'isCut' in page && page.isCut
    if (isCut && cancelled === null) return null
    // What `answer` gives for this kind.
    return { page } as PageResults[PageName]
  } catch (error) {
    if (error instanceof NotShortError) return null
    throw error
  }
}

/** The memory in what `makePage` gave, to change hands. */
export function pageBuffers(result: PageResults[PageName]): readonly ArrayBuffer[] {
  const page = result?.page ?? null
  if (page === null) return []
  return ['row' in page ? page.row.buffer : page.rows.buffer]
}

function shortCheck(): Check {
  const deadline = performance.now() + SHORT_PAGE_MS_MAX
  return (groupBytes = 0) => {
    if (groupBytes > SHORT_GROUP_BYTES_MAX || performance.now() > deadline) {
      throw new NotShortError()
    }
  }
}

function longCheck(cancelled: Int32Array): Check {
  return () => {
    if (Atomics.load(cancelled, 0) !== 0) throw nobodyWaits()
  }
}

/** Nobody sees it: the client has left. */
export function nobodyWaits(): ServiceError {
  return refusal('read_unwanted')
}

function answer(
  task: PageTask,
  { reader, flags }: PageSources,
  writer: RowsWriter,
  check: Check,
): PageQuestions[PageName]['result'] {
  switch (task.kind) {
    case 'listEvents':
      return reader().eventRows(...task.values, writer, check)
    case 'listWarnings':
      return all(writer, reader().listWarnings(...task.values))
    case 'propertiesTimeline':
      return timeline(reader(), task.values[0], writer)
    case 'listErasures': {
      const { count, results } = reader()
        .erasures()
        .list(...task.values)
      return { count, ...all(writer, results) }
    }
    case 'flagActivity':
      return flagActivity(flags(), task.values, writer)
    case 'listPersons':
    case 'personValues':
    case 'personActivity':
    case 'listGroups':
    case 'listCohorts':
    case 'getCohort':
    case 'cohortsOfPerson':
    case 'listActions':
      return personPage(task, reader().persons(), writer, check)
  }
}

type PersonPageTask = Exclude<
  PageTask,
  PageTask<'listEvents' | 'listWarnings' | 'propertiesTimeline' | 'listErasures' | 'flagActivity'>
>

function personPage(
  task: PersonPageTask,
  persons: ReturnType<EventReader['persons']>,
  writer: RowsWriter,
  check: Check,
): PageQuestions[PersonPageTask['kind']]['result'] {
  switch (task.kind) {
    case 'listPersons': {
      const [query] = task.values
      const { count, numbers } = persons.find(query, check)
      for (const number of numbers) {
        check()
        const person = persons.listed(query.projectId, number)
        if (person !== null && !writer.add(personBody(person))) break
      }
      return { count, ...writer.finish() }
    }
    case 'personValues':
      return all(writer, persons.values(...task.values, check))
    case 'personActivity': {
      const found = persons.activityFrom(...task.values)
      return found && { count: found.totalCount, ...all(writer, found.entries) }
    }
    case 'listGroups':
      return groups(persons, task.values, writer, check)
    case 'listCohorts': {
      const { count, results } = persons.cohorts(...task.values)
      return { count, ...all(writer, results) }
    }
    case 'getCohort': {
      const cohort = persons.cohort(...task.values, check)
      return cohort && { row: rowText(task.format, withWireTimes(cohort)) }
    }
    case 'cohortsOfPerson': {
      const cohorts = persons.cohortsOfPerson(...task.values)
      return cohorts && all(writer, cohorts)
    }
    case 'listActions': {
      const { count, results } = persons.actions(...task.values)
      return { count, ...all(writer, results) }
    }
  }
}

/** Rows with their times as clients see them. */
function all(writer: RowsWriter, rows: Iterable<object>): RowsText {
  for (const row of rows) if (!writer.add(withWireTimes(row))) break
  return writer.finish()
}

function groups(
  persons: ReturnType<EventReader['persons']>,
  [projectId, typeIndex, search, limit, cursor]: PageQuestions['listGroups']['values'],
  writer: RowsWriter,
  check: Check,
): GroupRows {
  let last: string | null = null
  let nextCursor: string | null = null
  for (const group of persons.groupsAfter(projectId, typeIndex, search, cursor, check)) {
    if (writer.rowCount >= limit || !writer.add(withWireTimes(group))) {
      nextCursor = last
      break
    }
    last = group.group_key
  }
  return { ...writer.finish(), nextCursor }
}

function timeline(
  reader: EventReader,
  query: TimelineQuery,
  writer: RowsWriter,
): TimelineRows | null {
  const points = reader.propertiesTimeline(query)
  if (points === null) return null
  const text = all(writer, points)
  if (text.isCut) throw timelineTooLarge()
  return { ...text, firstTimestamp: points[0]?.timestamp ?? null }
}

function flagActivity(
  flags: FlagTasks,
  values: PageQuestions['flagActivity']['values'],
  writer: RowsWriter,
): CountedRows | null {
  const found = flags.activity(...values)
  if (found === null) return null
  for (const entry of found.entries) if (!writer.addText(entry)) break
  return { count: found.totalCount, ...writer.finish() }
}
