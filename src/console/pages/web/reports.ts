/** The tables of the page "Web": their names, their queries, and the filter of each row. */
import type { PropertyFilter } from '../../kit.ts'

/** A table of visitors and views by one property. */
export interface Report {
  /** The `breakdownBy` of the query, which is also the value in the URL. */
  readonly by: string
  readonly name: string
  /** Returns the filter that selects the events of a row, also for a missing value. */
  readonly filterOf: (value: string | null) => PropertyFilter
  /** Returns the display name of a value. */
  readonly wordsOf?: (value: string) => string
}

/** Makes a table by a property of events or sessions. */
function report(by: string, name: string, type: 'event' | 'session', key: string): Report {
  const filterOf: Report['filterOf'] = (value) =>
    value === null ? { key, operator: 'is_not_set', type } : { key, value, operator: 'exact', type }
  return { by, name, filterOf }
}

/** Returns the function that names countries or languages with the browser's data. An unknown code stays unchanged. */
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

/** A row of languages includes all regions: `en-US` in the table stands for `en`, `en-US` and `en-GB`. */
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

/** A card of the page. A URL parameter holds its chosen table. */
export interface ReportCard {
  readonly parameter: string
  readonly title: string
  readonly reports: readonly Report[]
}

/** The cards in their order. Each shows its first table at first. */
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
