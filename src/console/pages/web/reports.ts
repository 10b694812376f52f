/** The tables of the page "Web": what each is called, what is asked, and which filter a row stands for. */
import type { PropertyFilter } from '../../kit.ts'

/** A table: visitors and views by one thing. */
export interface Report {
  /** `breakdownBy` of the query, and the value in the address. */
  readonly by: string
  readonly name: string
  /** The filter that leaves what a row counts; of values that are absent, too. */
  readonly filterOf: (value: string | null) => PropertyFilter
  /** A value in words. */
  readonly wordsOf?: (value: string) => string
}

/** A table by a property of events or of sessions. */
function report(by: string, name: string, type: 'event' | 'session', key: string): Report {
  const filterOf: Report['filterOf'] = (value) =>
    value === null ? { key, operator: 'is_not_set', type } : { key, value, operator: 'exact', type }
  return { by, name, filterOf }
}

/** Names of countries and languages as the browser knows them; what it does not know stays as it is. */
function namesOf(type: 'region' | 'language'): (code: string) => string {
  const names = new Intl.DisplayNames('en', { type })
  return (code) => {
    try {
      return `${names.of(code.replace(/-$/, '')) ?? code}`
    } catch {
      return code
    }
  }
}

/** A row of languages stands for all its regions: `en-US` for `en`, `en-US`, `en-GB`. */
const LANGUAGE: Report = {
  ...report('Language', 'Languages', 'event', '$browser_language'),
  wordsOf: namesOf('language'),
  filterOf(value) {
    const language = (value ?? '').split('-')[0]?.replace(/[^\w]/g, '')
    const pattern = `^${language}(-|$)`
    return { key: '$browser_language', value: pattern, operator: 'regex', type: 'event' }
  },
}
const COUNTRY: Report = {
  ...report('Country', 'Countries', 'event', '$geoip_country_code'),
  wordsOf: namesOf('region'),
}

/** A card of the page: a parameter of the address says which of its tables is shown. */
export interface ReportCard {
  readonly parameter: string
  readonly title: string
  readonly reports: readonly Report[]
}

/** The cards in their order; the first table of each is shown at first. */
export const CARDS: readonly ReportCard[] = [
  {
    parameter: 'pages',
    title: 'Pages',
    reports: [
      report('Page', 'Pages', 'event', '$pathname'),
      report('InitialPage', 'Entry', 'session', '$entry_pathname'),
      report('ExitPage', 'Exit', 'session', '$end_pathname'),
    ],
  },
  {
    parameter: 'sources',
    title: 'Sources',
    reports: [
      report('InitialChannelType', 'Sources', 'session', '$channel_type'),
      report('InitialReferringDomain', 'Referrers', 'session', '$entry_referring_domain'),
      report('InitialUTMSource', 'UTM source', 'session', '$entry_utm_source'),
      report('InitialUTMMedium', 'UTM medium', 'session', '$entry_utm_medium'),
      report('InitialUTMCampaign', 'UTM campaign', 'session', '$entry_utm_campaign'),
    ],
  },
  {
    parameter: 'devices',
    title: 'Browsers and devices',
    reports: [
      report('Browser', 'Browsers', 'event', '$browser'),
      report('OS', 'OS', 'event', '$os'),
      report('DeviceType', 'Devices', 'event', '$device_type'),
    ],
  },
  {
    parameter: 'places',
    title: 'Places',
    reports: [COUNTRY, LANGUAGE],
  },
]
