/** The scopes of personal keys. Source: docs/compatibility/api.md, "Authentication of private routes". */

/** The scopes that routes require. Keys may name other scopes, which grant nothing. */
export const SCOPES = [
  'action:read',
  'action:write',
  'activity_log:read',
  'annotation:read',
  'annotation:write',
  'cohort:read',
  'cohort:write',
  'dashboard:read',
  'dashboard:write',
  'event:read',
  'event:write',
  'event_definition:read',
  'event_definition:write',
  'feature_flag:read',
  'feature_flag:write',
  'group:read',
  'group:write',
  'insight:read',
  'insight:write',
  'organization:read',
  'organization:write',
  'person:read',
  'person:write',
  'personal_api_key:read',
  'personal_api_key:write',
  'project:read',
  'project:write',
  'property_definition:read',
  'query:read',
  'sharing_configuration:read',
  'sharing_configuration:write',
  'user:read',
] as const

/** One of `SCOPES`: a resource, and whether it is read or written. */
export type Scope = (typeof SCOPES)[number]

/** The scope that a personal key needs to send events in place of a project key. */
export const CAPTURE_SCOPE: Scope = 'event:write'

/**
 * Returns whether a list of scopes includes the required one. `*` includes all scopes, and `x:write` includes `x:read`.
 */
export function hasScope(scopes: readonly string[], needed: string): boolean {
  if (scopes.includes('*') || scopes.includes(needed)) return true
  return needed.endsWith(':read') && scopes.includes(`${needed.slice(0, -5)}:write`)
}
