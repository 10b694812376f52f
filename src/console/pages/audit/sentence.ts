/** Turns entries of the audit log into sentences. */

/** The members of an entry from which its sentence is made. */
export interface AuditedChange {
  readonly method: string | null
  /** The path pattern of the route, or the command that was run. */
  readonly route: string
  readonly object_id: string | null
  readonly status: number | null
}

/** How sentences name an object, by the segment of the route: `the cohort` for `cohorts`. */
const THINGS: Readonly<Record<string, string>> = {
  actions: 'the action',
  annotations: 'the annotation',
  cohorts: 'the cohort',
  dashboards: 'the dashboard',
  event_definitions: 'the event definition',
  experiment_holdouts: 'the holdout',
  experiment_saved_metrics: 'the saved metric',
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
 * The sentences for routes that do something else than create, change or delete an object. They begin with an
 * infinitive, and `*` stands for the ID of the object.
 */
const SENTENCES: Readonly<Record<string, string>> = {
  ...sentencesOf(['launch', 'pause', 'resume', 'end', 'reset', 'archive'], (step) => [
    [`POST experiments/:id/${step}/`, `${step} the experiment *`],
  ]),
  ...sentencesOf(['dashboard', 'insight'], (noun) => [
    [`PATCH ${noun}s/:id/sharing/`, `change the sharing of the ${noun} *`],
    [`POST ${noun}s/:id/sharing/refresh/`, `replace the shared link of the ${noun} *`],
    [`POST ${noun}s/:id/sharing/passwords/`, `add a password to the shared link of the ${noun} *`],
    [
      `DELETE ${noun}s/:id/sharing/passwords/:password_id/`,
      `remove a password from the shared link of the ${noun} *`,
    ],
  ]),
  'POST console/session/': 'log in to the console',
  'DELETE console/session/': 'log out of the console',
  'POST console/oidc/finish/': 'log in to the console with single sign-on',
  'POST console/oidc/link/':
    'log in with a new account of the identity provider, which was linked to the user *',
  'POST explicit_members/': 'give a user a role in the project: *',
  'PATCH explicit_members/:user_uuid/': 'change the role in the project of the user *',
  'DELETE explicit_members/:user_uuid/': 'remove the role in the project of the user *',
  'DELETE organization/identities/:user_uuid/':
    'unlink the account of the identity provider from the user *',
  'PUT console/password/': 'change their own password',
  'POST console/invites/accept/': 'accept an invitation',
  'DELETE personal_api_keys/:id/': 'revoke the personal key *',
  'DELETE secret_keys/:id/': 'revoke the secret key *',
  'POST personal_api_keys/:id/roll/': 'replace the personal key *',
  'POST secret_keys/:id/roll/': 'replace the secret key *',
  'POST persons/:id/merge/': 'merge other persons into the person *',
  'POST persons/:id/split/': 'split the person *',
  'POST persons/:id/update_property/': 'set a property of the person *',
  'POST persons/:id/delete_property/': 'remove a property of the person *',
  'POST persons/bulk_delete/': 'delete several persons',
  'POST cohorts/:cohort_id/calculate/': 'count the members of the cohort * again',
  'POST groups/update_property/': 'set a property of a group',
  'PATCH groups_types/update_metadata/': 'rename group types',
  'POST erasures/': 'erase events',
  'PUT retention/': 'change the data retention',
  'POST retention/run/': 'delete events that are older than the retention',
  'POST organization/dead_letters/replay/': 'process failed events again',
  'POST organization/dead_letters/drop/': 'discard failed events',
  'POST experiments/:id/ship_variant/': 'serve one variant of the experiment * to everybody',
  'POST experiments/:id/unarchive/': 'restore the archived experiment *',
  'POST experiments/:id/create_exposure_cohort_for_experiment/':
    'save the persons of the experiment * as a cohort',
  'POST experiments/:id/duplicate/': 'copy the experiment *',
  'POST feature_flags/:id/dashboard/': 'create the usage dashboard of the flag *',
}

/** The past forms of verbs that do not simply get `ed` or `d`. */
const PAST: Readonly<Record<string, string>> = {
  copy: 'copied',
  give: 'gave',
  log: 'logged',
  reset: 'reset',
  set: 'set',
  split: 'split',
}

const VERBS: Readonly<Record<string, string>> = {
  POST: 'create',
  PUT: 'change',
  PATCH: 'change',
  DELETE: 'delete',
}

type Sentences = readonly (readonly [route: string, sentence: string])[]

/** Returns sentences that differ in a word. */
function sentencesOf(words: readonly string[], of: (word: string) => Sentences) {
  return Object.fromEntries(words.flatMap(of))
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
  const known = knownSentence(method, shortRoute(route), id)
  const words = known ?? `${method} ${shortRoute(route)} ${id ?? ''}`.trim()
  if (status === null || status < 400) return known === null ? words : inPast(words)
  const tried = known === null ? `tried ${words}` : `tried to ${words}`
  return `${tried}, but ${status < 500 ? 'was refused' : 'the request failed'}`
}

/**
 * Puts a sentence that begins with an infinitive into the past tense: `archive the experiment` becomes `archived the
 * experiment`.
 */
function inPast(sentence: string): string {
  return sentence.replace(/^\w+/, (verb) => PAST[verb] ?? verb.replace(/e?$/, 'ed'))
}

/** Returns a sentence that begins with an infinitive, or null for a route that this file does not know. */
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
