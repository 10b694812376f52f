/**
 * Which groups an event belongs to, and what `$groupidentify` makes of a group. Group types get the first free
 * index when they appear, and keep it until somebody deletes them. Source: docs/compatibility/persons.md, "Groups".
 */
import { isObject, type JsonObject } from '../../base/json.ts'
import { GROUP_TYPES_MAX } from '../../base/limits.ts'
import type { EventCells } from '../capture/types.ts'
import { groupState, type PersonContext, type PersonWorld } from './person-world.ts'
import { PropertyTable } from './property-table.ts'
import { fillProperties, type UpdateResult, updateProperties } from './property-updates.ts'

/** A group of an event: `$group_<typeIndex>` is its key. */
export interface GroupKey {
  readonly typeIndex: number
  readonly key: string
}

/** Groups have no `$initial_` properties of their own. */
const JUST_MISSING = { automatic: undefined, isEarlier: false }
const NO_GROUP_KEYS: readonly GroupKey[] = Object.freeze([])
const GROUP_PROPERTIES: readonly string[] = Array.from(
  { length: GROUP_TYPES_MAX },
  (_, index) => `$group_${index}`,
)

/**
 * The groups that `$groups` names, in its order; their types are registered. Entries without a usable
 * key and types beyond the limit are left out. Makes no group. No allocation for events without groups.
 */
export function groupKeysOf(
  properties: JsonObject,
  world: PersonWorld,
  context: Pick<PersonContext, 'areGroupTypesClosed'>,
): readonly GroupKey[] {
  const groups = properties['$groups']
  if (!isObject(groups)) return NO_GROUP_KEYS
  const keys: GroupKey[] = []
  for (const type in groups) {
    if (type === '' || !Object.hasOwn(groups, type)) continue
    const key = keyText(groups[type])
    if (key === null) continue
    const typeIndex = typeIndexOf(type, world, context)
    if (typeIndex !== -1) keys.push({ typeIndex, key })
  }
  return keys
}

/**
 * Writes `$group_0` to `$group_4` into the properties of an event that is about to be stored, which are those
 * of its cells unless that is null.
 */
export function setGroupProperties(
  properties: Record<string, unknown>,
  groupKeys: readonly GroupKey[],
  cells: EventCells | null = null,
): void {
  for (const { typeIndex, key } of groupKeys) {
    const name = GROUP_PROPERTIES[typeIndex]
    if (name === undefined) continue
    if (cells === null) properties[name] = key
    else cells.add(name, key)
  }
}

/**
 * Makes or updates the group that a `$groupidentify` event describes: its properties are merged one by
 * one, `created_at` is the earliest moment known. An event of an import only adds properties that are missing to a
 * group of which live events have told. Nothing when type or key are not usable or the project
 * has its number of types. `refused`: the group would have become too large; it has its old properties.
 */
export function identifyGroup(
  properties: JsonObject,
  timestampMs: number,
  eventBytes: number,
  world: PersonWorld,
  context: PersonContext,
): UpdateResult {
  const type = properties['$group_type']
  const key = keyText(properties['$group_key'])
  if (typeof type !== 'string' || type === '' || key === null) return 'unchanged'
  const typeIndex = typeIndexOf(type, world, context)
  if (typeIndex === -1) return 'unchanged'
  const known = world.group(typeIndex, key)
  const isHistorical = context.isHistorical === true
  const group =
    known ?? groupState(typeIndex, key, context.arrivedAtMs, new PropertyTable(), isHistorical)
  const updates = { $set: properties['$group_set'] }
  const { propertiesBytesMax } = context
  const result =
    isHistorical && !group.isImported
      ? fillProperties(group.properties, updates, eventBytes, propertiesBytesMax, JUST_MISSING)
      : updateProperties(group.properties, updates, eventBytes, propertiesBytesMax)
  const isEarlier = timestampMs < group.createdAtMs
  if (isEarlier) group.createdAtMs = timestampMs
  const isNewlyLive = group.isImported && !isHistorical
  if (isNewlyLive) group.isImported = false
  if (known === null) world.createGroup(group)
  else if (isEarlier || isNewlyLive || result === 'changed') world.updateGroup(group)
  return result
}

/** The index of a type, given now if it has none; -1 when there is none left, or the project takes no new types. */
function typeIndexOf(
  type: string,
  world: PersonWorld,
  { areGroupTypesClosed = false }: Pick<PersonContext, 'areGroupTypesClosed'>,
): number {
  const index = world.groupTypes().indexOf(type)
  if (index !== -1 || areGroupTypesClosed) return index
  const free = world.freeGroupType()
  if (free !== -1) world.addGroupType(type, free)
  return free
}

/** The first index that no type has; -1 when each is taken. A deleted type has left '' in its place. */
export function freeGroupType(types: readonly string[]): number {
  const gap = types.indexOf('')
  if (gap !== -1) return gap
  return types.length < GROUP_TYPES_MAX ? types.length : -1
}

function keyText(key: unknown): string | null {
  if (typeof key === 'string') return key === '' ? null : key
  return typeof key === 'number' || typeof key === 'boolean' ? String(key) : null
}
