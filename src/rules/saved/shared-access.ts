/**
 * The access of readers to a shared link: how a reader proves to have given its password, and which date ranges a
 * reader may choose. Source: docs/compatibility/saved.md, "Passwords of shared pages".
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { invalidInput, ServiceError } from '../../base/errors.ts'
import type { JsonObject } from '../../base/json.ts'
import { questionOf } from './insight-question.ts'
import { SHARE_PASSWORDS_MAX, SHARE_PROOF_MS_MAX } from './limits.ts'
import { NEW_ACCESS, type SharedView, type SharePassword, type Sharing } from './saved.ts'

const PROOF = /^([1-9]\d{0,14})\.([1-9]\d{0,14})\.([\w-]{43})$/

/** The date ranges that a reader may choose, by the names that the console uses in URLs. */
export const SHARED_RANGES: Readonly<Record<string, JsonObject>> = {
  today: { date_from: 'dStart', date_to: null },
  yesterday: { date_from: '-1dStart', date_to: '-1dEnd' },
  '24h': { date_from: '-23h', date_to: null },
  '7d': { date_from: '-6d', date_to: null },
  '28d': { date_from: '-27d', date_to: null },
  '30d': { date_from: '-29d', date_to: null },
  '91d': { date_from: '-90d', date_to: null },
  mtd: { date_from: 'mStart', date_to: null },
  lastmonth: { date_from: '-1mStart', date_to: '-1mEnd' },
  ytd: { date_from: 'yStart', date_to: null },
  '12m': { date_from: '-11mStart', date_to: null },
  all: { date_from: 'all', date_to: null },
}

/** Returns the restrictions of a shared link. A link that never had any has those of a new link. */
export function accessOf(sharing: Sharing | null) {
  return sharing?.access ?? NEW_ACCESS
}

/**
 * Throws 400 `invalid_input` if a password cannot be added to a link, because it needs no password or already has the
 * largest number of passwords.
 */
export function requirePasswordRoom(sharing: Sharing | null): asserts sharing is Sharing {
  const { isPasswordRequired, passwords } = accessOf(sharing)
  if (sharing === null || !isPasswordRequired) {
    const detail = 'The link needs no password yet. Set `password_required` first.'
    throw new ServiceError('invalid_input', detail, { attr: 'password_required' })
  }
  if (passwords.length < SHARE_PASSWORDS_MAX) return
  const detail = `A link may have at most ${SHARE_PASSWORDS_MAX} passwords. Remove one first.`
  throw new ServiceError('invalid_input', detail)
}

/** Returns whether a link can be opened at a time: it is enabled and has not expired. */
export function isOpenAt(sharing: Sharing, nowMs: number): boolean {
  const { expiresAtMs } = accessOf(sharing)
  return sharing.isEnabled && (expiresAtMs === null || nowMs < expiresAtMs)
}

/**
 * Returns a text which proves for some hours that a reader gave a password of the link. The text is bound to the link
 * and to the hash of the password, so it becomes invalid if the link or the password changes. The text contains an
 * HMAC. Its key is the hash of the password, which is only known to the store.
 */
export function shareProof(
  token: string,
  { id, hash }: Pick<SharePassword, 'id' | 'hash'>,
  nowMs: number,
) {
  const untilMs = nowMs + SHARE_PROOF_MS_MAX
  return { text: `${id}.${untilMs}.${macOf(token, hash, untilMs).toString('base64url')}`, untilMs }
}

/**
 * Returns whether a reader may see the content of a link. `proof` is the text that the reader sent. It should come from
 * `shareProof`.
 */
export function isUnlocked(sharing: Sharing, proof: string, nowMs: number): boolean {
  const { isPasswordRequired, passwords } = accessOf(sharing)
  if (!isPasswordRequired) return true
  const [, id, until, mac = ''] = PROOF.exec(proof) ?? []
  const password = passwords.find((one) => String(one.id) === id)
  if (password === undefined || nowMs >= Number(until)) return false
  const expected = macOf(sharing.token, password.hash, Number(until))
  const given = Buffer.from(mac, 'base64url')
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/**
 * Returns what a link shows for another date range. Throws 403 `permission_denied` if readers must not choose the range
 * of the link, and 400 `invalid_input` for an unknown range.
 */
export function inRange(view: SharedView, range: string | null): SharedView {
  if (range === null) return view
  if (!accessOf(view.sharing).isRangeChangeable) {
    const detail = 'Readers may not change the date range of this page. Open it without `range`.'
    throw new ServiceError('permission_denied', detail)
  }
  const dates = Object.hasOwn(SHARED_RANGES, range) ? SHARED_RANGES[range] : undefined
  if (dates === undefined) {
    throw invalidInput('range', `must be one of ${Object.keys(SHARED_RANGES).join(', ')}`)
  }
  if ('insight' in view) {
    const { fields } = view.insight
    const query = questionOf(fields.query, dates)
    return { ...view, insight: { ...view.insight, fields: { ...fields, query } } }
  }
  const { fields } = view.dashboard
  const filters = { ...fields.filters, ...dates }
  return { ...view, dashboard: { ...view.dashboard, fields: { ...fields, filters } } }
}

function macOf(token: string, hash: string, untilMs: number): Buffer {
  return createHmac('sha256', hash).update(`${token} ${untilMs}`).digest()
}
