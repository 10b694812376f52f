/**
 * The kind `ActorsQuery`: persons and groups as rows, either all persons or the actors behind a number of another
 * query. Source: docs/compatibility/queries.md, "ActorsQuery".
 */
import { fieldText, ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject } from '../../../base/json.ts'
import {
  allOf,
  type FilterGroup,
  filtersOf,
  isCohortFilterType,
} from '../../filters/filter-group.ts'
import { NO_PERSON } from '../../filters/person-filter.ts'
import { propertyText } from '../../filters/property-text.ts'
import { answerTooLarge } from '../answer-formats.ts'
import {
  QUERY_ANSWER_BYTES_MAX,
  QUERY_COLUMNS_MAX,
  QUERY_PAGE_ROWS,
  QUERY_PAGE_ROWS_MAX,
} from '../limits.ts'
import { QueryFields } from '../query-fields.ts'
import { asInvalidQuery, readFilters } from '../query-filters.ts'
import type { FoundKind, QueryActors, QueryContext, QueryKind, QueryShard } from '../query-kind.ts'
import {
  type ActorColumn,
  checkColumn,
  columnValue,
  type FoundActor,
  ID_COLUMN,
  orderedColumn,
  selectedColumn,
} from './actor-columns.ts'
import { type ActorOrder, orderedActors } from './actor-order.ts'

const SELECT_DEFAULT = ['person', 'id', 'person.$delete']
/**
 * The kinds of queries that ask for the actors behind one number of another query. For each kind, the value is the kind
 * that the other query must have. Null means that the other query may have any kind that can list actors.
 */
const PICKS: Readonly<Record<string, string | null>> = {
  InsightActorsQuery: null,
  StickinessActorsQuery: 'StickinessQuery',
  FunnelsActorsQuery: 'FunnelsQuery',
}

interface ActorsPlan {
  /** The columns as the client sent them. */
  readonly select: readonly string[]
  readonly columns: readonly ActorColumn[]
  readonly order: readonly ActorOrder[]
  readonly filter: FilterGroup | null
  /** The text to search for in lower case. Empty if there is none. */
  readonly search: string
  readonly limit: number
  readonly offset: number
  /** The query whose actors are listed. Null means all persons. */
  readonly source: ActorsSource | null
}

/** The query whose actors are listed. `pick` selects the number of its result whose actors are listed. */
interface ActorsSource {
  readonly query: unknown
  readonly plan: unknown
  readonly pick: JsonObject
}

interface ActorsPart {
  readonly rows: readonly (readonly unknown[])[]
  readonly hasMore: boolean
  /** The number of visitors without a person in `rows`. */
  readonly missing: number
}

/** Returns the kind `ActorsQuery`. `kindOf` finds the kinds of other queries; see kinds.ts. */
export function actorsQuery(
  kindOf: (query: unknown) => FoundKind,
): QueryKind<ActorsPlan, ActorsPart> {
  return {
    dividedBy: 'nothing',

    plan(query, context) {
      const given = query.texts('select')
      const select = given.length === 0 ? SELECT_DEFAULT : given
      if (select.length > QUERY_COLUMNS_MAX) {
        throw query.fault('select', `may have at most ${QUERY_COLUMNS_MAX} columns`)
      }
      const columns = select.map((text, index) => selectedColumn(text, `select.${index}`))
      const source = query.value('source')
      const plan = {
        select,
        columns,
        order: readOrder(query, columns),
        filter: readActorFilters(query, context),
        search: (query.text('search') ?? '').toLowerCase(),
        limit: query.whole('limit', 1, QUERY_PAGE_ROWS_MAX) ?? QUERY_PAGE_ROWS,
        offset: query.whole('offset', 0) ?? 0,
        source: source === undefined ? null : readSource(query.within('source'), context, kindOf),
      }
      if (plan.source === null) checkColumns(plan, null)
      return plan
    },

    partial(plan, shard) {
      const { source } = plan
      if (source === null) return foundRows(plan, null, shard)
      const { kind } = kindOf(source.query)
      const pick = new QueryFields(source.pick, 'source')
      return foundRows(
        plan,
        actorsOf(() => kind.actors?.(source.plan, pick, shard)),
        shard,
      )
    },

    merge: (_, [part]) => part ?? { rows: [], hasMore: false, missing: 0 },

    page({ select, columns, limit, offset }, { rows, hasMore, missing }) {
      const types = columns.map(({ type }) => type)
      const members = { columns: select, types, limit, offset, hasMore }
      return { results: rows, members: { ...members, missing_actors_count: missing } }
    },
  }
}

/**
 * Reads the order of the rows. By default, rows are ordered by `created_at`, newest first, if that column is selected,
 * and otherwise by the first column. Rows that are equal are ordered by id.
 */
function readOrder(query: QueryFields, columns: readonly ActorColumn[]): readonly ActorOrder[] {
  const order = query.texts('orderBy').flatMap((text, index) =>
    text.split(',').map((one) => {
      const [, name = '', direction = ''] = /^\s*(.*?)(?:\s+(ASC|DESC))?\s*$/is.exec(one) ?? []
      const column = orderedColumn(name, `orderBy.${index}`)
      return { column, isDescending: direction.toUpperCase() === 'DESC' }
    }),
  )
  if (order.length > QUERY_COLUMNS_MAX) {
    throw query.fault('orderBy', `may have at most ${QUERY_COLUMNS_MAX} columns`)
  }
  const newest = columns.find((column) => column.from === 'actor' && column.member === 'created_at')
  const [first = ID_COLUMN] = columns
  if (order.length === 0) {
    order.push({ column: newest ?? first, isDescending: newest !== undefined })
  }
  return [...order, { column: ID_COLUMN, isDescending: false }]
}

function readActorFilters(query: QueryFields, context: QueryContext): FilterGroup | null {
  const filters = ['properties', 'fixedProperties'].map((name) => {
    const filter = readFilters(query, name, context)
    const types = filter === null ? [] : filtersOf(filter).map(({ type }) => type)
    if (types.every((type) => type === 'person' || isCohortFilterType(type))) return filter
    throw query.fault(name, 'may contain filters on persons and cohorts only')
  })
  return allOf(filters)
}

function readSource(
  pick: QueryFields,
  context: QueryContext,
  kindOf: (query: unknown) => FoundKind,
): ActorsSource {
  const name = pick.text('kind') ?? ''
  if (!Object.hasOwn(PICKS, name)) {
    throw unsupported('source.kind', `must be one of ${Object.keys(PICKS).join(', ')}`)
  }
  const query = pick.value('source')
  if (!isObject(query))
    throw pick.fault('source', 'is missing. Send the query that returns the actors')
  const { kind, fields } = kindOf(query)
  const wanted = PICKS[name] ?? null
  if (wanted !== null && fields.text('kind') !== wanted) {
    throw pick.fault('source', `must be a ${wanted}`)
  }
  if (kind.actors === undefined) {
    throw unsupported(
      'source.source.kind',
      'must be another kind of query. This kind cannot list the people behind its numbers',
    )
  }
  if (pick.text('compare') === 'previous') {
    throw pick.fault(
      'compare',
      'must be `current`, because the people behind previous numbers cannot be listed',
    )
  }
  return { query, plan: kind.plan(fields, context), pick: pick.json }
}

function unsupported(attr: string, what: string): ServiceError {
  return new ServiceError('unsupported_kind', fieldText(attr, what), { attr })
}

/**
 * Returns the result of `find`, which calls the method `actors` of a query kind. Returns null if the kind has no such
 * method. Every 400 that `find` throws becomes the error of an invalid query.
 */
function actorsOf(find: () => QueryActors | undefined): QueryActors | null {
  try {
    return find() ?? null
  } catch (error) {
    throw asInvalidQuery(error)
  }
}

function checkColumns({ columns, order }: ActorsPlan, actors: QueryActors | null): void {
  for (const [index, column] of columns.entries()) checkColumn(column, `select.${index}`, actors)
  for (const [index, { column }] of order.entries()) checkColumn(column, `orderBy.${index}`, actors)
}

function foundRows(plan: ActorsPlan, actors: QueryActors | null, shard: QueryShard): ActorsPart {
  checkColumns(plan, actors)
  const { columns, order, offset, limit } = plan
  const test = actorTest(plan, shard)
  const countMax = test === null ? offset + limit + 1 : Number.POSITIVE_INFINITY
  const rows: (readonly unknown[])[] = []
  let missing = 0
  let passed = 0
  let units = 0
  for (const found of orderedActors(order, actors, countMax, shard)) {
    if (found === null || (test !== null && !test(found))) continue
    if (passed++ < offset) continue
    if (rows.length === limit) return { rows, hasMore: true, missing }
    units += found.person?.propertyUnits ?? 0
    if (units > QUERY_ANSWER_BYTES_MAX) throw answerTooLarge()
    if (found.visitorId !== null) missing++
    rows.push(columns.map((column) => columnValue(column, found, actors)))
  }
  return { rows, hasMore: false, missing }
}

/** Returns the test for `properties` and `search`, or null if the query contains neither. */
function actorTest(
  { filter, search }: ActorsPlan,
  { actorSource }: QueryShard,
): ((found: FoundActor) => boolean) | null {
  if (filter === null && search === '') return null
  const personTest = filter === null ? null : actorSource.personTest(filter)
  const contains = (value: unknown): boolean =>
    value !== undefined && value !== null && propertyText(value).toLowerCase().includes(search)
  return ({ id, person, visitorId, properties }) => {
    const candidate = visitorId === null ? person : NO_PERSON
    if (personTest !== null && (candidate === null || !personTest(candidate))) return false
    if (search === '' || contains(id) || contains(visitorId)) return true
    if (contains(ownMember(properties, 'name'))) return true
    if (person === null) return false
    return (
      contains(ownMember(properties, 'email')) ||
      person.distinctIds(Number.POSITIVE_INFINITY).some(contains)
    )
  }
}

function ownMember(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined
}
