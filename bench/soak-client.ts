/**
 * The part of the load of the bench `soak` that is no stream of events: somebody who looks at persons,
 * events and charts, and changes flags, cohorts, groups and persons, one request after the other.
 */
import { type Daemon, PERSONAL_KEY } from './daemon.ts'
import { sleep } from './harness.ts'

const PAUSE_MS = 50
const LIST = 'events/?limit=100'
const LAST_DAY = 'date_from=-1d&entity_id=%24pageview&entity_type=events'
const VIEW = { id: '$pageview', type: 'events', order: 0 }
const SERIES = encodeURIComponent(JSON.stringify([VIEW]))
const FUNNEL = encodeURIComponent(
  JSON.stringify([VIEW, { id: '$autocapture', type: 'events', order: 1 }]),
)

/** Everything that is only read, below the project. */
const READS = [
  ...['persons/?limit=100', 'persons/?search=user1', 'persons/values/?key=plan', LIST],
  ...['events/?limit=20&event=%24pageview', 'feature_flags/', 'cohorts/', 'groups_types/'],
  ...['groups/?group_type_index=0', 'actions/', 'ingestion_warnings/', 'feature_flags/activity/'],
  `persons/trends/?${LAST_DAY}`,
  `persons/stickiness/?${LAST_DAY}&interval=hour&stickiness_days=1`,
  `persons/lifecycle/?date_from=-1d&events=${SERIES}&interval=hour&lifecycle_type=new&target_date=-0d`,
  `persons/funnel/?date_from=-1d&events=${FUNNEL}&funnel_step=2`,
] as const

/** Asks until it is stopped. */
export class SoakClient {
  /** Answers by route and status. */
  readonly answers = new Map<string, number>()
  readonly #daemon: Daemon
  #isStopped = false
  #done: Promise<void> | null = null
  #turn = 0

  constructor(daemon: Daemon) {
    this.#daemon = daemon
  }

  /** Requests that were not answered 2xx, with their statuses. */
  get failures(): readonly string[] {
    return [...this.answers]
      .filter(([key]) => !key.endsWith(' 2xx'))
      .map(([key, count]) => `${count} times ${key}`)
  }

  get requests(): number {
    return [...this.answers.values()].reduce((sum, count) => sum + count, 0)
  }

  start(): void {
    this.#done = this.#run()
  }

  /** Waits for the answer to the last request. Throws when the daemon could not be reached. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#done
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      for (const path of READS) {
        if (this.#isStopped) return
        await this.#ask('GET', path)
        await sleep(PAUSE_MS)
      }
      await this.#change(this.#turn++)
    }
  }

  async #change(turn: number): Promise<void> {
    const filters = { groups: [{ properties: [], rollout_percentage: turn % 100 }] }
    const flag = await this.#ask('POST', 'feature_flags/', { key: `soak-${turn}`, filters })
    const path = `feature_flags/${String(flag['id'])}/`
    await this.#ask('GET', path)
    await this.#ask('PATCH', path, { active: turn % 2 === 0 })
    await this.#ask('PATCH', path, { deleted: true })
    const page = await this.#ask('GET', 'persons/?limit=1')
    const list: readonly unknown[] = Array.isArray(page['results']) ? page['results'] : []
    const [person] = list
    if (typeof person !== 'object' || person === null || !('uuid' in person)) return
    const change = { key: 'soak', value: turn }
    await this.#ask('GET', `persons/${String(person.uuid)}/`)
    await this.#ask('POST', `persons/${String(person.uuid)}/update_property/`, change)
  }

  async #ask(
    method: 'GET' | 'POST' | 'PATCH',
    path: string,
    body?: object,
  ): Promise<Record<string, unknown>> {
    const response = await fetch(`${this.#daemon.url}/api/projects/1/${path}`, {
      method,
      headers: { authorization: `Bearer ${PERSONAL_KEY}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const route = `${method} ${path.replace(/\?.*/, '').replaceAll(/\/[0-9a-f-]+\//g, '/:id/')}`
    const outcome = response.ok ? '2xx' : `${response.status} ${text.slice(0, 200)}`
    const key = `${route} ${outcome}`
    this.answers.set(key, (this.answers.get(key) ?? 0) + 1)
    // Read by key, with a test of what is found.
    return response.ok && text !== '' ? (JSON.parse(text) as Record<string, unknown>) : {}
  }
}
