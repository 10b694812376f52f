/**
 * Applies `$set`, `$set_once`, `$unset` and the automatic entries of an event to a table of properties, and limits its
 * size. Source: docs/compatibility/persons.md, "Person properties".
 */
import { isObject, type JsonObject } from '../../base/json.ts'
import type { AutomaticValues } from './automatic-properties.ts'
import { PropertyTable } from './property-table.ts'

/** The result of an update. `refused` means that the table would have become too large and is unchanged. */
export type UpdateResult = 'unchanged' | 'changed' | 'refused'

/**
 * An upper bound for the bytes that a byte of an event can add to a table. An event adds each of its members at most
 * twice (as latest and as first value), and a number may become longer when it is written again: `1e20` has 4 bytes,
 * but is written with 21. That makes at most 2 · 21 / 4 = 10.5 bytes.
 */
const GROWTH_FACTOR = 12
/**
 * An upper bound for the bytes by which all names that begin with `$initial_` are longer than the names from which they
 * are made.
 */
const GROWTH_BYTES = 1024

/**
 * Applies the updates of a normalized event to `table`, including automatic entries. `eventBytes` is the number of
 * bytes of the event's JSON, and `bytesMax` is the limit for the table's JSON (0: no limit). If the event was read into
 * cells, its automatic values are passed as `automatic` and are not among its properties. Far from the limit, an event
 * with 20 automatic properties takes about 0.7 us.
 */
export function updateProperties(
  table: PropertyTable,
  event: JsonObject,
  eventBytes: number,
  bytesMax: number,
  automatic?: AutomaticValues,
): UpdateResult {
  const growth = eventBytes * GROWTH_FACTOR + GROWTH_BYTES
  if (table.hasRoom(growth, bytesMax)) {
    if (!applyUpdates(table, event, automatic)) return 'unchanged'
    table.addBytes(growth)
    return 'changed'
  }
  table.recordChanges()
  const isChanged = applyUpdates(table, event, automatic)
  if (!table.finishChanges(bytesMax)) return 'refused'
  return isChanged ? 'changed' : 'unchanged'
}

/**
 * Applies an event of the past to a table that newer events have changed. It fills missing properties and removes
 * nothing. If `isEarlier` is true, the event happened before all events in the table, so its `$initial_` properties
 * replace the existing ones. The other parameters and the result are the same as for `updateProperties`.
 */
export function fillProperties(
  table: PropertyTable,
  event: JsonObject,
  eventBytes: number,
  bytesMax: number,
  { automatic, isEarlier }: { automatic: AutomaticValues | undefined; isEarlier: boolean },
): UpdateResult {
  const told = new PropertyTable()
  applyUpdates(told, event, automatic)
  const fill = (): boolean => {
    let isChanged = false
    for (const [name, value] of told.entries()) {
      const isFirst = isEarlier && name.startsWith('$initial_')
      if (isFirst ? table.set(name, value) : table.setOnce(name, value)) isChanged = true
    }
    return isChanged
  }
  const growth = eventBytes * GROWTH_FACTOR + GROWTH_BYTES
  if (table.hasRoom(growth, bytesMax)) {
    if (!fill()) return 'unchanged'
    table.addBytes(growth)
    return 'changed'
  }
  table.recordChanges()
  const isChanged = fill()
  if (!table.finishChanges(bytesMax)) return 'refused'
  return isChanged ? 'changed' : 'unchanged'
}

/**
 * Merges the properties of both tables. If both have a property, the value of `stronger` wins. If `stronger` has all
 * names, it is returned without a change. Otherwise the larger of the two tables is changed and returned, so that a
 * merge costs the size of the smaller one. The table that is not returned must not be used any more. Returns null if
 * the result would have more than `bytesMax` bytes of JSON (0: no limit); `stronger` is then unchanged.
 */
export function mergeProperties(
  stronger: PropertyTable,
  weaker: PropertyTable,
  bytesMax: number,
): PropertyTable | null {
  // The store can then keep the text that it has for `stronger`. This case is common, because persons of one site
  // mostly have the same names.
  if (stronger.hasNamesOf(weaker)) return stronger
  const isWeakerLarger = weaker.jsonBytesBound > stronger.jsonBytesBound
  const isWithin = bytesMax === 0 || weaker.jsonBytesBound <= bytesMax
  const [kept, added] = isWeakerLarger && isWithin ? [weaker, stronger] : [stronger, weaker]
  const add = (): void => {
    if (kept === stronger) kept.addMissing(added)
    else kept.overlay(added)
  }
  const growth = added.jsonBytesBound
  if (kept.hasRoom(growth, bytesMax)) {
    add()
    kept.addBytes(growth)
    return kept
  }
  kept.recordChanges()
  add()
  return kept.finishChanges(bytesMax) ? kept : null
}

/**
 * Applies the updates in the order `$set`, `$set_once`, `$unset`. PostHog uses another order, which would need a copy
 * of the table. The result is the same, because a value that is set wins over a value that is set once.
 */
function applyUpdates(
  table: PropertyTable,
  event: JsonObject,
  automatic: AutomaticValues | undefined,
): boolean {
  const set = isObject(event['$set']) ? event['$set'] : undefined
  const setOnce = isObject(event['$set_once']) ? event['$set_once'] : undefined
  const unset = event['$unset']
  const removed = Array.isArray(unset) ? namesWithin(table, unset) : null
  let isChanged = false
  if (set !== undefined) {
    for (const name in set) {
      if (Object.hasOwn(set, name) && table.set(name, set[name])) isChanged = true
    }
  }
  const isSet =
    automatic === undefined
      ? table.setAutomatic(event, set, setOnce)
      : table.setSlots(automatic, set, setOnce)
  if (isSet) isChanged = true
  if (setOnce !== undefined) {
    for (const name in setOnce) {
      if (Object.hasOwn(setOnce, name) && table.setOnce(name, setOnce[name])) isChanged = true
    }
  }
  if (removed !== null) {
    for (const name of removed) if (table.remove(name)) isChanged = true
  }
  return isChanged
}

/**
 * Returns the names that the table has before the event changes it. `$unset` removes only these names. A name that the
 * event itself sets for the first time stays, as it does on a new person.
 */
function namesWithin(table: PropertyTable, names: readonly unknown[]): ReadonlySet<string> {
  const within = new Set<string>()
  for (const name of names) {
    if (typeof name === 'string' && table.has(name)) within.add(name)
  }
  return within
}
