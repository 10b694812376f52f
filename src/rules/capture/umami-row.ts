/**
 * Reads one row of Umami's table `website_event`, with the columns of its table `session`, as Umami Cloud exports it or
 * a database prints it. A row is a page view or an event of a visitor. The result is an event for `/batch/` with
 * properties under the names of `posthog-js`. The same row always gives the same event.
 * Source: docs/MIGRATING.md, "Umami".
 */
import { formatUuid, parseUuid, uuidV5 } from '../../base/ids.ts'
import { type JsonObject, type OwnObject, parseJson } from '../../base/json.ts'
import { parseTimestamp } from './timestamp.ts'

/** The texts of a row by column name. A NULL value is absent or ''. */
export type UmamiRow = ReadonlyMap<string, string>

/** The columns that a table must have. If any other column is missing, its property is missing too. */
export const UMAMI_COLUMNS: readonly string[] = [
  'event_id',
  'session_id',
  'created_at',
  'event_type',
  'url_path',
]

/** The name space in which uuids are derived from ids of Umami. */
const NAMESPACE = '0c5c0f5e-6c1b-5d61-9a3f-6a2f1d0b7c58'
const SCREEN = /^(\d+)x(\d+)$/
const WINDOWS = /^Windows (?!Mobile)(.+)$/

const VIEW = '1'
const CUSTOM = '2'
const PERFORMANCE = '5'
/** The types of values in the table `event_data` that are not read as text. */
const NUMBER = '2'
const BOOLEAN = '3'
const LIST = '5'

/** Properties that have the same name as their column, or as a parameter in the query of the URL. */
const SAME_NAMES = [
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'utm_content',
  'utm_term',
  'gclid',
  'fbclid',
  'msclkid',
  'ttclid',
  'li_fat_id',
  'twclid',
]
const RENAMED = [
  ['title', 'page_title'],
  ['tag', 'tag'],
  ['$browser_language', 'language'],
  ['$geoip_country_code', 'country'],
  ['$geoip_city_name', 'city'],
] as const
/** The names of the columns with measurements. The values are in milliseconds, except `cls`, which has no unit. */
const WEB_VITALS = ['lcp', 'inp', 'cls', 'fcp']
const BROWSERS: ReadonlyMap<string, string> = new Map([
  ['chrome', 'Chrome'],
  ['chromium-webview', 'Chrome'],
  ['crios', 'Chrome iOS'],
  ['edge', 'Microsoft Edge'],
  ['edge-chromium', 'Microsoft Edge'],
  ['edge-ios', 'Microsoft Edge'],
  ['facebook', 'Facebook Mobile'],
  ['firefox', 'Firefox'],
  ['fxios', 'Firefox iOS'],
  ['ie', 'Internet Explorer'],
  ['ios', 'Mobile Safari'],
  ['ios-webview', 'Mobile Safari'],
  ['opera', 'Opera'],
  ['opera-mini', 'Opera Mini'],
  ['safari', 'Safari'],
  ['samsung', 'Samsung Internet'],
])
const SYSTEMS: ReadonlyMap<string, string> = new Map([
  ['Mac OS', 'Mac OS X'],
  ['Android OS', 'Android'],
])
const DEVICES: ReadonlyMap<string, string> = new Map([
  ['desktop', 'Desktop'],
  ['laptop', 'Desktop'],
  ['mobile', 'Mobile'],
  ['tablet', 'Tablet'],
])

/**
 * Returns the event of a row. `data` contains the properties of the event from the table `event_data`. Returns a text
 * with the reason if the row is not an event.
 */
export function umamiEvent(row: UmamiRow, data: JsonObject): JsonObject | string {
  const uuid = textOf(row, 'event_id')
  const visitor = textOf(row, 'session_id')
  const timeMs = parseTimestamp(textOf(row, 'created_at'))
  if (parseUuid(uuid) === null) return 'event_id is not a UUID'
  if (visitor === '') return 'it has no session_id'
  if (timeMs === null) return 'created_at is not a time such as 2026-01-31 12:00:00'
  const name = eventName(row)
  if (name === null)
    return `event_type ${textOf(row, 'event_type') || 'without a value'} is not supported`
  return {
    uuid,
    event: name,
    distinct_id: textOf(row, 'distinct_id') || visitor,
    timestamp: new Date(timeMs).toISOString(),
    properties: {
      ...data,
      $lib: 'umami',
      $session_id: sessionIdOf(textOf(row, 'visit_id') || visitor),
      // The row already contains the country and the city of the visitor. They must not be replaced by the location of
      // the machine that sends the import.
      $geoip_disable: true,
      ...pageProperties(row),
      ...deviceProperties(row),
      ...(name === '$web_vitals' ? webVitals(row) : {}),
    },
  }
}

/**
 * Reads a row of Umami's table `event_data`. Returns the id of the event that it belongs to, the name of the property
 * and its value, or a text with the reason if the row does not have them.
 */
export function umamiEventData(row: UmamiRow): readonly [string, string, unknown] | string {
  const event = textOf(row, 'event_id') || textOf(row, 'website_event_id')
  const name = textOf(row, 'data_key')
  if (event === '') return 'it has no event_id'
  if (name === '') return 'it has no data_key'
  const [number, text] = [textOf(row, 'number_value'), textOf(row, 'string_value')]
  if (Number.isNaN(Number(number))) return 'number_value is not a number'
  const type = textOf(row, 'data_type')
  if (type === NUMBER && number !== '') return [event, name, Number(number)]
  if (type === BOOLEAN) return [event, name, text === 'true']
  if (type === LIST) {
    const list = parseJson(text)
    return [event, name, Array.isArray(list) ? list : text]
  }
  const date = textOf(row, 'date_value')
  return [event, name, text || date || (number === '' ? null : Number(number))]
}

function eventName(row: UmamiRow): string | null {
  const type = textOf(row, 'event_type')
  if (type === VIEW) return '$pageview'
  if (type === PERFORMANCE) return '$web_vitals'
  return (type === CUSTOM && textOf(row, 'event_name')) || null
}

/** Returns the session id: a UUID of version 7 with the time 0, because a row does not say when its visit began. */
function sessionIdOf(visit: string): string {
  const bytes = parseUuid(uuidV5(NAMESPACE, visit)) ?? new Uint8Array(16)
  bytes.fill(0, 0, 6)
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f)
  return formatUuid(bytes, 0)
}

function pageProperties(row: UmamiRow): OwnObject {
  const host = textOf(row, 'hostname')
  const path = textOf(row, 'url_path')
  const query = queryOf(row, 'url_query')
  const referrer = textOf(row, 'referrer_domain')
  const from = `https://${referrer}${textOf(row, 'referrer_path')}${queryOf(row, 'referrer_query')}`
  const properties: OwnObject = {
    $pathname: path,
    ...(host === '' ? {} : { $host: host, $current_url: `https://${host}${path}${query}` }),
    $referrer: referrer === '' ? '$direct' : from,
    $referring_domain: referrer || '$direct',
  }
  const parameters = new URLSearchParams(query)
  for (const name of SAME_NAMES) {
    const value = textOf(row, name) || parameters.get(name)
    if (value) properties[name] = value
  }
  return properties
}

function deviceProperties(row: UmamiRow): OwnObject {
  const properties: OwnObject = {}
  for (const [name, column] of RENAMED) addText(properties, name, textOf(row, column))
  const [browser, system] = [textOf(row, 'browser'), textOf(row, 'os')]
  const device = textOf(row, 'device')
  addText(properties, '$browser', BROWSERS.get(browser) ?? browser)
  addText(properties, '$device_type', DEVICES.get(device) ?? device)
  const windows = WINDOWS.exec(system)?.[1] ?? ''
  addText(properties, '$os', windows === '' ? (SYSTEMS.get(system) ?? system) : 'Windows')
  addText(properties, '$os_version', windows)
  // The column contains a code such as `DE-BE`, or only its second half.
  const region = textOf(row, 'region') || textOf(row, 'subdivision1')
  addText(properties, '$geoip_subdivision_1_code', region.replace(/^[A-Z]{2}-/, ''))
  const [, width, height] = SCREEN.exec(textOf(row, 'screen')) ?? []
  if (width !== undefined) {
    properties['$screen_width'] = Number(width)
    properties['$screen_height'] = Number(height)
  }
  return properties
}

function webVitals(row: UmamiRow): OwnObject {
  const measured = WEB_VITALS.filter((name) => textOf(row, name) !== '')
  return Object.fromEntries(
    measured.map((name) => [`$web_vitals_${name.toUpperCase()}_value`, Number(textOf(row, name))]),
  )
}

/** Returns the query with a question mark in front. Umami stores the query without one. */
function queryOf(row: UmamiRow, column: string): string {
  const query = textOf(row, column).replace(/^\?/, '')
  return query === '' ? '' : `?${query}`
}

function addText(properties: OwnObject, name: string, text: string): void {
  if (text !== '') properties[name] = text
}

/** Returns the text of a column. `\N` and `NULL` are the forms in which MySQL and its clients print NULL. */
function textOf(row: UmamiRow, column: string): string {
  const text = row.get(column)?.trim() ?? ''
  return text === '\\N' || text === 'NULL' ? '' : text
}
