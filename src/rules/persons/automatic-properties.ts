/**
 * The event properties that are copied to the person automatically: the latest value under its own name, the first
 * value under `$initial_`. Nearly every event has many of them, so each of these names has a number (a slot), and
 * persons store the values in an array.
 * Source: docs/compatibility/persons.md, "Automatic person properties".
 */
import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'

// The first two properties, `$os` and `$os_version`, describe the machine of the sender. `isSystemSlot` relies on their
// position.
const PROPERTIES: readonly string[] = [
  '$os',
  '$os_version',
  '$app_build',
  '$app_name',
  '$app_namespace',
  '$app_version',
  '$browser',
  '$browser_version',
  '$device_type',
  '$current_url',
  '$pathname',
  '$referring_domain',
  '$referrer',
  '$screen_height',
  '$screen_width',
  '$viewport_height',
  '$viewport_width',
  '$raw_user_agent',
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'utm_content',
  'utm_name',
  'utm_term',
  'gclid',
  'gad_source',
  'gclsrc',
  'dclid',
  'gbraid',
  'wbraid',
  'fbclid',
  'msclkid',
  'twclid',
  'li_fat_id',
  'mc_cid',
  'igshid',
  'ttclid',
  'rdt_cid',
  'irclid',
  '_kx',
  'epik',
  'qclid',
  'sccid',
]

/** The name of each slot. Even slots contain latest values; the odd slot after each contains the first value. */
export const SLOT_NAMES: readonly string[] = PROPERTIES.flatMap((name) => [
  name,
  `$initial_${name.startsWith('$') ? name.slice(1) : name}`,
])

/** For each person property that is copied automatically, its slot. */
export const SLOT_OF: ReadonlyMap<string, number> = new Map(
  SLOT_NAMES.map((name, slot) => [name, slot]),
)

/**
 * For each event property that is copied automatically, the slot of its latest value. If an event has no `$os`, its
 * `$os_name` is copied instead.
 */
export const EVENT_SLOT_OF: ReadonlyMap<string, number> = new Map([
  ...PROPERTIES.map((name, index): [string, number] => [name, index * 2]),
  ['$os_name', 0],
])

/**
 * The values that an event copies to its person: a list of slots (even, without duplicates), and the value for each.
 */
export interface AutomaticValues {
  readonly count: number
  readonly slots: Uint8Array
  readonly values: readonly unknown[]
}

/**
 * Returns whether an even slot describes the system of the sender. Such a value says nothing about a person if a server
 * sent it.
 */
export function isSystemSlot(slot: number): boolean {
  return slot <= 2
}

/**
 * Returns the properties of a stored event as a reader sees them: a new object in which `$set` and `$set_once` also
 * contain the automatic entries, which are never stored. An entry that the client sent takes precedence over an
 * automatic one. Personless events and `$groupidentify` get no automatic entries. Calling this function again on its
 * result adds nothing.
 */
export function expandProperties(
  properties: JsonObject,
  eventName: string,
  isPersonless: boolean,
): OwnObject {
  const expanded: OwnObject = { ...properties }
  if (isPersonless || eventName === '$groupidentify') return expanded
  const set = withAutomatic(properties, '$set', 0)
  if (set !== null) expanded['$set'] = set
  const setOnce = withAutomatic(properties, '$set_once', 1)
  if (setOnce !== null) expanded['$set_once'] = setOnce
  return expanded
}

/**
 * Returns the member `$set` or `$set_once` of a stored event with its automatic entries, as a new object. Returns null
 * if there are no automatic entries.
 */
function withAutomatic(
  properties: JsonObject,
  field: '$set' | '$set_once',
  offset: 0 | 1,
): OwnObject | null {
  const given = properties[field]
  const explicit = isObject(given) ? given : {}
  const isOnServer = properties['$is_server'] === true
  let result: OwnObject | null = null
  for (const key in properties) {
    const slot = EVENT_SLOT_OF.get(key)
    if (slot === undefined || (isOnServer && isSystemSlot(slot))) continue
    if (key === '$os_name' && Object.hasOwn(properties, '$os')) continue
    const name = SLOT_NAMES[slot + offset] ?? ''
    if (Object.hasOwn(explicit, name)) continue
    result ??= { ...explicit }
    result[name] = properties[key]
  }
  return result
}
