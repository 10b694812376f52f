/** What a request says about an action. Source: docs/COMPATIBILITY.md, "Actions". */
import { ServiceError } from '../../base/errors.ts'

const NAME_UNITS_MAX = 400
const DESCRIPTION_UNITS_MAX = 1000
/** Steps of an action. More: 400 `invalid_input`. */
const STEPS_MAX = 100
/** Tags of an action. More: 400 `invalid_input`. */
const TAGS_MAX = 100
const TAG_UNITS_MAX = 255
const STEP_TEXT_UNITS_MAX = 1000
const MATCHINGS = ['contains', 'exact', 'regex'] as const

type Matching = (typeof MATCHINGS)[number]

/** Reads one member of a request: undefined when it is absent. */
type Read = (name: string) => unknown

/** A step as its text members say; `properties` as they were sent. */
export interface ActionStepFields {
  readonly event: string | null
  readonly url: string | null
  readonly url_matching: Matching
  readonly selector: string | null
  readonly tag_name: string | null
  readonly text: string | null
  readonly text_matching: Matching
  readonly href: string | null
  readonly href_matching: Matching
  readonly properties: unknown
}

/** The members of an action that stand in a request; what is absent is absent here, too. */
export interface ActionFields {
  readonly name?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly steps?: readonly ActionStepFields[]
  readonly deleted?: boolean
}

/** Reads the fields of an action. Throws 400 `invalid_input` with the field as `attr`. */
export function readActionFields(read: Read): ActionFields {
  const name = readText(read('name'), 'name', NAME_UNITS_MAX)
  const description = readText(read('description'), 'description', DESCRIPTION_UNITS_MAX)
  const steps = readList(read('steps'), 'steps', STEPS_MAX)
  const tags = readList(read('tags'), 'tags', TAGS_MAX)
  const deleted = readBoolean(read('deleted'))
  return {
    ...(name === null ? {} : { name: name.trim() }),
    ...(description === null ? {} : { description }),
    ...(tags === null ? {} : { tags: tags.map(readTag) }),
    ...(steps === null ? {} : { steps: steps.map(readStep) }),
    ...(deleted === null ? {} : { deleted }),
  }
}

function readTag(tag: unknown): string {
  const text = readText(tag, 'tags', TAG_UNITS_MAX)
  if (text === null || text === '') throw invalid('tags', 'must hold texts')
  return text
}

function readStep(raw: unknown): ActionStepFields {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
    throw invalid('steps', 'may hold objects only')
  }
  const members = new Map<string, unknown>(Object.entries(raw))
  const text = (name: string): string | null => {
    const value = readText(members.get(name), 'steps', STEP_TEXT_UNITS_MAX)
    return value === '' ? null : value
  }
  const matching = (name: string, ifAbsent: Matching): Matching => {
    const value = members.get(name) ?? ifAbsent
    const found = MATCHINGS.find((one) => one === value)
    if (found === undefined) throw invalid('steps', `need contains, exact or regex as ${name}`)
    return found
  }
  return {
    event: text('event'),
    url: text('url'),
    url_matching: matching('url_matching', 'contains'),
    selector: text('selector'),
    tag_name: text('tag_name'),
    text: text('text'),
    text_matching: matching('text_matching', 'exact'),
    href: text('href'),
    href_matching: matching('href_matching', 'exact'),
    properties: members.get('properties') ?? [],
  }
}

function readList(value: unknown, attr: string, countMax: number): readonly unknown[] | null {
  if (value === undefined || value === null) return null
  if (!Array.isArray(value)) throw invalid(attr, 'must be a list')
  const list: readonly unknown[] = value
  if (list.length > countMax) throw invalid(attr, `may hold ${countMax} entries at most`)
  return list
}

function readText(value: unknown, attr: string, unitsMax: number): string | null {
  if (value === undefined || value === null) return null
  if (typeof value !== 'string') throw invalid(attr, 'must be a text')
  if (value.length > unitsMax) throw invalid(attr, `may have ${unitsMax} characters at most`)
  return value
}

function readBoolean(value: unknown): boolean | null {
  if (value === undefined || value === null || value === '') return null
  if (typeof value === 'boolean') return value
  const text = typeof value === 'string' ? value.toLowerCase() : ''
  if (text !== 'true' && text !== 'false') throw invalid('deleted', 'must be true or false')
  return text === 'true'
}

function invalid(attr: string, what: string): ServiceError {
  return new ServiceError('invalid_input', `${attr} ${what}`, { attr })
}
