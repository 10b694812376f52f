/**
 * Reads a user agent: whether it is a bot, and the browser, system and device under the names of posthog-js, so that
 * events of servers and browsers fall into the same groups. Source: docs/compatibility/enrichment.md, "User agents" and
 * "Bots"; posthog-js user-agent-utils.ts.
 */
import type { JsonObject, OwnObject } from '../../base/json.ts'
import { loadPackage } from '../../base/load-package.ts'
import { AGENT_UNITS_MAX } from './limits.ts'

/** The properties in which clients send the user agent. The first one that exists counts. */
const AGENT_NAMES = ['$raw_user_agent', '$user_agent', '$useragent', '$user-agent'] as const
/** The properties that show that the client has already described its browser or system. */
const DESCRIBED_BY = ['$browser', '$browser_version', '$os', '$device', '$device_type'] as const

/**
 * For each browser: its name, the pattern that recognizes it, and the pattern that precedes its version. The first row
 * that matches counts.
 */
const BROWSERS: readonly (readonly [name: string, sign: RegExp, version: RegExp | null])[] = [
  ['Opera Mini', / OPR\/.*Mini|Mini.* OPR\/|Opera Mini/, null],
  ['Opera', / OPR\/|^Opera\//, /(?:Opera|OPR)\//],
  ['BlackBerry', /BlackBerry|PlayBook|BB10/i, /(?:BlackBerry |Version\/)/],
  ['Internet Explorer Mobile', /IEMobile|WPDesktop/, /rv:/],
  ['Oculus Browser', /OculusBrowser/, /OculusBrowser\//],
  ['Samsung Internet', /SamsungBrowser/, /SamsungBrowser\//],
  ['Microsoft Edge', /Edge|Edg\//, /Edge?\//],
  ['Vivaldi', /Vivaldi\//, /Vivaldi\//],
  ['Yandex', /YaBrowser\//, /YaBrowser\//],
  ['Whale', /Whale\//, /Whale\//],
  ['DuckDuckGo', /DuckDuckGo\/|Ddg\//, /(?:DuckDuckGo|Ddg)\//],
  ['Facebook Mobile', /FBIOS/, null],
  ['UC Browser', /UCWEB|UCBrowser/, /(?:UCBrowser|UCWEB)\//],
  ['Chrome iOS', /CriOS/, /CriOS\//],
  ['Chrome', /Chrome|CrMo/, /(?:Chrome|CrMo)\//],
  ['Android Mobile', /Android.*Safari/, /android\s/i],
  ['Firefox iOS', /FxiOS/, /FxiOS\//],
  ['Konqueror', /konqueror/i, /konqueror[:/]?/i],
  ['Brave', /Brave\//, /Brave\//],
  ['Mobile Safari', /Mobile.*Safari/, /Version\//],
  ['Safari', /Safari/, /Version\//],
  ['Pale Moon', /PaleMoon\//, /PaleMoon\//],
  ['Waterfox', /Waterfox\//, /Waterfox\//],
  ['Firefox', /Firefox/, /Firefox\//],
  ['Internet Explorer', /MSIE|Trident\//, /(?:rv:|MSIE )/],
]

const SYSTEMS: readonly (readonly [name: string, sign: RegExp])[] = [
  ['Xbox', /Xbox; Xbox/i],
  ['Nintendo', /Nintendo/i],
  ['PlayStation', /PlayStation/i],
  ['BlackBerry', /BlackBerry|PlayBook|BB10/i],
  ['Windows Phone', /Windows.*Phone|WPDesktop/],
  ['Windows Mobile', /Windows.*Mobile(?!.*IEMobile)/],
  ['Windows', /Windows/i],
  ['iOS', /iPhone|(?:iPad|iPod).*OS \d/],
  ['watchOS', /watch.*\/\d+\.\d+\.\d+|watch os,\d/i],
  ['Android', /Android/i],
  ['Mac OS X', /Mac/i],
  ['Chrome OS', /CrOS/],
  ['Linux', /Linux|debian/i],
]

const DEVICES: readonly (readonly [name: string, type: string, sign: RegExp])[] = [
  ['Nintendo', 'Console', /Nintendo \w/i],
  ['PlayStation', 'Console', /PlayStation \w/i],
  ['Xbox', 'Console', /Xbox/i],
  ['Windows Phone', 'Mobile', /Windows Phone|WPDesktop/i],
  ['iPad', 'Tablet', /iPad/],
  ['iPod Touch', 'Mobile', /iPod/],
  ['iPhone', 'Mobile', /iPhone/],
  ['Apple Watch', 'Wearable', /watch(?: ?os[,/]|\d,\d\/)[\d.]/i],
  ['BlackBerry', 'Mobile', /BlackBerry|PlayBook|BB10/i],
  ['Kobo', 'Tablet', /kobo (?:ereader|touch)/i],
  ['Nokia', 'Mobile', /Nokia/i],
  ['Kindle Fire', 'Tablet', /\bKF[A-Z]{2,6}(?: Bui|\)).*Silk\//i],
  ['Android Tablet', 'Tablet', /Android.*(?:Nexus [79]|Pixel C)/i],
  ['Android', 'Mobile', /Android.*Mobile|Mobile.*Android/],
  ['Android Tablet', 'Tablet', /Android/i],
  ['Generic mobile', 'Mobile', /Mobile/i],
  ['Generic tablet', 'Tablet', /Tablet(?! PC)/i],
]

const VERSION = /^\d+(?:\.\d+)?/

/** Returns the user agent of an event, cut to the maximum length. Returns '' if there is none. */
export function agentOf(properties: JsonObject): string {
  for (const name of AGENT_NAMES) {
    const value = properties[name]
    if (typeof value === 'string' && value !== '') return value.slice(0, AGENT_UNITS_MAX)
  }
  return ''
}

/** Returns whether an event contains none of the properties that `agentProperties` returns. */
export function isUndescribed(properties: JsonObject): boolean {
  return DESCRIBED_BY.every((name) => properties[name] === undefined)
}

/**
 * Returns whether a user agent belongs to a bot, according to the list of the package isbot. The user agent must not be
 * empty. It takes about 2 us.
 */
export function isBot(agent: string): boolean {
  const { isbot } = loadPackage('isbot') as typeof import('isbot')
  return isbot(agent)
}

/**
 * Returns `$browser`, `$browser_version` (a number), `$os`, `$device` and `$device_type` of a user agent. A property
 * that the user agent does not reveal is missing, and desktops have no `$device`. It takes a few microseconds.
 */
export function agentProperties(agent: string): JsonObject {
  const properties: OwnObject = {}
  const browser = BROWSERS.find(([, sign]) => sign.test(agent))
  if (browser !== undefined) {
    const [name, , behind] = browser
    properties['$browser'] = name
    const version = behind === null ? null : versionAfter(agent, behind)
    if (version !== null) properties['$browser_version'] = version
  }
  const system = SYSTEMS.find(([, sign]) => sign.test(agent))
  if (system !== undefined) properties['$os'] = system[0]
  const device = DEVICES.find(([, , sign]) => sign.test(agent))
  if (device !== undefined) {
    properties['$device'] = device[0]
    properties['$device_type'] = device[1]
  } else if (browser !== undefined || system !== undefined) properties['$device_type'] = 'Desktop'
  return properties
}

/** Returns the major and minor version as one number such as 120.1, or null if there is none. */
function versionAfter(agent: string, sign: RegExp): number | null {
  const found = sign.exec(agent)
  if (found === null) return null
  const digits = VERSION.exec(agent.slice(found.index + found[0].length))
  return digits === null ? null : Number(digits[0])
}
