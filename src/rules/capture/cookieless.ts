/**
 * Identifies visitors without cookies. With `cookieless_mode`, posthog-js sends the same distinct_id for every visitor.
 * This module replaces it by a distinct_id that is different for each visitor and each day. It is a hash of the
 * visitor's IP address, the host and the user agent with a secret salt. The salt is deleted after some days, and the
 * address and the user agent are removed from the event. Source: docs/compatibility/persons.md, "Visitors without
 * cookies"; PostHog nodejs/src/ingestion/cookieless/cookieless-manager.ts, stateless mode.
 */
import { createHmac } from 'node:crypto'
import { formatUuid } from '../../base/ids.ts'
import { NO_WARNINGS } from './event-time.ts'
import {
  COOKIELESS_EXTRA_UNITS_MAX,
  COOKIELESS_LATE_MS_MAX,
  COOKIELESS_ZONE_UNITS_MAX,
  COOKIELESS_ZONES_MAX,
} from './limits.ts'
import type { EventOutcome, NormalizedEvent, WarningType } from './types.ts'

/** The distinct_id that the SDK sends for every visitor. */
export const COOKIELESS_ID = '$posthog_cookieless'

const HOUR_MS = 3_600_000
/**
 * The largest offsets of time zones from UTC. A calendar day begins 14 hours earlier in the easternmost zone than in
 * UTC, and ends 12 hours later in the westernmost zone.
 */
const AHEAD_MS = 14 * HOUR_MS
const BEHIND_MS = 12 * HOUR_MS
const DAY_MS = 24 * HOUR_MS
const HASH_BYTES = 16

/** The values that a hash is computed from, in addition to the salt. */
export interface VisitorTraits {
  readonly projectId: number
  readonly address: string
  readonly host: string
  readonly userAgent: string
  /** The property `$cookieless_extra`, which the site may set, or ''. */
  readonly extra: string
}

/** The request that an event came with, and the salts. */
export interface CookielessContext {
  readonly projectId: number
  /** The IP address of the sender, even if the project does not store IP addresses. */
  readonly address: string
  readonly arrivedAtMs: number
  /**
   * Returns the salt of a day such as `2026-11-22`. The salt stays the same as long as events of the day are accepted.
   */
  readonly saltOf: (day: string) => Uint8Array
}

/** An event with the id of its visitor, and its warnings. */
export type VisitorEvent = Extract<EventOutcome, { readonly kind: 'event' }>

const zones = new Map<string, Intl.DateTimeFormat | null>()

/** Returns whether an event was sent without cookies and still has the distinct_id that all such visitors share. */
export function isCookieless(event: NormalizedEvent): boolean {
  return event.distinctId === COOKIELESS_ID && event.properties['$cookieless_mode'] === true
}

/**
 * Gives an event for which `isCookieless` is true the ids of its visitor, device and session. Removes `$ip`,
 * `$raw_user_agent` and `$cookieless_extra`, from which the ids are computed. If the address, the user agent or the
 * host is missing, the event keeps the shared distinct_id and gets a warning.
 */
export function withVisitor(event: NormalizedEvent, context: CookielessContext): VisitorEvent {
  const { properties } = event
  const traits: VisitorTraits = {
    projectId: context.projectId,
    address: textOf(properties['$ip']) || context.address,
    host: textOf(properties['$host']).toLowerCase(),
    userAgent: textOf(properties['$raw_user_agent']),
    extra: textOf(properties['$cookieless_extra']),
  }
  properties['$ip'] = undefined
  properties['$raw_user_agent'] = undefined
  properties['$cookieless_extra'] = undefined
  const missing = missingTrait(traits)
  if (missing !== null) {
    const [type, missingProperty] = missing
    const details = { event: event.name, distinct_id: event.distinctId, missingProperty }
    return { kind: 'event', event, warnings: [{ type, details }] }
  }
  const zone = textOf(properties['$timezone'])
  const day = dayOf(event.timestampMs, context.arrivedAtMs, zone)
  const hash = visitorHash(context.saltOf(day), traits)
  const name = nameOf(hash)
  const distinctId = `cookieless_${name}`
  if (properties['distinct_id'] !== undefined) properties['distinct_id'] = distinctId
  properties['$device_id'] = `cookielessd_${name}`
  properties['$session_id'] = sessionId(day, hash)
  return { kind: 'event', event: { ...event, distinctId }, warnings: NO_WARNINGS }
}

/** Returns the distinct_id of a visitor. */
export function visitorId(salt: Uint8Array, traits: VisitorTraits): string {
  return `cookieless_${nameOf(visitorHash(salt, traits))}`
}

/**
 * Returns the day that an event belongs to, as a date in the time zone, or in UTC if the zone is unknown. An event that
 * is too old or too far in the future belongs to the day on which it arrived, because its own day has no salt.
 */
export function dayOf(timeMs: number, arrivedAtMs: number, zone: string): string {
  const day = calendarDay(timeMs, zone)
  return isDayOpen(day, arrivedAtMs) ? day : calendarDay(arrivedAtMs, zone)
}

/**
 * Returns whether events that arrive at `nowMs` may belong to a day. This is the case from the start of the day in the
 * first time zone until `COOKIELESS_LATE_MS_MAX` after its end in the last time zone.
 */
export function isDayOpen(day: string, nowMs: number): boolean {
  const startMs = Date.parse(`${day}T00:00:00Z`)
  return (
    nowMs >= startMs - AHEAD_MS && nowMs < startMs + DAY_MS + BEHIND_MS + COOKIELESS_LATE_MS_MAX
  )
}

function visitorHash(salt: Uint8Array, traits: VisitorTraits): Buffer {
  const { projectId, address, host, userAgent, extra } = traits
  const text = JSON.stringify([
    projectId,
    address,
    host,
    userAgent,
    extra.slice(0, COOKIELESS_EXTRA_UNITS_MAX),
  ])
  return createHmac('sha256', salt).update(text).digest().subarray(0, HASH_BYTES)
}

function nameOf(hash: Buffer): string {
  return hash.toString('base64').replace(/=+$/, '')
}

/** Returns the session ID of a visitor for one day: a UUID of version 7 whose time is the beginning of the day. */
function sessionId(day: string, hash: Buffer): string {
  const bytes = Buffer.from(hash)
  bytes.writeUIntBE(Date.parse(`${day}T00:00:00Z`), 0, 6)
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f)
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f)
  return formatUuid(bytes, 0)
}

function calendarDay(timeMs: number, zone: string): string {
  const formatter = zone === '' || zone === 'UTC' ? null : formatterOf(zone)
  if (formatter !== null) return formatter.format(timeMs)
  return new Date(timeMs).toISOString().slice(0, 'yyyy-mm-dd'.length)
}

function formatterOf(name: string): Intl.DateTimeFormat | null {
  if (name.length > COOKIELESS_ZONE_UNITS_MAX) return null
  const zone = name.toLowerCase()
  const known = zones.get(zone)
  if (known !== undefined) return known
  if (zones.size >= COOKIELESS_ZONES_MAX) zones.clear()
  const made = makeFormatter(zone)
  zones.set(zone, made)
  return made
}

/** Returns a formatter that writes days in ISO 8601 form, or null if the time zone is unknown. */
function makeFormatter(timeZone: string): Intl.DateTimeFormat | null {
  try {
    const parts = { year: 'numeric', month: '2-digit', day: '2-digit' } as const
    return new Intl.DateTimeFormat('en-CA-u-ca-iso8601-nu-latn', { timeZone, ...parts })
  } catch {
    return null
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/**
 * Returns the type of the warning and the name of the property if a value that identifies the visitor is missing.
 * Returns null if no value is missing.
 */
function missingTrait({
  userAgent,
  address,
  host,
}: VisitorTraits): readonly [WarningType, string] | null {
  if (userAgent === '') return ['cookieless_missing_user_agent', '$raw_user_agent']
  if (address === '') return ['cookieless_missing_ip', '$ip']
  return host === '' ? ['cookieless_missing_host', '$host'] : null
}
