/** What a request says about a cohort. Source: docs/COMPATIBILITY.md, "Cohorts". */
import { ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'

const NAME_UNITS_MAX = 400
const DESCRIPTION_UNITS_MAX = 1000
/** Persons that one request may add. More: 400 `invalid_input`. */
const MEMBERS_MAX = 100_000

/** Reads one member of a request: undefined when it is absent. */
type Read = (name: string) => unknown

/** The members of a cohort that stand in a request; what is absent is absent here, too. */
export interface CohortFields {
  readonly name?: string
  readonly description?: string
  readonly isStatic?: boolean
  /** The tree of filters as it was sent; null for an explicit nothing. */
  readonly filters?: unknown
  readonly deleted?: boolean
  readonly personUuids: readonly string[]
  readonly distinctIds: readonly string[]
}

/** Reads the fields of a cohort. Throws 400 `invalid_input` with the field as `attr`. */
export function readCohortFields(read: Read): CohortFields {
  const name = readText(read, 'name', NAME_UNITS_MAX)
  const description = readText(read, 'description', DESCRIPTION_UNITS_MAX)
  const isStatic = readBoolean(read, 'is_static')
  const deleted = readBoolean(read, 'deleted')
  const filters = readFilters(read('filters'))
  return {
    ...(name === undefined ? {} : { name: name.trim() }),
    ...(description === undefined ? {} : { description }),
    ...(isStatic === undefined ? {} : { isStatic }),
    ...(deleted === undefined ? {} : { deleted }),
    ...(filters === undefined ? {} : { filters }),
    personUuids: readPersonUuids(read),
    distinctIds: readList(read, 'distinct_ids').map((id) => {
      if (typeof id === 'string' && id !== '') return id
      throw invalid('distinct_ids', 'must hold texts')
    }),
  }
}

/** Checks a list of distinct ids that came as a table. Throws 400 `invalid_input`. */
export function checkMemberCount(members: readonly string[], attr: string): void {
  if (members.length > MEMBERS_MAX) {
    throw invalid(attr, `may hold ${MEMBERS_MAX} persons at most: send the rest with PATCH`)
  }
}

/** `{"properties": tree}`, as cohorts are shown, or the bare tree. */
function readFilters(filters: unknown): unknown {
  if (typeof filters !== 'object' || filters === null || Array.isArray(filters)) return filters
  const tree = Object.getOwnPropertyDescriptor(filters, 'properties')
  if (tree !== undefined) return tree.value as unknown
  return Object.keys(filters).length === 0 ? null : filters
}

function readPersonUuids(read: Read): readonly string[] {
  const isOldName = read('person_uuids') === undefined
  const attr = isOldName ? '_create_static_person_ids' : 'person_uuids'
  return readList(read, attr).map((text) => {
    const uuid = typeof text === 'string' ? parseUuid(text) : null
    if (uuid === null) throw invalid(attr, 'must hold uuids of persons')
    return formatUuid(uuid, 0)
  })
}

function readList(read: Read, attr: string): readonly unknown[] {
  const list = read(attr)
  if (list === undefined || list === null) return []
  if (!Array.isArray(list)) throw invalid(attr, 'must be a list')
  if (list.length > MEMBERS_MAX) {
    throw invalid(attr, `may hold ${MEMBERS_MAX} persons at most: send the rest with PATCH`)
  }
  return list
}

function readText(read: Read, attr: string, unitsMax: number): string | undefined {
  const text = read(attr)
  if (text === undefined || text === null) return undefined
  if (typeof text !== 'string') throw invalid(attr, 'must be a text')
  if (text.length > unitsMax) throw invalid(attr, `may have ${unitsMax} characters at most`)
  return text
}

function readBoolean(read: Read, attr: string): boolean | undefined {
  const value = read(attr)
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'boolean') return value
  const text = typeof value === 'string' ? value.toLowerCase() : ''
  if (text !== 'true' && text !== 'false') throw invalid(attr, 'must be true or false')
  return text === 'true'
}

function invalid(attr: string, what: string): ServiceError {
  return new ServiceError('invalid_input', `${attr} ${what}`, { attr })
}
