/**
 * The columns of a list of events, and the value that each has for an event. Source: docs/compatibility/queries.md,
 * "EventsQuery".
 */
import type { ValueRequest } from '../../analytics/event-columns.ts'
import type { EventView } from '../../events/event-queries.ts'
import { type ChainElement, chainElements } from '../../filters/element-filter.ts'
import { emailOf, personName } from '../../persons/person-name.ts'
import { QUERY_COLUMN_DEPTH_MAX } from '../limits.ts'
import { partsOf, propertyName, withoutLabel } from './column-texts.ts'

/** A column of an EventsQuery, as its `select` names it. */
export interface EventColumn {
  readonly kind:
    | 'all'
    | 'field'
    | 'property'
    | 'person_property'
    | 'display_name'
    | 'coalesce'
    | 'count'
  /** The name of a field or property. */
  readonly name: string
  /** The columns of `coalesce`. */
  readonly columns: readonly EventColumn[]
}

const FIELDS: ReadonlyMap<string, (event: EventView) => unknown> = new Map<
  string,
  (event: EventView) => unknown
>([
  ['uuid', ({ uuid }) => uuid],
  ['event', ({ event }) => event],
  ['distinct_id', ({ distinct_id }) => distinct_id],
  ['timestamp', ({ timestamp }) => timestamp],
  ['created_at', ({ created_at }) => created_at],
  ['properties', ({ properties }) => properties],
  ['elements_chain', ({ elements_chain }) => elements_chain],
  ['person_id', ({ person_id }) => person_id],
  ['person', personOf],
])

/** The texts that `select` and `orderBy` accept, for error messages. */
export const COLUMN_TEXTS = `*, ${[...FIELDS.keys()].join(', ')}, person_display_name, properties.X, properties."any name", person.properties.X, coalesce(a, b), count()`

/** Returns the column described by a text, with or without a label. Returns null for any other text. */
export function eventColumn(text: string, depth = 0): EventColumn | null {
  const name = withoutLabel(text)
  const column = (kind: EventColumn['kind'], rest = '', columns: readonly EventColumn[] = []) => {
    return { kind, name: rest, columns }
  }
  if (name === '*') return column('all')
  if (name === 'count()') return column('count')
  if (name === 'person_display_name') return column('display_name')
  if (FIELDS.has(name)) return column('field', name)
  const [, isPerson, rest] = /^(person\.)?properties([.[].*)$/s.exec(name) ?? []
  if (rest !== undefined) {
    // A name without blanks, brackets, commas and quotes may be written without quotes.
    const isPlain = /^\.[^\s(),"'`][^\s(),]*$/.test(rest)
    const key = isPlain || /^(?:\.["`]|\[)/.test(rest) ? propertyName(rest) : null
    if (key === null) return null
    return column(isPerson === undefined ? 'property' : 'person_property', key)
  }
  const [, list] = /^coalesce\((.+)\)$/is.exec(name) ?? []
  if (list === undefined || depth >= QUERY_COLUMN_DEPTH_MAX) return null
  const columns = partsOf(list).map((part) => eventColumn(part, depth + 1))
  return columns.every((one) => one !== null) ? column('coalesce', '', columns) : null
}

/** Returns the value of a column for an event, or null if there is none. `count()` has no value for a single event. */
export function columnOf(column: EventColumn, event: EventView, projectId: number): unknown {
  switch (column.kind) {
    case 'all':
      return wholeOf(event, projectId)
    case 'field':
      return FIELDS.get(column.name)?.(event) ?? null
    case 'property':
      return ownMember(event.properties, column.name)
    case 'person_property':
      return ownMember(event.person?.properties ?? {}, column.name)
    case 'display_name':
      return displayNameOf(event)
    case 'coalesce':
      return column.columns.map((one) => columnOf(one, event, projectId)).find(isValue) ?? null
    case 'count':
      return null
  }
}

/**
 * Returns the values that a scan must read to compute a column. Returns null if the column needs values that a scan
 * cannot read.
 */
export function scannedValues(column: EventColumn): readonly ValueRequest[] | null {
  switch (column.kind) {
    case 'property':
      return [{ kind: 'event_property', key: column.name }]
    case 'person_property':
      return [{ kind: 'person_property', key: column.name }]
    case 'field':
      return column.name === 'event' ? [{ kind: 'event_name' }] : null
    case 'coalesce': {
      const parts = column.columns.map(scannedValues)
      return parts.every((part) => part !== null) ? parts.flat() : null
    }
    case 'count':
      return []
    case 'all':
    case 'display_name':
      return null
  }
}

/** Returns the type of a column, in the form that the member `types` of an answer contains. */
export function columnType({ kind, name }: EventColumn): string {
  if (kind === 'field' && name === 'uuid') return 'UUID'
  if (kind === 'field' && (name === 'timestamp' || name === 'created_at')) {
    return "DateTime64(6, 'UTC')"
  }
  if (kind === 'all' || kind === 'display_name') return 'Tuple'
  if (kind === 'count') return 'UInt64'
  return kind === 'field' ? 'String' : 'Nullable(String)'
}

/** Returns false for null and for a missing value. */
export function isValue(value: unknown): boolean {
  return value !== null && value !== undefined
}

function ownMember(properties: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(properties, name) ? (properties[name] ?? null) : null
}

function wholeOf(event: EventView, projectId: number) {
  const {
    uuid,
    event: name,
    properties,
    timestamp,
    distinct_id,
    elements_chain,
    created_at,
  } = event
  return {
    uuid,
    event: name,
    properties,
    timestamp,
    team_id: projectId,
    distinct_id,
    elements_chain,
    created_at,
    person_mode: 'full',
    ...(elements_chain === '' ? {} : { elements: chainElements(elements_chain).map(elementOf) }),
  }
}

/**
 * Returns an element in the form that answers contain. `order` is its distance from the clicked element, which has the
 * order 0.
 */
function elementOf({ tagName, classes, attributes }: ChainElement, order: number) {
  const { text, href, attr_id, ...rest } = Object.fromEntries(attributes)
  const { 'nth-child': child, 'nth-of-type': ofType, ...others } = rest
  return {
    text: text ?? null,
    tag_name: tagName,
    attr_class: classes.length === 0 ? null : classes,
    href: href ?? null,
    attr_id: attr_id ?? null,
    nth_child: Number(child ?? 0),
    nth_of_type: Number(ofType ?? 0),
    attributes: others,
    order,
  }
}

function personOf({ person, distinct_id }: EventView) {
  if (person === null) return { distinct_id }
  const { uuid, created_at, properties } = person
  return { uuid, created_at, properties, distinct_id }
}

function displayNameOf({ person, person_id, distinct_id }: EventView) {
  const email = person === null ? null : emailOf(person.properties)
  const display_name = personName(email, person?.distinct_ids ?? [distinct_id], 0)
  return { display_name, id: person_id, distinct_id }
}
