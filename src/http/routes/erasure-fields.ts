/**
 * What requests say about erasures and retention. Only the body counts, and an unknown member is an
 * error: a misspelt condition would erase more than was meant. Source: docs/COMPATIBILITY.md, "Erasure
 * and retention".
 */
import { ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { parseTimestamp } from '../../rules/capture/timestamp.ts'
import type { ErasureCriteria, EventRetention, RetentionRules } from '../../rules/events/erasure.ts'
import { invalid } from '../server/parameters.ts'
import type { ApiRequest } from '../server/router.ts'

/** Longer than what events can have, so that a name is never cut short here. */
const TEXT_UNITS_MAX = 400
const DAYS_MAX = 36_500
/** Less would not hold the segments of a quiet hour. */
const BYTES_MIN = 1024 ** 2
/** Names with a rule of their own in one project. More: 400 `invalid_input`. */
const NAMED_RULES_MAX = 100

/** What POST `erasures/` asks for. */
export interface ErasureRequest {
  readonly criteria: ErasureCriteria
  readonly isDryRun: boolean
}

/** What PUT `retention/` asks for. */
export interface RetentionRequest {
  readonly rules: RetentionRules
  readonly isDryRun: boolean
}

type Body = ReadonlyMap<string, unknown>

/** Reads which events to erase. Throws 400 with the field as `attr`. */
export function readErasureRequest(request: ApiRequest): ErasureRequest {
  const body = bodyOf(request, ['event', 'after', 'before', 'distinct_id', 'person_id', 'dry_run'])
  const criteria: ErasureCriteria = {
    event: text(body, 'event'),
    afterMs: time(body, 'after'),
    beforeMs: time(body, 'before'),
    distinctId: text(body, 'distinct_id'),
    personId: person(body),
  }
  if (Object.values(criteria).every((condition) => condition === null)) {
    const detail =
      'say which events: send event, after, before, distinct_id or person_id in the body'
    throw new ServiceError('required', detail, { attr: 'event' })
  }
  const { afterMs, beforeMs } = criteria
  if (afterMs !== null && beforeMs !== null && afterMs >= beforeMs) {
    throw invalid('before', 'must be later than after')
  }
  return { criteria, isDryRun: boolean(body, 'dry_run') }
}

/** Reads all rules of a project: what is absent is kept for ever. Throws 400 with the field as `attr`. */
export function readRetentionRequest(request: ApiRequest): RetentionRequest {
  const body = bodyOf(request, ['days', 'bytes_max', 'events', 'dry_run'])
  const rules = {
    days: wholeNumber(body, 'days', 'days', 1, DAYS_MAX),
    bytesMax: wholeNumber(body, 'bytes_max', 'bytes_max', BYTES_MIN, Number.MAX_SAFE_INTEGER),
    events: namedRules(body.get('events')),
  }
  return { rules, isDryRun: boolean(body, 'dry_run') }
}

/** Reads the body of POST `retention/run/`. */
export function readDryRun(request: ApiRequest): boolean {
  return boolean(bodyOf(request, ['dry_run']), 'dry_run')
}

function bodyOf(request: ApiRequest, names: readonly string[]): Body {
  const value = request.json() ?? {}
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ServiceError('invalid_input', 'the body must be a JSON object')
  }
  return checked(new Map(Object.entries(value)), names, null)
}

function checked(members: Body, names: readonly string[], attr: string | null): Body {
  for (const name of members.keys()) {
    if (names.includes(name)) continue
    const detail = `there is no such field; send ${names.join(', ')}`
    throw new ServiceError('invalid_input', detail, { attr: attr ?? name.slice(0, TEXT_UNITS_MAX) })
  }
  return members
}

function namedRules(value: unknown): readonly EventRetention[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value) || value.length > NAMED_RULES_MAX) {
    throw invalid('events', `must be a list of ${NAMED_RULES_MAX} rules at most`)
  }
  const rules = value.map((entry: unknown): EventRetention => {
    if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) {
      throw invalid('events', 'must hold objects such as {"event": "$pageview", "days": 30}')
    }
    const members = checked(new Map(Object.entries(entry)), ['event', 'days'], 'events')
    const event = members.get('event')
    if (typeof event !== 'string' || event === '' || event.length > TEXT_UNITS_MAX) {
      throw invalid('events', 'need the name of an event each')
    }
    if (!members.has('days')) throw invalid('events', 'need days each; null keeps for ever')
    return { event, days: wholeNumber(members, 'days', 'events', 1, DAYS_MAX) }
  })
  const names = new Set(rules.map(({ event }) => event))
  if (names.size < rules.length) throw invalid('events', 'must name each event once')
  return rules
}

function text(body: Body, name: string): string | null {
  const value = body.get(name)
  if (value === undefined || value === null) return null
  if (typeof value !== 'string') throw invalid(name, 'must be a text')
  if (value === '') throw new ServiceError('blank', `${name} must not be empty`, { attr: name })
  if (value.length > TEXT_UNITS_MAX) {
    const detail = `${name} may have ${TEXT_UNITS_MAX} characters at most`
    throw new ServiceError('max_length', detail, { attr: name })
  }
  return value
}

function time(body: Body, name: string): number | null {
  const given = text(body, name)
  if (given === null) return null
  const ms = parseTimestamp(given)
  if (ms === null) throw invalid(name, 'must be a time such as 2024-05-01T12:00:00Z')
  return ms
}

function person(body: Body): string | null {
  const given = text(body, 'person_id')
  if (given === null) return null
  const uuid = parseUuid(given)
  if (uuid === null) throw invalid('person_id', 'must be the uuid of a person')
  return formatUuid(uuid, 0)
}

function boolean(body: Body, name: string): boolean {
  const value = body.get(name)
  if (value === undefined || value === null) return false
  if (typeof value !== 'boolean') throw invalid(name, 'must be true or false')
  return value
}

function wholeNumber(
  body: Body,
  name: string,
  attr: string,
  min: number,
  max: number,
): number | null {
  const value = body.get(name)
  if (value === undefined || value === null) return null
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    throw invalid(attr, `must be whole numbers from ${min} to ${max}, or null`)
  }
  return value
}
