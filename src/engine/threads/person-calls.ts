/**
 * Calls about persons, groups, cohorts and actions. Each call reads in one transaction. A large table is produced by
 * several calls.
 */
import type { RowFormat, RowsText } from '../../base/pages.ts'
import { rowText } from '../../base/rows-writer.ts'
import type { GroupRows } from '../../rules/persons/group-shapes.ts'
import { personBody, withWireTimes } from '../../rules/persons/person-answer.ts'
import type {
  PersonListQuery,
  PersonReference,
  TimelineQuery,
  TimelineRows,
} from '../../rules/persons/person-queries.ts'
import { timelineTooLarge } from '../../rules/persons/person-views.ts'
import { LONG_WEIGHT, long, type PageTools, page, short } from './call-kinds.ts'
import type { FlagsFileTask } from './flags-file.ts'
import { allRows, logRows, requireWanted } from './pages.ts'
import { makeExportChunk, makeTableChunk, tableBuffers } from './table-tasks.ts'

/** Calls about persons, their activity, groups and cohorts. */
export const PERSON_CALLS = {
  /** Returns a page as JSON. If the page is wanted as CSV, `personTable` produces it. */
  listPersons: page(
    ({ stores, writer, check }, query: PersonListQuery) => {
      const persons = stores.reader.persons()
      const { count, numbers } = persons.find(query, check)
      for (const person of persons.listedTexts(query.projectId, numbers)) {
        check()
        if (!writer.addText(person)) break
      }
      return { count, ...writer.finish() }
    },
    ([{ limit }]) => limit,
  ),
  /** Returns the person. The list of its distinct_ids begins at position `firstId`. */
  getPerson: short(
    (
      { reader },
      projectId: number,
      reference: PersonReference,
      format: RowFormat,
      firstId: number,
    ) => {
      const person = reader.persons().person(projectId, reference, firstId)
      return person && rowText(format, personBody(person))
    },
  ),
  /** Returns the uuid of a person, or null if the person does not exist. */
  findPerson: short(({ reader }, projectId: number, reference: PersonReference) => {
    const record = reader.persons().record(projectId, reference)
    return record && { uuid: record.uuid }
  }),
  /** Returns the uuids of the given persons, without duplicates. Leaves out persons that do not exist. */
  findPersons: short(
    (
      { reader },
      projectId: number,
      references: readonly PersonReference[],
      distinctIds: readonly string[],
    ) => reader.persons().uuidsOf(projectId, references, distinctIds),
  ),
  /** Returns rows of `ValueCount`. */
  personValues: page(
    ({ stores, writer, check }, projectId: number, key: string, contains: string | null) =>
      allRows(writer, stores.reader.persons().values(projectId, key, contains, check)),
    () => 1,
  ),
  /**
   * Returns rows of `ActivityView`. If `person` is null, returns the rows of the whole project. Returns null if the
   * person does not exist.
   */
  personActivity: page(
    (
      { stores, writer },
      projectId: number,
      person: PersonReference | null,
      offset: number,
      limit: number,
    ) => logRows(writer, stores.reader.persons().activityFrom(projectId, person, offset, limit)),
    ([, , , limit]) => limit,
  ),
  /** Returns rows of `TimelinePoint`, or null if the person does not exist. */
  propertiesTimeline: page(timeline, () => LONG_WEIGHT),
  groupTypes: short(({ reader }, projectId: number) => reader.persons().groupTypes(projectId)),
  listGroups: page(groups, ([, , , limit]) => limit),
  findGroup: short(
    ({ reader }, projectId: number, typeIndex: number, key: string, format: RowFormat) => {
      const group = reader.persons().group(projectId, typeIndex, key)
      return group && rowText(format, withWireTimes(group))
    },
  ),
  /** Returns rows of `CohortView`. */
  listCohorts: page(
    ({ stores, writer }, projectId: number, limit: number, offset: number) => {
      const { count, results } = stores.reader.persons().cohorts(projectId, limit, offset)
      return { count, ...allRows(writer, results) }
    },
    ([, limit]) => limit,
  ),
  /** Returns all cohorts that are not deleted, without their member counts. */
  knownCohorts: short(
    ({ reader }, projectId: number) =>
      reader.persons().cohorts(projectId, Number.MAX_SAFE_INTEGER, 0).results,
  ),
  getCohort: page(
    ({ stores, format, check }, projectId: number, id: number) => {
      const cohort = stores.reader.persons().cohort(projectId, id, check)
      return cohort && rowText(format, withWireTimes(cohort))
    },
    () => 1,
  ),
  /**
   * Returns the cohorts that contain a person. Leaves out deleted cohorts. Returns null if the person does not exist.
   */
  cohortsOfPerson: page(
    ({ stores, writer }, projectId: number, person: PersonReference): RowsText | null => {
      const cohorts = stores.reader.persons().cohortsOfPerson(projectId, person)
      return cohorts && allRows(writer, cohorts)
    },
    () => 1,
  ),
}

/** Calls that produce tables of persons, exports of events and files with flags, each in several parts. */
export const TABLE_CALLS = {
  // Do not change these names or the member `piece` of the results. Machines of older versions in the same cluster use
  // them.
  /** Produces the next part of the table. person-table.ts requests one part after the other. */
  personTablePiece: long(makeTableChunk, 'long_readers', tableBuffers),
  /** Produces the next part of an export. */
  eventExportPiece: long(makeExportChunk, 'long_readers', ({ piece }) => [piece.buffer]),
  /** Produces the next part of the file with all flags of a project. */
  flagsFilePiece: long(
    ({ stores, canceled }, task: FlagsFileTask) => {
      requireWanted(canceled)
      return stores.flags.fileChunk(task)
    },
    'long_readers',
    ({ piece }) => [piece.buffer],
  ),
}

/** Calls about actions. A deleted action is treated as if it did not exist. */
export const ACTION_CALLS = {
  /** Returns rows of `ActionView`. */
  listActions: page(
    ({ stores, writer }, projectId: number, limit: number, offset: number) => {
      const { count, results } = stores.reader.persons().actions(projectId, limit, offset)
      return { count, ...allRows(writer, results) }
    },
    ([, limit]) => limit,
  ),
  getAction: short(({ reader }, projectId: number, id: number, format: RowFormat) => {
    const action = reader.persons().action(projectId, id)
    return action && rowText(format, withWireTimes(action))
  }),
}

function groups(
  { stores, writer, check }: PageTools,
  projectId: number,
  typeIndex: number,
  search: string | null,
  limit: number,
  cursor: string | null,
): GroupRows {
  let last: string | null = null
  let nextCursor: string | null = null
  const persons = stores.reader.persons()
  for (const group of persons.groupsAfter(projectId, typeIndex, search, cursor, check)) {
    if (writer.rowCount >= limit || !writer.add(withWireTimes(group))) {
      nextCursor = last
      break
    }
    last = group.group_key
  }
  return { ...writer.finish(), nextCursor }
}

function timeline({ stores, writer }: PageTools, query: TimelineQuery): TimelineRows | null {
  const points = stores.reader.propertiesTimeline(query)
  if (points === null) return null
  const text = allRows(writer, points)
  if (text.isCut) throw timelineTooLarge()
  return { ...text, firstTimestamp: points[0]?.timestamp ?? null }
}
