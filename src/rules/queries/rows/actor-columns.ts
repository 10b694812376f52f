/**
 * The columns of an ActorsQuery: how a query names them, and the value that each has for a person or group. Source:
 * docs/compatibility/queries.md, "ActorsQuery".
 */

import type { JsonObject } from '../../../base/json.ts'
import { optionalTimeText } from '../../../base/time.ts'
import type { FoundPerson } from '../actor-source.ts'
import { invalidQuery } from '../query-fields.ts'
import type { QueryActors } from '../query-kind.ts'
import { propertyName, withoutLabel } from './column-texts.ts'

/** A person, a group or a visitor without a person, as a row of the answer. */
export interface FoundActor {
  /** The index in the lists of `QueryActors`. */
  readonly place: number
  /** The uuid of a person, or the key of a group. */
  readonly id: string
  /** The time of creation, in milliseconds since 1970. Null if it is unknown. */
  readonly createdAtMs: number | null
  /** The person. Null for a group, or for a visitor without a person. */
  readonly person: FoundPerson | null
  /** The id of a visitor without a person. Null for a person or group. */
  readonly visitorId: string | null
  readonly properties: JsonObject
  /** Returns the actor as the column `person` or `group` shows it. */
  shown(): JsonObject
}

/** A column that is selected or that rows are ordered by. `type` is the type of its values in answers. */
export type ActorColumn =
  /**
   * A value from a list of `QueryActors`, which contains one value for each actor. If `isLength` is true and the value
   * is itself a list, the column shows the length of the value.
   */
  | {
      readonly from: 'source'
      readonly type: string
      readonly list: 'eventCounts' | 'distinctIds' | 'appearances'
      readonly isLength: boolean
    }
  /** A value of the actor itself. `key` is the name of a property. */
  | {
      readonly from: 'actor'
      readonly type: string
      readonly member: 'actor' | 'id' | 'created_at' | 'property' | 'deletion' | 'recordings'
      readonly key: string
    }

const actor = { from: 'actor', type: 'Tuple', member: 'actor', key: '' } as const
const source = { from: 'source', isLength: false } as const
const property = { from: 'actor', type: 'Nullable(String)', member: 'property' } as const

/** The column that contains the identity of an actor. */
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

/** Returns a column of `select`. The text after `--` is a comment. Throws 400 `invalid_query` with `attr`. */
export function selectedColumn(text: string, attr: string): ActorColumn {
  return columnIn(SELECTED, withoutLabel(text), attr)
}

/** Returns a column of `orderBy`. Throws 400 `invalid_query` with `attr`. */
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

/**
 * Throws 400 `invalid_query` if the query in `source`, which finds the actors, does not provide the column. `actors` is
 * null if the query has no source and lists all persons.
 */
export function checkColumn(column: ActorColumn, attr: string, actors: QueryActors | null): void {
  if (column.from === 'actor' || actors?.[column.list] !== undefined) return
  throw invalidQuery(
    attr,
    'is a column that the query in `source` does not provide. Leave the column out',
  )
}

/** Returns the value of a column for an actor. */
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

/** Returns the value by which actors are ordered. For a whole actor it is the id, and for a time it is milliseconds. */
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

/** Returns the value that the lists of `QueryActors` contain for the actor at an index. */
export function sourceValue(
  { list, isLength }: Extract<ActorColumn, { from: 'source' }>,
  place: number,
  actors: QueryActors | null,
): unknown {
  const value = actors?.[list]?.[place] ?? null
  return isLength && Array.isArray(value) ? value.length : value
}
