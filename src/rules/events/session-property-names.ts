/**
 * The properties of sessions, for users who filter by them. Source: docs/compatibility/definitions.md, "Properties of
 * sessions".
 */
import type { PropertyFacts, PropertyType } from './event-definitions.ts'

/** The parameters that advertising services add to the URL of a page. */
export const CLICK_IDS: readonly string[] = [
  'gclid',
  'gad_source',
  'fbclid',
  'gclsrc',
  'dclid',
  'gbraid',
  'wbraid',
  'msclkid',
  'twclid',
  'li_fat_id',
  'mc_cid',
  'igshid',
  'ttclid',
  'epik',
  'qclid',
  'sccid',
  '_kx',
  'irclid',
]

const NAMES: readonly (readonly [type: PropertyType, names: readonly string[]])[] = [
  ['DateTime', ['$start_timestamp', '$end_timestamp']],
  ['Duration', ['$session_duration']],
  ['Numeric', ['$pageview_count', '$screen_count', '$autocapture_count']],
  ['String', ['$entry_current_url', '$entry_pathname', '$entry_hostname']],
  ['String', ['$end_current_url', '$end_pathname', '$end_hostname', '$last_external_click_url']],
  ['String', ['$entry_utm_source', '$entry_utm_medium', '$entry_utm_campaign']],
  ['String', ['$entry_utm_term', '$entry_utm_content', '$entry_referring_domain']],
  ['String', CLICK_IDS.map((name) => `$entry_${name}`)],
  ['Boolean', CLICK_IDS.map((name) => `$entry_has_${name}`)],
  ['String', ['$channel_type']],
  ['Boolean', ['$is_bounce']],
]

/** All properties of sessions. The number of sessions that have a property is not counted. */
export const SESSION_PROPERTIES: readonly PropertyFacts[] = NAMES.flatMap(([type, names]) =>
  names.map((name) => ({ name, type })),
)
