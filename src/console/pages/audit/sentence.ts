/** Turns entries of the audit log into sentences. */

/** The members of an entry from which its sentence is made. */
export interface AuditedChange {
  readonly method: string | null
  /** The path pattern of the route, or the command that was run. */
  readonly route: string
  readonly object_id: string | null
  readonly status: number | null
}

/** The names of objects in sentences, by the segment of the route. */
const THINGS: Readonly<Record<string, string>> = {
  actions: 'the action',
  annotations: 'the annotation',
  cohorts: 'the cohort',
  dashboards: 'the dashboard',
  event_definitions: 'the event definition',
  experiment_holdouts: 'the holdout',
  experiments: 'the experiment',
  feature_flags: 'the flag',
  insights: 'the insight',
  invites: 'the invitation',
  members: 'the member',
  personal_api_keys: 'the personal key',
  persons: 'the person',
  projects: 'the project',
  property_definitions: 'the property definition',
  resource_access: 'the default access to flags',
  role_access: 'the role access of the flag',
  role_memberships: 'the role member',
  roles: 'the role',
  scheduled_changes: 'the scheduled change',
  secret_keys: 'the secret key',
  sessions: 'the session',
  groups_types: 'the group type',
}

/**
 * The sentences for routes that do something else than create, change or delete an object. `*` stands for the ID of the
 * object.
 */
const SENTENCES: Readonly<Record<string, string>> = {
  'POST console/session/': 'logged in to the console',
  'DELETE console/session/': 'logged out of the console',
  'POST console/oidc/finish/': 'logged in to the console with single sign-on',
  'POST console/oidc/link/':
    'logged in with a new account of the identity provider, which was linked to the user *',
  'POST explicit_members/': 'gave a user a role in the project: *',
  'PATCH explicit_members/:user_uuid/': 'changed the role in the project of the user *',
  'DELETE explicit_members/:user_uuid/': 'removed the role in the project of the user *',
  'DELETE organization/identities/:user_uuid/':
    'unlinked the account of the identity provider from the user *',
  'PUT console/password/': 'changed their own password',
  'POST console/invites/accept/': 'accepted an invitation',
  'DELETE personal_api_keys/:id/': 'revoked the personal key *',
  'DELETE secret_keys/:id/': 'revoked the secret key *',
  'POST personal_api_keys/:id/roll/': 'replaced the personal key *',
  'POST secret_keys/:id/roll/': 'replaced the secret key *',
  'POST persons/:id/merge/': 'merged other persons into the person *',
  'POST persons/:id/split/': 'split the person *',
  'POST persons/:id/update_property/': 'set a property of the person *',
  'POST persons/:id/delete_property/': 'removed a property of the person *',
  'POST persons/bulk_delete/': 'deleted several persons',
  'POST cohorts/:cohort_id/calculate/': 'counted the members of the cohort * again',
  'POST groups/update_property/': 'set a property of a group',
  'PATCH groups_types/update_metadata/': 'renamed group types',
  'POST erasures/': 'erased events',
  'PUT retention/': 'changed the data retention',
  'POST retention/run/': 'deleted events that are older than the retention',
  'POST organization/dead_letters/replay/': 'processed failed events again',
  'POST organization/dead_letters/drop/': 'discarded failed events',
  'PATCH dashboards/:id/sharing/': 'changed the sharing of the dashboard *',
  'POST dashboards/:id/sharing/refresh/': 'replaced the shared link of the dashboard *',
  'POST dashboards/:id/sharing/passwords/':
    'added a password to the shared link of the dashboard *',
  'DELETE dashboards/:id/sharing/passwords/:password_id/':
    'removed a password from the shared link of the dashboard *',
  'POST insights/:id/sharing/passwords/': 'added a password to the shared link of the insight *',
  'DELETE insights/:id/sharing/passwords/:password_id/':
    'removed a password from the shared link of the insight *',
  'PATCH insights/:id/sharing/': 'changed the sharing of the insight *',
  'POST insights/:id/sharing/refresh/': 'replaced the shared link of the insight *',
  'POST experiments/:id/launch/': 'launched the experiment *',
  'POST experiments/:id/pause/': 'paused the experiment *',
  'POST experiments/:id/resume/': 'resumed the experiment *',
  'POST experiments/:id/end/': 'ended the experiment *',
  'POST experiments/:id/ship_variant/': 'served one variant of the experiment * to everybody',
  'POST experiments/:id/reset/': 'reset the experiment *',
  'POST experiments/:id/archive/': 'archived the experiment *',
  'POST experiments/:id/unarchive/': 'restored the archived experiment *',
  'POST experiments/:id/duplicate/': 'copied the experiment *',
  'POST feature_flags/:id/dashboard/': 'created the usage dashboard of the flag *',
}

/** For the verbs with which sentences begin, the infinitives. */
const INFINITIVES: Readonly<Record<string, string>> = {
  accepted: 'accept',
  changed: 'change',
  counted: 'count',
  created: 'create',
  deleted: 'delete',
  discarded: 'discard',
  erased: 'erase',
  logged: 'log',
  merged: 'merge',
  processed: 'process',
  removed: 'remove',
  renamed: 'rename',
  replaced: 'replace',
  revoked: 'revoke',
  set: 'set',
  split: 'split',
}

const VERBS: Readonly<Record<string, string>> = {
  POST: 'created',
  PUT: 'changed',
  PATCH: 'changed',
  DELETE: 'deleted',
}

/**
 * Returns a sentence about a change, without its author: `created the flag 12`, `logged in to the console`. If the
 * change was refused, the sentence is `tried to change the flag 12, but was refused`. A command, and a route that this
 * file does not know, are shown unchanged.
 */
export function sentenceOfChange({ method, route, object_id: id, status }: AuditedChange): string {
  const [, move] = /^scheduled change \d+: (.*)$/.exec(route) ?? []
  if (method === null && move !== undefined) return `schedule of the flag ${id ?? ''}: ${move}`
  if (method === null) return `ran the command ${route}${id === null ? '' : ` ${id}`}`
  const done =
    knownSentence(method, shortRoute(route), id) ??
    `${method} ${shortRoute(route)} ${id ?? ''}`.trim()
  return status !== null && status >= 400 ? attempt(done, status) : done
}

/** Returns the sentence for a change that was not made. */
function attempt(done: string, status: number): string {
  const [verb = '', ...rest] = done.split(' ')
  const infinitive = INFINITIVES[verb]
  const tried =
    infinitive === undefined ? `tried ${done}` : `tried to ${[infinitive, ...rest].join(' ')}`
  return `${tried}, but ${status < 500 ? 'was refused' : 'the request failed'}`
}

function knownSentence(method: string, route: string, id: string | null): string | null {
  const sentence = SENTENCES[`${method} ${route}`] ?? SENTENCES[`${method} organization/${route}`]
  if (sentence !== undefined) return sentence.replace(' *', id === null ? '' : ` ${id}`)
  const segments = route.split('/').filter((one) => one !== '' && !one.startsWith(':'))
  const thing = route === '' ? 'the settings of the project' : THINGS[segments.at(-1) ?? '']
  const verb = VERBS[method]
  if (thing === undefined || verb === undefined) return null
  return `${verb} ${thing}${id === null ? '' : ` ${id}`}`
}

/** Returns a route without its prefix. The prefix contains the project, which has a column of its own. */
function shortRoute(route: string): string {
  return route.replace(/^\/api\/(?:(?:projects|environments|organizations)\/:\w+\/)?/, '')
}
