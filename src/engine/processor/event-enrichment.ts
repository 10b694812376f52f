/**
 * Adds properties to events while they are processed, depending on the settings: a mark on events of bots, the browser
 * and operating system from the user agent, and the location of the IP address. The result depends on the log, the
 * settings and the current GeoIP database. Source: docs/compatibility/enrichment.md, "Bots", "User agents" and "GeoIP".
 */
import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'
import { createLogger, type Logger } from '../../base/log.ts'
import { RecentValues } from '../../base/maps.ts'
import { isEmptyValue } from '../../rules/capture/fields.ts'
import type { NormalizedEvent } from '../../rules/capture/types.ts'
import { agentOf, agentProperties, isBot, isUndescribed } from '../../rules/enrichment/agent.ts'
import type { Place } from '../../rules/enrichment/place.ts'
import type { EnrichmentSettings, GeoIpCounts, ThreadSettings } from '../threads/tasks.ts'
import { GeoIpDatabase } from './geoip-database.ts'
import { ENRICHMENT_CACHE_BYTES_MAX } from './limits.ts'

/** The data that was derived from a user agent. */
interface AgentFacts {
  readonly isBot: boolean
  readonly properties: JsonObject
  /** The size of the properties as JSON, in bytes. */
  readonly bytes: number
}

const BOT_MARK = '$is_bot'
const BOT_MARK_BYTES = Buffer.byteLength(`"${BOT_MARK}":true,`)
const FACTS_BYTES = 256

/**
 * Creates the enrichment for a thread, with a logger that has the level and format of the thread. Returns null if the
 * settings turn enrichment off.
 */
export function openEnrichment({
  enrichment,
  logLevel: level,
  logFormat: format,
}: ThreadSettings): EventEnrichment | null {
  return enrichment === undefined
    ? null
    : new EventEnrichment(enrichment, createLogger({ level, format }))
}

/** Enriches the events of one processing thread. */
export class EventEnrichment {
  readonly #settings: EnrichmentSettings
  readonly #geoIp: GeoIpDatabase | null
  readonly #agents = new RecentValues<AgentFacts>(ENRICHMENT_CACHE_BYTES_MAX, () => FACTS_BYTES)

  /** Does not open the GeoIP database. The first call of `refresh` does. */
  constructor(settings: EnrichmentSettings, log: Pick<Logger, 'info' | 'warn'>) {
    this.#settings = settings
    const { geoIpDatabase: path } = settings
    this.#geoIp = path === null ? null : new GeoIpDatabase(path, log)
  }

  /** Loads the GeoIP database if its file has changed. Call it from time to time, between events. */
  refresh(): void {
    this.#geoIp?.refresh()
  }

  /** Returns the GeoIP figures for metrics, or undefined if no database is configured. */
  takeGeoIpCounts(): GeoIpCounts | undefined {
    return this.#geoIp?.takeCounts()
  }

  /**
   * Returns the IP address of an event: its property `$ip`, or else `senderAddress`. Call it before normalization,
   * which removes the address from the events of some projects.
   */
  addressOf(given: JsonObject, senderAddress: string): unknown {
    const properties = given['properties']
    const own = isObject(properties) ? properties['$ip'] : undefined
    return own === undefined || isEmptyValue(own) ? senderAddress : own
  }

  /**
   * Adds properties to a normalized event. Returns by how many bytes its JSON has grown at most. Costs about a
   * microsecond.
   */
  enrich(event: NormalizedEvent, address: unknown): number {
    const bytes = this.#addAgent(event.properties)
    if (typeof address !== 'string' || event.properties['$geoip_disable']) return bytes
    const place = this.#geoIp?.placeOf(address) ?? null
    return place === null ? bytes : bytes + addPlace(event, place)
  }

  #addAgent(properties: OwnObject): number {
    const { isBotTagged, isUserAgentParsed } = this.#settings
    const isMarkable = isBotTagged && properties[BOT_MARK] === undefined
    const isDescribable = isUserAgentParsed && isUndescribed(properties)
    if (!isMarkable && !isDescribable) return 0
    const agent = agentOf(properties)
    if (agent === '') return 0
    const facts = this.#factsOf(agent)
    let bytes = 0
    if (isMarkable && facts.isBot) {
      properties[BOT_MARK] = true
      bytes += BOT_MARK_BYTES
    }
    if (!isDescribable) return bytes
    Object.assign(properties, facts.properties)
    return bytes + facts.bytes
  }

  #factsOf(agent: string): AgentFacts {
    const known = this.#agents.get(agent)
    if (known !== undefined) return known
    const { isBotTagged, isUserAgentParsed } = this.#settings
    const properties = isUserAgentParsed ? agentProperties(agent) : {}
    const bytes = Buffer.byteLength(JSON.stringify(properties))
    const facts = { isBot: isBotTagged && isBot(agent), properties, bytes }
    this.#agents.keep(agent, facts)
    return facts
  }
}

/** Adds a location to an event. If the event has a person, also sets the properties of the location on the person. */
function addPlace({ name, properties, isPersonless }: NormalizedEvent, place: Place): number {
  Object.assign(properties, place.event)
  if (!isPersonless && name !== '$groupidentify') {
    addUpdates(properties, '$set', place.set)
    addUpdates(properties, '$set_once', place.setOnce)
  }
  return place.bytes
}

function addUpdates(properties: OwnObject, field: '$set' | '$set_once', added: JsonObject): void {
  const given = properties[field]
  properties[field] = isObject(given) ? { ...given, ...added } : added
}
