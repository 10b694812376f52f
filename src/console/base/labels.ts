/**
 * Readable names for the events, properties and values that PostHog's SDKs and Tenrec define. Names that this file does
 * not list are shown unchanged. Names of properties: docs/compatibility/persons.md, "Automatic person properties".
 */
import { lazy } from './lazy.ts'

const EVENTS: Readonly<Record<string, string>> = {
  $pageview: 'Pageview',
  $pageleave: 'Left page',
  $autocapture: 'Click',
  $copy_autocapture: 'Copied text',
  $rageclick: 'Rage click',
  $dead_click: 'Dead click',
  $screen: 'Screen view',
  $identify: 'Identified',
  $create_alias: 'Alias created',
  $merge_dangerously: 'Persons merged',
  $set: 'Person properties set',
  $groupidentify: 'Group updated',
  $feature_flag_called: 'Flag checked',
  $feature_flag_guard_triggered: 'Guard stopped a rollout',
  $feature_view: 'Feature viewed',
  $feature_interaction: 'Feature used',
  $feature_enrollment_update: 'Early access changed',
  $exception: 'Exception',
  $web_vitals: 'Web vitals',
  $$heatmap: 'Heatmap',
  $opt_in: 'Opted in',
  $ai_generation: 'AI generation',
  $ai_span: 'AI span',
  $ai_trace: 'AI trace',
  $csp_violation: 'Policy violation',
}

const PROPERTIES: Readonly<Record<string, string>> = {
  name: 'Name',
  email: 'E-mail',
  $geoip_country_code: 'Country',
  $geoip_country_name: 'Country name',
  $geoip_continent_code: 'Continent code',
  $geoip_continent_name: 'Continent',
  $geoip_subdivision_1_code: 'Region code',
  $geoip_subdivision_1_name: 'Region',
  $geoip_subdivision_2_code: 'Second region code',
  $geoip_subdivision_2_name: 'Second region',
  $geoip_city_name: 'City',
  $geoip_postal_code: 'Postal code',
  $geoip_latitude: 'Latitude',
  $geoip_longitude: 'Longitude',
  $geoip_accuracy_radius: 'Location accuracy',
  $geoip_time_zone: 'Time zone of the location',
  $timezone: 'Time zone',
  $timezone_offset: 'Time zone offset',
  $ip: 'IP address',
  $current_url: 'Page URL',
  $pathname: 'Page',
  $prev_pageview_pathname: 'Previous page',
  $host: 'Hostname',
  $title: 'Page title',
  title: 'Page title',
  $referrer: 'Referrer URL',
  $referring_domain: 'Referrer',
  $channel_type: 'Channel',
  $search_engine: 'Search engine',
  utm_source: 'UTM source',
  utm_medium: 'UTM medium',
  utm_campaign: 'UTM campaign',
  utm_content: 'UTM content',
  utm_term: 'UTM term',
  utm_name: 'UTM name',
  gclid: 'Google click ID',
  fbclid: 'Facebook click ID',
  msclkid: 'Microsoft click ID',
  $browser: 'Browser',
  $browser_version: 'Browser version',
  $browser_language: 'Browser language',
  $browser_language_prefix: 'Language',
  $os: 'Operating system',
  $os_name: 'Operating system name',
  $os_version: 'Operating system version',
  $device: 'Device',
  $device_id: 'Device ID',
  $device_type: 'Device type',
  $device_model: 'Device model',
  $device_manufacturer: 'Device manufacturer',
  $raw_user_agent: 'User agent',
  $user_agent: 'User agent',
  $screen_width: 'Screen width',
  $screen_height: 'Screen height',
  $viewport_width: 'Window width',
  $viewport_height: 'Window height',
  $screen_name: 'Screen name',
  $app_name: 'App',
  $app_version: 'App version',
  $app_build: 'App build',
  $app_namespace: 'App namespace',
  $lib: 'SDK',
  $lib_version: 'SDK version',
  $session_id: 'Session ID',
  $window_id: 'Window ID',
  $pageview_id: 'Pageview ID',
  $user_id: 'User ID',
  $insert_id: 'Insert ID',
  $time: 'Client time',
  $event_type: 'Interaction',
  $el_text: 'Clicked text',
  $external_click_url: 'Outgoing link',
  $elements_chain: 'Clicked elements',
  $feature_flag: 'Flag',
  $feature_flag_response: 'Flag value',
  $active_feature_flags: 'Active flags',
  $groups: 'Groups',
  $group_0: 'Group of type 0',
  $group_1: 'Group of type 1',
  $group_2: 'Group of type 2',
  $group_3: 'Group of type 3',
  $group_4: 'Group of type 4',
  $is_identified: 'Is identified',
  $is_bot: 'Is a bot',
  $process_person_profile: 'Has a person',
  $exception_message: 'Exception message',
  $exception_type: 'Exception type',
  $prev_pageview_duration: 'Seconds on the previous page',
  $prev_pageview_max_scroll_percentage: 'Scroll depth of the previous page',
  $session_duration: 'Session duration',
  $entry_current_url: 'Entry URL',
  $entry_pathname: 'Entry page',
  $end_current_url: 'Exit URL',
  $end_pathname: 'Exit page',
  $entry_referring_domain: 'Entry referrer',
  $is_bounce: 'Bounced',
}

const INITIAL = '$initial_'

/**
 * Returns the readable name of an event: `Pageview` for `$pageview`. Events with names that the user chose keep these
 * names.
 */
export function eventLabel(name: string): string {
  return Object.hasOwn(EVENTS, name) ? (EVENTS[name] ?? name) : name
}

/**
 * Returns the readable name of a property: `Country` for `$geoip_country_code`, and `First browser` for
 * `$initial_browser`. Properties with names that the user chose keep these names.
 */
export function propertyLabel(key: string): string {
  if (Object.hasOwn(PROPERTIES, key)) return PROPERTIES[key] ?? key
  if (!key.startsWith(INITIAL)) return key
  const rest = key.slice(INITIAL.length)
  const known = [`$${rest}`, rest].find((one) => Object.hasOwn(PROPERTIES, one))
  if (known === undefined) return key
  const label = PROPERTIES[known] ?? known
  const isName = /^[A-Z]{2}|^(?:Google|Facebook|Microsoft)/.test(label)
  return `First ${isName ? label : label.charAt(0).toLowerCase() + label.slice(1)}`
}

/** Returns true for properties that SDKs and the daemon set for technical reasons. Readers rarely look for them. */
export function isTechnical(key: string): boolean {
  return key.startsWith('$') || key.startsWith('utm_') || /^initial_|^\w+clid$/.test(key)
}

const COUNTRY = /country_code$/
const LANGUAGE = /browser_language(?:_prefix)?$/
const regions = lazy(() => new Intl.DisplayNames('en', { type: 'region', fallback: 'none' }))
const languages = lazy(
  () =>
    new Intl.DisplayNames('en', {
      type: 'language',
      languageDisplay: 'standard',
      fallback: 'none',
    }),
)

/**
 * Returns a readable text for the value of a property: `🇩🇪 Germany` for the country `DE`, and `English (United States)`
 * for the language `en-US`. Returns null if the value itself is shown.
 */
export function valueLabel(key: string, value: unknown): string | null {
  if (typeof value !== 'string') return null
  if (COUNTRY.test(key)) {
    const name = countryName(value)
    return name && `${countryFlag(value)} ${name}`
  }
  return LANGUAGE.test(key) ? displayName(languages(), value) : null
}

/** Returns the English name of a country with an ISO 3166 code, or null for an unknown code. */
export function countryName(code: string): string | null {
  return /^[A-Z]{2}$/.test(code) ? displayName(regions(), code) : null
}

const REGIONAL_A = 0x1f1e6

/** Returns the flag of a country as the two characters that browsers draw as a flag. */
export function countryFlag(code: string): string {
  const letters = [...code].map((letter) => REGIONAL_A + letter.charCodeAt(0) - 'A'.charCodeAt(0))
  return String.fromCodePoint(...letters)
}

function displayName(names: Intl.DisplayNames, code: string): string | null {
  try {
    return names.of(code) ?? null
  } catch {
    // The value does not have the form of a country or language code.
    return null
  }
}

/** Returns a number with its noun: `1 person`, `2 persons`. */
export function counted(count: number, noun: string, nouns = `${noun}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? noun : nouns}`
}
