/**
 * What `$set`, `$set_once`, `$unset` and the automatic entries of an event do to a table of properties,
 * and how large that may make it. Source: docs/compatibility/persons.md, "Person properties".
 */
import { isObject, type JsonObject } from '../../base/json.ts'
import type { AutomaticValues } from './automatic-properties.ts'
import { PropertyTable } from './property-table.ts'

/** `refused`: the table would have become too large and is as it was. */
export type UpdateResult = 'unchanged' | 'changed' | 'refused'

/**
 * An event adds each of its members at most twice (latest and first value); what becomes longer when
 * it is written again are numbers: `1e20` has 4 bytes, then 21.
 */
const GROWTH_FACTOR = 12
/** Names beginning with `$initial_` are longer than those that they come from. */
const GROWTH_BYTES = 1024

/**
 * Applies the updates of a normalised event to `table`, automatic entries included. `eventBytes` are the
 * bytes of the event's JSON, `bytesMax` the limit for the table's (0: none). An event that was read into cells
 * gives `automatic`, which is then not among its properties. About 0.7 us for an event with 20 automatic properties, far from the
 * limit.
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
 * Applies an event of the past to a table that newer events have made: it fills what is missing and removes
 * nothing. `isEarlier`: it happened before everything that the table knows of, so its `$initial_` properties take the
 * place of those that are there. Otherwise as `updateProperties`.
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
 * The properties of both tables, those of `stronger` where both have a name. One of the two tables is changed and
 * returned: the larger one, so that a merge costs the size of the smaller one. The other is used no more. Null when
 * the result would have more than `bytesMax` bytes of JSON (0: no limit): `stronger` is then as it was.
 */
export function mergeProperties(
  stronger: PropertyTable,
  weaker: PropertyTable,
  bytesMax: number,
): PropertyTable | null {
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
 * "Set, then set once if absent, then unset" is the same as the order of the reference, without a copy
 * of the table: what is set wins over what is set once anyway.
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

/** Only names that were there before the event are unset: one that it sets as new stays, as on a new person. */
function namesWithin(table: PropertyTable, names: readonly unknown[]): ReadonlySet<string> {
  const within = new Set<string>()
  for (const name of names) {
    if (typeof name === 'string' && table.get(name) !== undefined) within.add(name)
  }
  return within
}
