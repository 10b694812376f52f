/**
 * The breakdowns of the tables of web analytics: which property of events or sessions each one uses, and how it shows
 * the values. Source: docs/compatibility/queries.md, "Web analytics".
 */
import type { ValueColumn } from '../../analytics/event-columns.ts'
import { numberOf } from '../../filters/property-filter.ts'
import { breakdownText } from '../query-breakdown.ts'
import type { WebEvents } from './candidates.ts'
import { combined, relabeled } from './columns.ts'
import type { CleanPath } from './path-cleaning.ts'
import { hostOf, pathOf } from './urls.ts'

type Texts = readonly (string | undefined)[]
/**
 * Returns the value that a breakdown shows. Undefined means that the row is left out. Null means that the row is shown
 * without a value.
 */
type Show = (texts: Texts, clean: CleanPath) => unknown

interface Breakdown {
  readonly of: 'event' | 'session'
  readonly keys: readonly string[]
  readonly show: Show
}

const asText: Show = ([text]) => text
const asPath: Show = ([path], clean) => (path === undefined ? undefined : clean(path))
const orNull: Show = ([text]) => text ?? null

const BREAKDOWNS = {
  Page: event(asPath, '$pathname'),
  InitialPage: session(asPath, '$entry_pathname'),
  ExitPage: session(asPath, '$end_pathname'),
  ExitClick: session(asText, '$last_external_click_url'),
  PreviousPage: event(previousPage, '$prev_pageview_pathname', '$current_url', '$referrer'),
  ScreenName: event(asText, '$screen_name'),
  InitialChannelType: session(asText, '$channel_type'),
  InitialReferringDomain: session(asText, '$entry_referring_domain'),
  InitialUTMSource: session(orNull, '$entry_utm_source'),
  InitialUTMCampaign: session(orNull, '$entry_utm_campaign'),
  InitialUTMMedium: session(orNull, '$entry_utm_medium'),
  InitialUTMTerm: session(orNull, '$entry_utm_term'),
  InitialUTMContent: session(orNull, '$entry_utm_content'),
  InitialUTMSourceMediumCampaign: session(
    ([source, medium, campaign, domain]) =>
      [source ?? domain, medium, campaign].map((part) => part ?? '(none)').join(' / '),
    '$entry_utm_source',
    '$entry_utm_medium',
    '$entry_utm_campaign',
    '$entry_referring_domain',
  ),
  Browser: event(asText, '$browser'),
  OS: event(asText, '$os'),
  DeviceType: event(asText, '$device_type'),
  Viewport: event(viewport, '$viewport_width', '$viewport_height'),
  Country: event(asText, '$geoip_country_code'),
  Region: event(
    ([country, code, name]) => (code === undefined ? code : [country ?? null, code, name ?? null]),
    '$geoip_country_code',
    '$geoip_subdivision_1_code',
    '$geoip_subdivision_1_name',
  ),
  City: event(
    ([country, city]) => (city === undefined ? city : [country ?? null, city]),
    '$geoip_country_code',
    '$geoip_city_name',
  ),
  Timezone: event(timezone, '$timezone_offset'),
  Language: event(asText, '$browser_language'),
  FrustrationMetrics: event(asPath, '$pathname'),
} as const satisfies Readonly<Record<string, Breakdown>>

/** The name of a breakdown. */
export type BreakdownName = keyof typeof BREAKDOWNS
/** The names of all breakdowns. */
export const BREAKDOWN_NAMES = Object.keys(BREAKDOWNS) as [BreakdownName, ...BreakdownName[]]

/** Returns the values that a breakdown reads from each event. */
export function breakdownRequests(name: BreakdownName) {
  const { of, keys } = BREAKDOWNS[name]
  return of === 'session' ? [] : keys.map((key) => ({ kind: 'event_property', key }) as const)
}

/**
 * Returns the breakdown value of each event, computed from the columns that `breakdownRequests` requests. An event with
 * the id 0 has no value.
 */
export function breakdownColumn(
  name: BreakdownName,
  columns: readonly ValueColumn[],
  clean: CleanPath,
): ValueColumn {
  const { show } = BREAKDOWNS[name]
  return shownColumn(columns, (value) => breakdownText(value) ?? undefined, show, clean)
}

/**
 * Returns the value of each session. Returns null if the breakdown uses values of events instead. Throws the same
 * errors as `EventScanner.scan`.
 */
export function sessionColumn(
  name: BreakdownName,
  events: WebEvents,
  clean: CleanPath,
): ValueColumn | null {
  const { of, keys, show }: Breakdown = BREAKDOWNS[name]
  if (of === 'event') return null
  const columns = keys.map((key) => events.properties.column(key))
  return shownColumn(columns, (value) => value as string | undefined, show, clean)
}

/**
 * Returns a function that maps a language such as `en-US` to its displayed name. All regions of a language are shown as
 * one name, with the region that occurs most often. If several regions occur equally often, the first one by name is
 * used.
 */
export function languageNames(
  values: readonly unknown[],
  groupsOfValue: Float64Array,
): (value: unknown) => unknown {
  const best = new Map<string, readonly [region: string, groups: number]>()
  for (const [id, value] of values.entries()) {
    const [language, region] = partsOf(value)
    const groups = groupsOfValue[id] ?? 0
    if (id === 0 || groups === 0) continue
    const [known = '', most = 0] = best.get(language) ?? []
    if (groups > most || (groups === most && region < known)) best.set(language, [region, groups])
  }
  return (value) => {
    const [language] = partsOf(value)
    const [region] = best.get(language) ?? []
    return region === undefined ? region : `${language}-${region}`
  }
}

function partsOf(value: unknown): readonly [language: string, region: string] {
  const [, language = '', region = ''] = /^([^-]*)-?(.*)$/s.exec(String(value ?? '')) ?? []
  return [language, region]
}

function event(show: Show, ...keys: readonly string[]): Breakdown {
  return { of: 'event', keys, show }
}

function session(show: Show, ...keys: readonly string[]): Breakdown {
  return { of: 'session', keys, show }
}

function shownColumn(
  columns: readonly ValueColumn[],
  textOf: (value: unknown) => string | undefined,
  show: Show,
  clean: CleanPath,
): ValueColumn {
  return relabeled(combined(columns), (list) =>
    show((list as readonly unknown[]).map(textOf), clean),
  )
}

function previousPage([path, url = '', referrer]: Texts, clean: CleanPath): unknown {
  if (path !== undefined) return clean(path)
  if (referrer === undefined) return undefined
  const host = hostOf(referrer)
  return host !== '' && host === hostOf(url) ? clean(pathOf(referrer)) : referrer
}

function viewport(texts: Texts): unknown {
  const numbers = texts.map((text) => {
    const number = numberOf(text ?? '')
    return Number.isNaN(number) ? text : number
  })
  return numbers.every((number) => number !== undefined && number !== 0) ? numbers : undefined
}

function timezone([text = '']: Texts): unknown {
  const minutesWest = numberOf(text)
  return Number.isNaN(minutesWest) ? undefined : 0 - minutesWest / 60
}
