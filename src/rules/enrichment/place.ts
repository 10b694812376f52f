/**
 * Turns a record of a GeoIP database into properties of events and persons. Source: docs/compatibility/enrichment.md,
 * "GeoIP"; PostHog, transformation geoip.
 */
import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'
import { PLACE_SUBDIVISIONS_MAX, PLACE_TEXT_UNITS_MAX } from './limits.ts'

/**
 * The properties that an address adds. All events of the address share the objects for the person, which are frozen.
 */
export interface Place {
  /** The `$geoip_*` properties of the event that the database contains. */
  readonly event: JsonObject
  /** The properties for `$set`: the same properties, and null for usual properties that this place does not have. */
  readonly set: JsonObject
  /** The properties for `$set_once`: the same properties under `$initial_geoip_*`. */
  readonly setOnce: JsonObject
  /** An upper bound for the JSON bytes of all three. */
  readonly bytes: number
}

/** The path of each value within a record. */
const PATHS: readonly (readonly [name: string, path: readonly string[]])[] = [
  ['city_name', ['city', 'names', 'en']],
  ['country_name', ['country', 'names', 'en']],
  ['country_code', ['country', 'iso_code']],
  ['continent_name', ['continent', 'names', 'en']],
  ['continent_code', ['continent', 'code']],
  ['postal_code', ['postal', 'code']],
  ['latitude', ['location', 'latitude']],
  ['longitude', ['location', 'longitude']],
  ['accuracy_radius', ['location', 'accuracy_radius']],
  ['time_zone', ['location', 'time_zone']],
]

/**
 * The properties that are reset if a new place does not have them, because a value of an earlier place would be wrong.
 */
const RESET: readonly string[] = [
  'city_name',
  'city_confidence',
  'subdivision_2_name',
  'subdivision_2_code',
  'subdivision_1_name',
  'subdivision_1_code',
  'country_name',
  'country_code',
  'continent_name',
  'continent_code',
  'postal_code',
  'latitude',
  'longitude',
  'accuracy_radius',
  'time_zone',
]

/**
 * Returns the place of a record, or null if the record contains no property that is used. It takes a few microseconds.
 */
export function placeOf(record: unknown): Place | null {
  const values = valuesOf(record)
  if (values.size === 0) return null
  const event: OwnObject = {}
  const set: OwnObject = {}
  const setOnce: OwnObject = {}
  for (const name of RESET) {
    set[`$geoip_${name}`] = null
    setOnce[`$initial_geoip_${name}`] = null
  }
  for (const [name, value] of values) {
    event[`$geoip_${name}`] = value
    set[`$geoip_${name}`] = value
    setOnce[`$initial_geoip_${name}`] = value
  }
  const bytes = Buffer.byteLength(JSON.stringify([event, set, setOnce]))
  return { event, set: Object.freeze(set), setOnce: Object.freeze(setOnce), bytes }
}

function valuesOf(record: unknown): ReadonlyMap<string, string | number> {
  const values = new Map<string, string | number>()
  const add = (name: string, value: unknown): void => {
    const isText = typeof value === 'string' && value !== ''
    if (isText && value.length <= PLACE_TEXT_UNITS_MAX) values.set(name, value)
    else if (typeof value === 'number' && Number.isFinite(value)) values.set(name, value)
  }
  for (const [name, path] of PATHS) add(name, memberAt(record, path))
  const subdivisions = memberAt(record, ['subdivisions'])
  if (Array.isArray(subdivisions)) {
    for (const [index, part] of subdivisions.slice(0, PLACE_SUBDIVISIONS_MAX).entries()) {
      add(`subdivision_${index + 1}_code`, memberAt(part, ['iso_code']))
      add(`subdivision_${index + 1}_name`, memberAt(part, ['names', 'en']))
    }
  }
  return values
}

function memberAt(value: unknown, path: readonly string[]): unknown {
  let found = value
  for (const name of path) {
    if (!isObject(found) || !Object.hasOwn(found, name)) return undefined
    found = found[name]
  }
  return found
}
