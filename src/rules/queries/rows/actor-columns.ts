/**
 * The columns of an ActorsQuery: how they are written, and what each shows of a person or group. Source:
 * docs/compatibility/queries.md, "ActorsQuery".
 */

import type { JsonObject } from '../../../base/json.ts'
import { optionalTimeText } from '../../../base/time.ts'
import type { FoundPerson } from '../actor-source.ts'
import { invalidQuery } from '../query-fields.ts'
import type { QueryActors } from '../query-kind.ts'
import { propertyName, withoutLabel } from './column-texts.ts'

/** A person or group of an answer. */
export interface FoundActor {
  /** Its place in the lists of the source. */
  readonly place: number
  /** uuid of a person, key of a group. */
  readonly id: string
  /** Milliseconds since 1970. */
  readonly createdAtMs: number | null
  /** Null: a group, or a visitor who is no person. */
  readonly person: FoundPerson | null
  /** Of a visitor who is no person; null: a person or group. */
  readonly visitorId: string | null
  readonly properties: JsonObject
  /** As the column `person` or `group` shows it. */
  shown(): JsonObject
}

/** A column that is selected or ordered by. `type`: what answers call the type of its values. */
export type ActorColumn =
  /** What the source says of each actor; of a list maybe its length. */
  | {
      readonly from: 'source'
      readonly type: string
      readonly list: 'eventCounts' | 'distinctIds' | 'appearances'
      readonly isLength: boolean
    }
  /** What the actor is; `key`: name of a property. */
  | {
      readonly from: 'actor'
      readonly type: string
      readonly member: 'actor' | 'id' | 'created_at' | 'property' | 'deletion' | 'recordings'
      readonly key: string
    }

const actor = { from: 'actor', type: 'Tuple', member: 'actor', key: '' } as const
const source = { from: 'source', isLength: false } as const
const property = { from: 'actor', type: 'Nullable(String)', member: 'property' } as const

/** The column that is the identity of an actor. */
export const ID_COLUMN: ActorColumn = { ...actor, type: 'String', member: 'id' }
const SELECTED: Readonly<Record<string, ActorColumn>> = {
  person: actor,
  actor,
  group: actor,
  id: ID_COLUMN,
  created_at: { ...actor, type: "DateTime64(6, 'UTC')", member: 'created_at' },
  'person.$delete': { ...actor, type: 'UInt8', member: 'deletion' },
  event_count: { ...source, type: 'UInt64', list: 'eventCounts' },
  event_distinct_ids: { ...source, type: 'Array(String)', list: 'distinctIds' },
  appearances: { ...source, type: 'Array(UInt64)', list: 'appearances' },
  matched_recordings: { ...actor, type: 'Array(String)', member: 'recordings' },
}
const ORDERED: Readonly<Record<string, ActorColumn>> = {
  id: ID_COLUMN,
  actor_id: ID_COLUMN,
  created_at: { ...actor, member: 'created_at' },
  person: { ...property, key: 'email' },
  event_count: { ...source, type: '', list: 'eventCounts' },
  'length(appearances)': { ...source, type: '', list: 'appearances', isLength: true },
}

/** A column of `select`; what stands behind `--` is a comment. Throws 400 `invalid_query` with `attr`. */
export function selectedColumn(text: string, attr: string): ActorColumn {
  return columnIn(SELECTED, withoutLabel(text), attr)
}

/** A column of `orderBy`. Throws 400 `invalid_query` with `attr`. */
export function orderedColumn(text: string, attr: string): ActorColumn {
  return columnIn(ORDERED, text, attr)
}

function columnIn(
  columns: Readonly<Record<string, ActorColumn>>,
  text: string,
  attr: string,
): ActorColumn {
  const name = text.trim()
  const rest = /^properties([.[].*)$/s.exec(name)?.[1]
  const key = rest === undefined ? null : propertyName(rest)
  if (key !== null) return { ...property, key }
  const column = Object.hasOwn(columns, name) ? columns[name] : undefined
  if (column !== undefined) return column
  throw invalidQuery(
    attr,
    `must be one of ${Object.keys(columns).join(', ')}, properties.name, properties."any name"`,
  )
}

/** Refuses a column that the source, null for all persons, does not have. Throws 400 `invalid_query`. */
export function checkColumn(column: ActorColumn, attr: string, actors: QueryActors | null): void {
  if (column.from === 'actor' || actors?.[column.list] !== undefined) return
  throw invalidQuery(attr, 'must not name what the source does not say of its actors')
}

/** What a column shows of an actor. */
export function columnValue(
  column: ActorColumn,
  found: FoundActor,
  actors: QueryActors | null,
): unknown {
  if (column.from === 'source') return sourceValue(column, found.place, actors)
  const { createdAtMs, properties } = found
  switch (column.member) {
    case 'actor':
      return found.shown()
    case 'id':
      return found.id
    case 'created_at':
      return optionalTimeText(createdAtMs)
    case 'property':
      return Object.hasOwn(properties, column.key) ? (properties[column.key] ?? null) : null
    case 'deletion':
      return 1
    case 'recordings':
      return []
  }
}

/** What actors are ordered by: of a whole actor its identity, of a time its milliseconds. */
export function columnOrder(
  column: ActorColumn,
  found: FoundActor,
  actors: QueryActors | null,
): unknown {
  if (column.from === 'source' || column.member === 'property') {
    return columnValue(column, found, actors)
  }
  return column.member === 'created_at' ? found.createdAtMs : found.id
}

/** What the source says of the actor at a place. */
export function sourceValue(
  { list, isLength }: Extract<ActorColumn, { from: 'source' }>,
  place: number,
  actors: QueryActors | null,
): unknown {
  const value = actors?.[list]?.[place] ?? null
  return isLength && Array.isArray(value) ? value.length : value
}
