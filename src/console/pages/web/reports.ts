/** The tables of the page "Web": their names, their queries, and the filters that a click on a row adds. */
import { lazy, type PropertyFilter } from '../../kit.ts'

/** The value of a row: one value, or several, such as a country and a city. */
export type ReportValue = string | number | null | readonly (string | number | null)[]

/** A table that shows visitors and views for each value of a property. */
export interface Report {
  /** The member `breakdownBy` of the query. The URL contains the same text for this table. */
  readonly by: string
  readonly name: string
  /** The heading of the first column, which contains the values. */
  readonly one: string
  /** Returns the filters for the events of a row. The value of the row may be null. */
  readonly filtersOf: (value: ReportValue) => readonly PropertyFilter[]
  /** Returns a readable name for a value. */
  readonly wordsOf?: (value: ReportValue) => string
  /** Returns the code of the country that a value belongs to, or undefined if it belongs to none. */
  readonly countryOf?: (value: ReportValue) => string | undefined
}

type Owner = 'event' | 'session'

function filterOn(type: Owner, key: string, value: ReportValue): PropertyFilter {
  if (value === null) return { key, operator: 'is_not_set', type }
  return { key, value: String(value), operator: 'exact', type }
}

/** Returns a table by one property of events or of sessions. */
function report(by: string, name: string, one: string, type: Owner, key: string): Report {
  return { by, name, one, filtersOf: (value) => [filterOn(type, key, value)] }
}

/**
 * Returns a table with a row for each combination of several event properties, such as country and city. The parts of a
 * row's value have the order of `keys`. A part whose key is empty adds no filter.
 */
function combined(by: string, name: string, one: string, keys: readonly string[]): Report {
  return {
    by,
    name,
    one,
    filtersOf: (value) =>
      keys.flatMap((key, place) =>
        key === '' ? [] : [filterOn('event', key, partOf(value, place))],
      ),
  }
}

function partOf(value: ReportValue, place: number): string | number | null {
  return typeof value === 'object' && value !== null ? (value[place] ?? null) : value
}

/** Returns the code of a country. It is the value itself or its first part. */
function codeOf(value: ReportValue): string | undefined {
  const code = partOf(value, 0)
  return code === null ? undefined : String(code)
}

/**
 * Returns a function that returns the name of a country or a language, from the data of the browser. If the code is
 * unknown, it returns the code.
 */
function namesOf(type: 'region' | 'language'): (value: ReportValue) => string {
  const names = lazy(() => new Intl.DisplayNames('en', { type }))
  return (value) => {
    const code = String(value)
    try {
      return `${names().of(code.replace(/-$/, '')) ?? code}`
    } catch {
      return code
    }
  }
}

const countryName = namesOf('region')

/**
 * A row of the table of languages includes all regions of a language. The row `en-US` therefore stands for `en`,
 * `en-US` and `en-GB`.
 */
const LANGUAGE: Report = {
  ...report('Language', 'Languages', 'Language', 'event', '$browser_language'),
  wordsOf: namesOf('language'),
  filtersOf(value) {
    const language = String(value ?? '')
      .split('-')[0]
      ?.replace(/[^\w]/g, '')
    const pattern = `^${language}(-|$)`
    return [{ key: '$browser_language', value: pattern, operator: 'regex', type: 'event' }]
  },
}
const COUNTRY_KEY = '$geoip_country_code'
const COUNTRY: Report = {
  ...report('Country', 'Countries', 'Country', 'event', COUNTRY_KEY),
  wordsOf: countryName,
  countryOf: codeOf,
}
const REGION: Report = {
  ...combined('Region', 'Regions', 'Region', [COUNTRY_KEY, '$geoip_subdivision_1_code']),
  wordsOf: (value) => {
    const name = partOf(value, 2) ?? partOf(value, 1)
    return withCountry(String(name), partOf(value, 0))
  },
  countryOf: codeOf,
}
const CITY: Report = {
  ...combined('City', 'Cities', 'City', [COUNTRY_KEY, '$geoip_city_name']),
  wordsOf: (value) => withCountry(String(partOf(value, 1)), partOf(value, 0)),
  countryOf: codeOf,
}
const SCREEN: Report = {
  ...combined('Viewport', 'Sizes', 'Window size', ['$viewport_width', '$viewport_height']),
  wordsOf: (value) => `${partOf(value, 0)} × ${partOf(value, 1)}`,
}

function withCountry(name: string, code: string | number | null): string {
  return code === null ? name : `${name}, ${countryName(code)}`
}

/** A card of the page. `parameter` is the URL parameter that contains the chosen table. */
export interface ReportCard {
  readonly parameter: string
  readonly title: string
  /** The tables that have a tab of their own. */
  readonly reports: readonly Report[]
  /** The other tables, which share one tab, and the name of this tab. */
  readonly more?: { readonly name: string; readonly reports: readonly Report[] }
}

/** The cards, in their order on the page. At first, each shows its first table. */
export const CARDS: readonly ReportCard[] = [
  {
    parameter: 'sources',
    title: 'Sources',
    reports: [
      report('InitialChannelType', 'Channels', 'Channel', 'session', '$channel_type'),
      report(
        'InitialReferringDomain',
        'Referrers',
        'Referrer',
        'session',
        '$entry_referring_domain',
      ),
      report('InitialUTMCampaign', 'Campaigns', 'Campaign', 'session', '$entry_utm_campaign'),
    ],
    more: {
      name: 'UTM',
      reports: ['Source', 'Medium', 'Term', 'Content'].map((part) => {
        const name = `UTM ${part.toLowerCase()}`
        return report(
          `InitialUTM${part}`,
          name,
          name,
          'session',
          `$entry_utm_${part.toLowerCase()}`,
        )
      }),
    },
  },
  {
    parameter: 'pages',
    title: 'Pages',
    reports: [
      report('Page', 'Top pages', 'Page', 'event', '$pathname'),
      report('InitialPage', 'Entry pages', 'Page', 'session', '$entry_pathname'),
      report('ExitPage', 'Exit pages', 'Page', 'session', '$end_pathname'),
      report('ExitClick', 'Exit clicks', 'Address', 'session', '$last_external_click_url'),
    ],
  },
  {
    parameter: 'places',
    title: 'Places',
    reports: [COUNTRY, REGION, CITY, LANGUAGE],
  },
  {
    parameter: 'devices',
    title: 'Devices',
    reports: [
      report('Browser', 'Browsers', 'Browser', 'event', '$browser'),
      report('OS', 'OS', 'Operating system', 'event', '$os'),
      report('DeviceType', 'Devices', 'Device', 'event', '$device_type'),
      SCREEN,
    ],
  },
]
