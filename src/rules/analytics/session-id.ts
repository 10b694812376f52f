/** The property that identifies the session of an event. Source: docs/compatibility/queries.md, "Sessions". */

/** The event property that contains the session id. */
export const SESSION_ID = '$session_id'

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Returns whether a value of `$session_id` identifies a session. Such a value is a UUID of version 7. */
export function isSessionId(value: unknown): value is string {
  return typeof value === 'string' && value.length === 36 && UUID_V7.test(value)
}
