/**
 * The part of the load of the bench `soak` that does not send streams of events. One client calls every route of the
 * API, changes flags, persons, groups, cohorts, actions, roles and keys, and erases events. It sends one request after
 * the other.
 */
import { type Daemon, PERSONAL_KEY, PROJECT_KEY } from '../daemon.ts'
import { sleep } from '../harness.ts'
import { addressOf, routesNotAsked, SOAK_READS, type SoakRead } from './soak-routes.ts'

const PAUSE_MS = 50
const JSON_TYPE = 'application/json'
/** The first day of charts is this long ago, in milliseconds. */
const ASKED_MS = 300_000
/**
 * Events are erased once in this many rounds. An erasure rewrites the segments that contain its events, so it costs
 * more than other requests.
 */
const TURNS_PER_ERASURE = 20
/** Scheduled changes are due after this time. No soak takes a week, so none of them is made. */
const SCHEDULED_MS = 7 * 86_400_000
const PROJECT = '/api/projects/1'
const ORGANIZATION = '/api/organizations/@current'
const GROUP = 'soak'
/**
 * The distinct_id of the person that the client changes. No other part of the load uses this person, so that no merge
 * removes it.
 */
const WHO = 'soak-client'
/** A flag that is on for all persons and has a payload. */
const REMOTE_FLAG = {
  key: 'soak-remote',
  is_remote_configuration: true,
  filters: {
    groups: [{ properties: [], rollout_percentage: 100 }],
    payloads: { true: '{"is":"remote"}' },
  },
}
const ACTION = { name: 'soak', steps: [{ event: '$pageview' }] }
const INSIGHT = {
  name: 'soak',
  query: { kind: 'TrendsQuery', series: [{ kind: 'EventsNode', event: '$pageview' }] },
}
const ANNOTATION = { content: 'soak', date_marker: '2026-01-01T00:00:00Z' }
const EXPERIMENT = { name: 'soak', feature_flag_key: 'soak-experiment' }
const SAVED_METRIC = {
  name: 'soak',
  query: { metric_type: 'mean', source: { kind: 'EventsNode', event: '$pageview' } },
}
const HOLDOUT = { name: 'soak', filters: [{ properties: [], rollout_percentage: 1 }] }
const PLAN = { key: 'plan', value: 'pro', type: 'person' }
const TREE = { type: 'AND', values: [{ type: 'AND', values: [PLAN] }] }
const COHORT = { name: 'soak', is_static: false, filters: { properties: TREE } }

/** Sends requests until it is stopped. */
export class SoakClient {
  /** For each route and status, the number of answers. */
  readonly answers = new Map<string, number>()
  readonly #daemon: Daemon
  readonly #names = new Map<string, string>([['group', GROUP]])
  #isStopped = false
  #done: Promise<void> | null = null
  #turn = 0

  constructor(daemon: Daemon) {
    this.#daemon = daemon
  }

  /** The requests whose status was not 2xx, with their statuses. */
  get failures(): readonly string[] {
    return [...this.answers]
      .filter(([key]) => !key.endsWith(' 2xx'))
      .map(([key, count]) => `${count} times ${key}`)
  }

  get requests(): number {
    return [...this.answers.values()].reduce((sum, count) => sum + count, 0)
  }

  /**
   * Creates the objects that the requests need. Returns the number of events that were sent for this. Throws if the
   * daemon has a GET route that no request covers.
   */
  async prepare(): Promise<number> {
    const missing = routesNotAsked(await this.#ask('GET', '/api/schema/'))
    if (missing.length > 0) throw new Error(`the soak does not ask ${missing.join(', ')}`)
    const properties = { $group_type: 'company', $group_key: GROUP, $group_set: { size: 1 } }
    const group = { event: '$groupidentify', distinct_id: WHO, properties }
    const view = { event: '$pageview', distinct_id: WHO, properties: {} }
    await this.#ask('POST', '/batch/', { api_key: PROJECT_KEY, batch: [group, view] })
    await this.#daemon.drain()
    const made = async (name: string, path: string, body: object): Promise<void> => {
      this.#names.set(name, String((await this.#ask('POST', path, body))['id']))
    }
    await made('action', `${PROJECT}/actions/`, ACTION)
    await made('cohort', `${PROJECT}/cohorts/`, COHORT)
    await made('flag', `${PROJECT}/feature_flags/`, REMOTE_FLAG)
    await made('insight', `${PROJECT}/insights/`, INSIGHT)
    await made('dashboard', `${PROJECT}/dashboards/`, { name: 'soak' })
    await made('annotation', `${PROJECT}/annotations/`, ANNOTATION)
    await made('experiment', `${PROJECT}/experiments/`, EXPERIMENT)
    await made('savedMetric', `${PROJECT}/experiment_saved_metrics/`, SAVED_METRIC)
    await made('holdout', `${PROJECT}/experiment_holdouts/`, HOLDOUT)
    const sharing = this.#path('dashboards/{dashboard}/sharing/')
    const shared = await this.#ask('PATCH', sharing, { enabled: true })
    this.#names.set('share', String(shared['access_token']))
    await made('role', `${ORGANIZATION}/roles/`, { name: 'soak' })
    const access = { resource: 'feature flags', access_level: 21 }
    await made('resourceAccess', `${ORGANIZATION}/resource_access/`, access)
    const email = 'soak@example.com'
    const { user } = await this.#ask('POST', `${ORGANIZATION}/members/`, { email })
    const { uuid } = user as { readonly uuid: string }
    const member = { user_uuid: uuid, level: 1 }
    await made('projectMember', `${PROJECT}/explicit_members/`, member)
    const key = { label: 'soak', scopes: ['feature_flag:read'] }
    await made('key', '/api/personal_api_keys/', key)
    const role = { role_id: this.#names.get('role') }
    await made('roleAccess', this.#path('feature_flags/{flag}/role_access/'), role)
    const scheduled = {
      record_id: this.#names.get('flag'),
      model_name: 'FeatureFlag',
      payload: { operation: 'update_status', value: true },
      scheduled_at: new Date(Date.now() + SCHEDULED_MS).toISOString(),
    }
    await made('scheduled', `${PROJECT}/scheduled_changes/`, scheduled)
    await made('erasure', `${PROJECT}/erasures/`, { distinct_id: 'soak-nobody' })
    this.#names.set('user', String((await this.#ask('GET', '/api/users/@me/'))['uuid']))
    const person = first(await this.#ask('GET', `${PROJECT}/persons/?distinct_id=${WHO}`))
    const event = first(await this.#ask('GET', `${PROJECT}/events/?limit=1&distinct_id=${WHO}`))
    const definition = first(await this.#ask('GET', `${PROJECT}/event_definitions/`))
    this.#names.set('eventDefinition', String(definition['id']))
    this.#names.set('person', String(person['uuid']))
    this.#names.set('event', String(event['uuid']))
    return 2
  }

  start(): void {
    this.#done = this.#run()
    // The caller that stops the client receives the error. Until then, the load reports the problem.
    this.#done.catch(() => {})
  }

  /** Waits for the answer to the last request. Throws if the daemon could not be reached. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#done
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#names.set('since', new Date(Date.now() - ASKED_MS).toISOString())
      for (const read of SOAK_READS) {
        if (this.#isStopped) return
        await this.#read(read)
        await sleep(PAUSE_MS)
      }
      const turn = this.#turn++
      await this.#changeFlags(turn)
      await this.#changePersons(turn)
      await this.#changeOrganization(turn)
    }
  }

  async #read(read: SoakRead): Promise<void> {
    const path = addressOf(read, this.#names)
    const key = read.isWithProjectKey === true ? PROJECT_KEY : PERSONAL_KEY
    if (read.isEndless !== true) {
      await this.#ask('GET', path, undefined, key)
      return
    }
    const response = await this.#fetch('GET', path, undefined, key)
    this.#count('GET', path, response, '')
    await response.body?.cancel()
  }

  async #changeFlags(turn: number): Promise<void> {
    const filters = { groups: [{ properties: [], rollout_percentage: turn % 100 }] }
    const flag = await this.#ask('POST', this.#path('feature_flags/'), {
      key: `soak-${turn}`,
      filters,
    })
    const path = this.#path(`feature_flags/${String(flag['id'])}/`)
    await this.#ask('PATCH', path, { active: turn % 2 === 0 })
    await this.#ask('PATCH', path, { deleted: true })
    const [condition] = filters.groups
    await this.#ask('POST', this.#path('feature_flags/user_blast_radius/'), { condition })
  }

  async #changePersons(turn: number): Promise<void> {
    const change = { key: 'soak', value: turn }
    await this.#ask('POST', this.#path('persons/{person}/update_property/'), change)
    await this.#ask('POST', this.#path('persons/{person}/delete_property/'), { $unset: 'soak' })
    const group = `groups/update_property/?group_type_index=0&group_key=${GROUP}`
    await this.#ask('POST', this.#path(group), change)
    await this.#ask('PATCH', this.#path('cohorts/{cohort}/'), { name: `soak ${turn}` })
    await this.#ask('PATCH', this.#path('actions/{action}/'), { name: `soak ${turn}` })
    if (turn % TURNS_PER_ERASURE !== 0) return
    const erased = await this.#ask('POST', this.#path('erasures/'), { distinct_id: `user${turn}` })
    this.#names.set('erasure', String(erased['id']))
  }

  /** Creates and removes a role and keys. */
  async #changeOrganization(turn: number): Promise<void> {
    const rounds: readonly (readonly [string, object])[] = [
      [`${ORGANIZATION}/roles/`, { name: `soak ${turn}` }],
      ['/api/personal_api_keys/', { label: `soak ${turn}`, scopes: ['feature_flag:read'] }],
      [this.#path('secret_keys/'), { label: `soak ${turn}` }],
    ]
    for (const [path, body] of rounds) {
      const made = await this.#ask('POST', path, body)
      await this.#ask('DELETE', `${path}${String(made['id'])}/`)
    }
  }

  /** Returns the path of a route of the project. */
  #path(path: string): string {
    return addressOf({ path: `${PROJECT}/${path}` }, this.#names)
  }

  async #ask(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: object,
    key = PERSONAL_KEY,
  ): Promise<Record<string, unknown>> {
    const response = await this.#fetch(method, path, body, key)
    const text = await response.text()
    this.#count(method, path, response, text)
    // Members are read by name, and each value is checked.
    const isJson = response.headers.get('content-type')?.startsWith(JSON_TYPE) === true
    if (!response.ok || !isJson || !text.startsWith('{')) return {}
    return JSON.parse(text) as Record<string, unknown>
  }

  #fetch(method: string, path: string, body: object | undefined, key: string): Promise<Response> {
    return fetch(`${this.#daemon.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }

  #count(method: string, path: string, { ok, status }: Response, text: string): void {
    const route = `${method} ${path.replace(/\?.*/, '').replaceAll(/\/[0-9a-f-]+\//g, '/:id/')}`
    const outcome = ok ? '2xx' : `${status} ${text.slice(0, 200)}`
    const counted = `${route} ${outcome}`
    this.answers.set(counted, (this.answers.get(counted) ?? 0) + 1)
  }
}

/** Returns the first entry of a page, or an empty object if there is none. */
function first(page: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const list: readonly unknown[] = Array.isArray(page['results']) ? page['results'] : []
  const [entry] = list
  // Members are read by name, and each value is checked.
  return typeof entry === 'object' && entry !== null ? (entry as Record<string, unknown>) : {}
}
