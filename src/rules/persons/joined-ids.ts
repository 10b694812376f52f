/**
 * Finds the second id that an event joins with its distinct_id. It also lists the ids that must never be joined,
 * because faulty clients send them for every user. Source: docs/compatibility/persons.md, "Merging persons".
 */
import type { JsonObject } from '../../base/json.ts'
import { DISTINCT_ID_POINTS_MAX } from '../../base/limits.ts'
import { cutPoints } from '../capture/fields.ts'
import { ILLEGAL_ID_UNITS_MAX } from './limits.ts'

const ILLEGAL_IN_ANY_CASE: ReadonlySet<string> = new Set([
  'anonymous',
  'guest',
  'distinctid',
  'distinct_id',
  'id',
  'not_authenticated',
  'email',
  'undefined',
  'true',
  'false',
])
const ILLEGAL_AS_WRITTEN: ReadonlySet<string> = new Set([
  '[object Object]',
  'NaN',
  'None',
  'none',
  'null',
  '0',
  'undefined',
])

/**
 * Returns the id that a merge event joins with its distinct_id, as text. Returns null for every other event and for
 * merge events without such an id. For `$identify`, the property `$anon_distinct_id` must exist, but its value may be
 * anything, even null.
 */
export function otherIdOf(eventName: string, properties: JsonObject): string | null {
  switch (eventName) {
    case '$identify': {
      const id = properties['$anon_distinct_id']
      return id === undefined ? null : idText(id)
    }
    case '$create_alias':
    case '$merge_dangerously': {
      const id = properties['alias']
      return id ? idText(id) : null
    }
    default:
      return null
  }
}

/**
 * Returns whether an id must never be merged. Such ids are well-known values of faulty clients, with or without quotes,
 * and blank ids.
 */
export function isIllegalId(id: string): boolean {
  if (id.length > ILLEGAL_ID_UNITS_MAX) return id.trim() === ''
  const bare = withoutQuotes(id)
  if (ILLEGAL_AS_WRITTEN.has(bare) || ILLEGAL_IN_ANY_CASE.has(bare.toLowerCase())) return true
  return id.trim() === ''
}

function withoutQuotes(id: string): string {
  const first = id.charCodeAt(0)
  if (id.length < 2 || (first !== 0x22 && first !== 0x27)) return id
  return id.charCodeAt(id.length - 1) === first ? id.slice(1, -1) : id
}

/**
 * Returns an id as text. A long text is cut in the same way as a distinct_id. Otherwise, the id would never be equal to
 * the distinct_id that was stored for it. Objects and arrays become `[object Object]`, as faulty clients write them.
 */
function idText(id: unknown): string {
  if (typeof id === 'string') return cutPoints(id, DISTINCT_ID_POINTS_MAX)
  return typeof id === 'object' && id !== null ? '[object Object]' : String(id)
}
