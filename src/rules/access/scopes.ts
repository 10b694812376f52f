/** The scopes of personal keys. Source: docs/compatibility/api.md, "Authentication of private routes". */

import { isViewer } from './levels.ts'

/** The scopes that routes require of a personal key. */
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
  'experiment:read',
  'experiment:write',
  'experiment_holdout:read',
  'experiment_holdout:write',
  'experiment_saved_metric:read',
  'experiment_saved_metric:write',
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

/** The scopes of viewers: they read everything, and manage their own keys. */
const VIEWER_SCOPES: readonly string[] = [
  ...SCOPES.filter((scope) => scope.endsWith(':read')),
  'personal_api_key:write',
]

/** One of `SCOPES`: a resource, and whether it is read or written. */
export type Scope = (typeof SCOPES)[number]

/** The scope that a personal key needs to send events in place of a project key. */
export const CAPTURE_SCOPE: Scope = 'event:write'

/**
 * Resources of PostHog that no route of Tenrec has. Scripts that create keys for PostHog name scopes of these
 * resources. Keys may therefore have these scopes, which grant nothing.
 */
const FOREIGN_RESOURCES = [
  'access_control',
  'account',
  'alert',
  'approvals',
  'batch_export',
  'batch_import',
  'billing',
  'business_knowledge',
  'canvas',
  'comment',
  'conversation',
  'customer_analytics',
  'customer_journey',
  'customer_profile_config',
  'customer_task',
  'dashboard_template',
  'data_catalog',
  'data_catalog_approval',
  'dataset',
  'early_access_feature',
  'element',
  'endpoint',
  'engineering_analytics',
  'error_tracking',
  'evaluation',
  'event_filter',
  'export',
  'external_data_schema',
  'external_data_source',
  'field_note',
  'file_system',
  'file_system_shortcut',
  'health_issue',
  'heatmap',
  'hog_flow',
  'hog_function',
  'ingestion_warning',
  'insight_variable',
  'integration',
  'legal_document',
  'link',
  'live_debugger',
  'llm_analytics',
  'llm_gateway',
  'llm_playground',
  'llm_prompt',
  'llm_provider_key',
  'llm_skill',
  'logs',
  'loop',
  'marketing_analytics',
  'mcp_analytics',
  'metrics',
  'notebook',
  'organization_integration',
  'organization_member',
  'plugin',
  'product_enablement',
  'product_tour',
  'query_performance',
  'replay_scanner',
  'revenue_analytics',
  'session_recording',
  'session_recording_playlist',
  'signal_scout',
  'subscription',
  'survey',
  'tagger',
  'task',
  'ticket',
  'toolbar',
  'tracing',
  'uploaded_media',
  'usage_metric',
  'user_interview',
  'vision_action',
  'vision_alert',
  'visual_review',
  'warehouse_objects',
  'warehouse_table',
  'warehouse_view',
  'web_analytics',
  'webhook',
] as const

const RESOURCES: ReadonlySet<string> = new Set([
  ...SCOPES.map((scope) => scope.slice(0, scope.indexOf(':'))),
  ...FOREIGN_RESOURCES,
])

/**
 * Returns whether a personal key may have a scope: `*`, or `read` or `write` of a resource of Tenrec or PostHog. A
 * `write` scope that no route requires, such as `query:write`, still includes the `read` scope of the resource.
 */
export function isScope(text: string): boolean {
  if (text === '*') return true
  const [, resource] = /^([a-z_]+):(?:read|write)$/.exec(text) ?? []
  return resource !== undefined && RESOURCES.has(resource)
}

/** Returns the scopes of a key or session that a user of this level may use. */
export function scopesAtLevel(scopes: readonly string[], level: number): readonly string[] {
  if (!isViewer(level)) return scopes
  return VIEWER_SCOPES.filter((scope) => hasScope(scopes, scope))
}

/**
 * The rights of a key or session. In a project in which the user has another level than in the organization, the rights
 * are different.
 */
export interface ScopesByProject {
  /** The scopes of the key or session that the user may use at their level in the organization. */
  readonly scopes: readonly string[]
  /** The scopes of the key itself, whatever the level of the user. */
  readonly keyScopes?: readonly string[]
  /** The levels of the user in those projects where it differs from the user's level in the organization. */
  readonly projectLevels?: ReadonlyMap<number, number>
}

/** Returns the scopes of a key or session in a project. */
export function scopesIn(
  { scopes, keyScopes = [], projectLevels }: ScopesByProject,
  projectId: number,
): readonly string[] {
  const level = projectLevels?.get(projectId)
  return level === undefined ? scopes : scopesAtLevel(keyScopes, level)
}

/**
 * Returns whether a list of scopes includes the required one. The scope `*` includes all others, and a scope such as
 * `event:write` includes `event:read`.
 */
export function hasScope(scopes: readonly string[], needed: string): boolean {
  if (scopes.includes('*') || scopes.includes(needed)) return true
  return needed.endsWith(':read') && scopes.includes(`${needed.slice(0, -5)}:write`)
}
