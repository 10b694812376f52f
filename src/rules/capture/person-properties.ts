/**
 * What an event's properties say about its person and groups: explicit `$set`, `$set_once` and `$unset`,
 * and the entries that follow from a fixed list of properties. Those are derived when they are needed and
 * never stored. Source: docs/COMPATIBILITY.md, "Automatic person properties" and "Groups".
 */

import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'

const AUTOMATIC_PROPERTIES = [
  ...['$app_build', '$app_name', '$app_namespace', '$app_version', '$browser', '$browser_version'],
  ...['$device_type', '$current_url', '$pathname', '$os', '$os_name', '$os_version'],
  ...['$referring_domain', '$referrer', '$screen_height', '$screen_width', '$viewport_height'],
  ...['$viewport_width', '$raw_user_agent', 'utm_source', 'utm_medium', 'utm_campaign'],
  ...['utm_content', 'utm_name', 'utm_term', 'gclid', 'gad_source', 'gclsrc', 'dclid', 'gbraid'],
  ...['wbraid', 'fbclid', 'msclkid', 'twclid', 'li_fat_id', 'mc_cid', 'igshid', 'ttclid'],
  ...['rdt_cid', 'irclid', '_kx', 'epik', 'qclid', 'sccid'],
]

/** Property of an event → its names on the person: the latest value and the first one. */
const AUTOMATIC = new Map<string, AutomaticNames>(AUTOMATIC_PROPERTIES.map(automaticNames))

interface AutomaticNames {
  readonly latest: string
  readonly initial: string
  /** About the machine: on servers it says nothing about the person. */
  readonly isSystem: boolean
}

/** What an event changes on its person. The objects may be those of the event: do not change them. */
export interface PersonUpdates {
  readonly set: JsonObject
  readonly setOnce: JsonObject
  readonly unset: readonly string[]
}

/** A group that an event belongs to. */
export interface GroupReference {
  readonly type: string
  readonly key: string
}

const NO_PROPERTIES: JsonObject = Object.freeze({})
const NO_NAMES: readonly string[] = Object.freeze([])
const NO_UPDATES: PersonUpdates = Object.freeze({
  set: NO_PROPERTIES,
  setOnce: NO_PROPERTIES,
  unset: NO_NAMES,
})
const NO_GROUPS: readonly GroupReference[] = Object.freeze([])

/**
 * The properties of a stored event as a reader sees them: a new object in which `$set` and `$set_once`
 * also hold the automatic entries. Explicit entries win; personless events and `$groupidentify` gain
 * none. Applying it twice changes nothing more.
 */
export function expandProperties(
  properties: JsonObject,
  eventName: string,
  isPersonless: boolean,
): OwnObject {
  const expanded: OwnObject = { ...properties }
  if (!updatesPerson(eventName, isPersonless)) return expanded
  const set = withAutomatic(properties, '$set')
  if (set !== null) expanded['$set'] = set
  const setOnce = withAutomatic(properties, '$set_once')
  if (setOnce !== null) expanded['$set_once'] = setOnce
  return expanded
}

/**
 * Everything that a normalised event sets and removes on its person, automatic entries included; nothing
 * for personless events and `$groupidentify`. Changes none of its arguments.
 */
export function personUpdates(
  properties: JsonObject,
  eventName: string,
  isPersonless: boolean,
): PersonUpdates {
  if (!updatesPerson(eventName, isPersonless)) return NO_UPDATES
  const set = properties['$set']
  const setOnce = properties['$set_once']
  const unset = properties['$unset']
  return {
    set: withAutomatic(properties, '$set') ?? (isObject(set) ? set : NO_PROPERTIES),
    setOnce:
      withAutomatic(properties, '$set_once') ?? (isObject(setOnce) ? setOnce : NO_PROPERTIES),
    unset: Array.isArray(unset) ? unset.filter(isString) : NO_NAMES,
  }
}

/**
 * The groups of `$groups` in its order: entries whose key is a non-empty string, a number or a boolean,
 * with the key as text. Personless events have none; the caller knows whether the event is one.
 */
export function groupsOf(properties: JsonObject): readonly GroupReference[] {
  const groups = properties['$groups']
  if (!isObject(groups)) return NO_GROUPS
  const references: GroupReference[] = []
  for (const type of Object.keys(groups)) {
    const key = groupKeyText(groups[type])
    if (type !== '' && key !== null) references.push({ type, key })
  }
  return references
}

/** A group key as text; null when it is none: empty, null, an object or an array. */
function groupKeyText(key: unknown): string | null {
  if (typeof key === 'string') return key === '' ? null : key
  return typeof key === 'number' || typeof key === 'boolean' ? String(key) : null
}

function updatesPerson(eventName: string, isPersonless: boolean): boolean {
  return !isPersonless && eventName !== '$groupidentify'
}

/** `$set` or `$set_once` with the automatic entries added, as a new object; null when there are none. */
function withAutomatic(properties: JsonObject, field: '$set' | '$set_once'): OwnObject | null {
  const given = properties[field]
  const explicit = isObject(given) ? given : NO_PROPERTIES
  const isOnServer = properties['$is_server'] === true
  let result: OwnObject | null = null
  for (const key in properties) {
    const names = AUTOMATIC.get(key)
    if (names === undefined || (isOnServer && names.isSystem)) continue
    if (key === '$os_name' && Object.hasOwn(properties, '$os')) continue
    const name = field === '$set' ? names.latest : names.initial
    if (Object.hasOwn(explicit, name)) continue
    result ??= { ...explicit }
    result[name] = properties[key]
  }
  return result
}

function automaticNames(property: string): [string, AutomaticNames] {
  const latest = property === '$os_name' ? '$os' : property
  const initial = `$initial_${latest.startsWith('$') ? latest.slice(1) : latest}`
  return [property, { latest, initial, isSystem: latest === '$os' || latest === '$os_version' }]
}

function isString(value: unknown): value is string {
  return typeof value === 'string'
}
