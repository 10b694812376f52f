/**
 * Finds the groups that an event belongs to, and applies `$groupidentify` to a group. A new group type gets the first
 * free index and keeps it until it is deleted. Source: docs/compatibility/persons.md, "Groups".
 */
import { isObject, type JsonObject } from '../../base/json.ts'
import { GROUP_TYPES_MAX } from '../../base/limits.ts'
import type { EventCells } from '../capture/types.ts'
import { groupState, type PersonContext, type PersonRepository } from './person-repository.ts'
import { PropertyTable } from './property-table.ts'
import { fillProperties, type UpdateResult, updateProperties } from './property-updates.ts'

/** A group of an event: the index of its type, and its key, which is stored as the property `$group_<typeIndex>`. */
export interface GroupKey {
  readonly typeIndex: number
  readonly key: string
}

/**
 * The options of an update that only adds missing properties. There are no automatic values, and `isEarlier` does not
 * matter, because groups have no `$initial_` properties.
 */
const JUST_MISSING = { automatic: undefined, isEarlier: false }
const NO_GROUP_KEYS: readonly GroupKey[] = Object.freeze([])
const GROUP_PROPERTIES: readonly string[] = Array.from(
  { length: GROUP_TYPES_MAX },
  (_, index) => `$group_${index}`,
)

/**
 * Returns the groups in the property `$groups` of an event, in its order. New group types are registered, but no group
 * is created. An entry without a valid key is left out, and so is an entry whose type would exceed the maximum number
 * of types. For an event without groups, nothing is allocated.
 */
export function groupKeysOf(
  properties: JsonObject,
  repository: PersonRepository,
  context: Pick<PersonContext, 'areGroupTypesClosed'>,
): readonly GroupKey[] {
  const groups = properties['$groups']
  if (!isObject(groups)) return NO_GROUP_KEYS
  const keys: GroupKey[] = []
  for (const type in groups) {
    if (type === '' || !Object.hasOwn(groups, type)) continue
    const key = keyText(groups[type])
    if (key === null) continue
    const typeIndex = typeIndexOf(type, repository, context)
    if (typeIndex !== -1) keys.push({ typeIndex, key })
  }
  return keys
}

/**
 * Writes `$group_0` to `$group_4` into the properties of an event before it is stored. If `cells` is not null, they are
 * written into the cells instead.
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
 * Creates or updates the group that a `$groupidentify` event describes. Its properties are merged one by one, and
 * `created_at` becomes the earliest known moment. If live events have already described the group, an event of an
 * import only adds missing properties. Nothing changes if the type or the key is unusable, or if the type is new and
 * the project accepts no more types. Returns `refused` if the group would become too large; it then keeps its old
 * properties.
 */
export function identifyGroup(
  properties: JsonObject,
  timestampMs: number,
  eventBytes: number,
  repository: PersonRepository,
  context: PersonContext,
): UpdateResult {
  const type = properties['$group_type']
  const key = keyText(properties['$group_key'])
  if (typeof type !== 'string' || type === '' || key === null) return 'unchanged'
  const typeIndex = typeIndexOf(type, repository, context)
  if (typeIndex === -1) return 'unchanged'
  const known = repository.group(typeIndex, key)
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
  if (known === null) repository.createGroup(group)
  else if (isEarlier || isNewlyLive || result === 'changed') repository.updateGroup(group)
  return result
}

/**
 * Returns the index of a type and assigns one if necessary. Returns -1 if no index is free, or if the project accepts
 * no new types.
 */
function typeIndexOf(
  type: string,
  repository: PersonRepository,
  { areGroupTypesClosed = false }: Pick<PersonContext, 'areGroupTypesClosed'>,
): number {
  const index = repository.groupTypes().indexOf(type)
  if (index !== -1 || areGroupTypesClosed) return index
  const free = repository.freeGroupType()
  if (free !== -1) repository.addGroupType(type, free)
  return free
}

/** Returns the first free index, or -1 if every index is taken. A deleted type leaves '' in the list. */
export function freeGroupType(types: readonly string[]): number {
  const gap = types.indexOf('')
  if (gap !== -1) return gap
  return types.length < GROUP_TYPES_MAX ? types.length : -1
}

function keyText(key: unknown): string | null {
  if (typeof key === 'string') return key === '' ? null : key
  return typeof key === 'number' || typeof key === 'boolean' ? String(key) : null
}
