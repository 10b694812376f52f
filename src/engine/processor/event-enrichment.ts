/**
 * What is added to events while they are processed, each part as the settings say: a mark on bots,
 * browser and system of a user agent, the place of an address. It depends on the log, the settings and
 * the GeoIP database at that time. Source:
 * docs/compatibility/enrichment.md, "Bots", "User agents" and "GeoIP".
 */
import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'
import { createLogger, type Logger } from '../../base/log.ts'
import { RecentValues } from '../../base/maps.ts'
import { isEmptyValue } from '../../rules/capture/fields.ts'
import type { NormalisedEvent } from '../../rules/capture/types.ts'
import { agentOf, agentProperties, isBot, isUndescribed } from '../../rules/enrichment/agent.ts'
import type { Place } from '../../rules/enrichment/place.ts'
import type { EnrichmentSettings, GeoIpCounts, ThreadSettings } from '../threads/tasks.ts'
import { GeoIpDatabase } from './geoip-database.ts'
import { ENRICHMENT_CACHE_BYTES_MAX } from './limits.ts'

/** What a user agent tells. */
interface AgentFacts {
  readonly isBot: boolean
  readonly properties: JsonObject
  /** JSON bytes of the properties. */
  readonly bytes: number
}

const BOT_MARK = '$is_bot'
const BOT_MARK_BYTES = Buffer.byteLength(`"${BOT_MARK}":true,`)
const FACTS_BYTES = 256

/** The enrichment of a thread, which logs as the thread does; null when nothing is to be added. */
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

  /** Opens nothing before `refresh`. */
  constructor(settings: EnrichmentSettings, log: Pick<Logger, 'info' | 'warn'>) {
    this.#settings = settings
    const { geoIpDatabase: path } = settings
    this.#geoIp = path === null ? null : new GeoIpDatabase(path, log)
  }

  /** Takes over a GeoIP database that has changed. Call it now and then, between events. */
  refresh(): void {
    this.#geoIp?.refresh()
  }

  /** What the metrics tell of the GeoIP database; undefined when there is to be none. */
  takeGeoIpCounts(): GeoIpCounts | undefined {
    return this.#geoIp?.takeCounts()
  }

  /** The address that an event as it was sent comes from: asked before a project's rule takes it away. */
  addressOf(given: JsonObject, senderAddress: string): unknown {
    const properties = given['properties']
    const own = isObject(properties) ? properties['$ip'] : undefined
    return own === undefined || isEmptyValue(own) ? senderAddress : own
  }

  /** Adds to a normalised event; returns at most how many bytes longer its JSON is. About a microsecond. */
  enrich(event: NormalisedEvent, address: unknown): number {
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

/** An event without person changes none: it gets what belongs to itself only. */
function addPlace({ name, properties, isPersonless }: NormalisedEvent, place: Place): number {
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
