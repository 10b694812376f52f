/**
 * Every analytic case over real HTTP against a whole daemon whose clock stands still: events through
 * `/batch/`, splits and deletions through the API, then the question. Each case has a project of its own.
 */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { uuidV7 } from '../../src/base/ids.ts'
import type { JsonObject } from '../../src/base/json.ts'
import { createLogger } from '../../src/base/log.ts'
import { loadSettings } from '../../src/config/settings.ts'
import { type Daemon, startDaemon } from '../../src/daemon.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { untilVisible } from '../fixtures/event-pages.ts'
import { type Answer, closeConnections, jsonOf, postJson, send } from '../fixtures/exact-client.ts'
import { mismatches } from '../fixtures/matchers.ts'

interface Operation {
  readonly op: 'split' | 'delete'
  readonly distinct_id: string
  readonly main_distinct_id?: string
  readonly delete_events?: boolean
}

interface Expectation {
  readonly status: number
  readonly people?: readonly (readonly string[])[]
  readonly ordered_people?: readonly (readonly string[])[]
  readonly total?: number
  readonly count?: number
  readonly values?: Readonly<Record<string, number | null>>
  readonly groups?: readonly string[]
  readonly has_next?: boolean
  readonly has_previous?: boolean
  readonly retention?: Readonly<Record<string, readonly number[]>>
  readonly value_counts?: readonly unknown[]
  readonly error?: Readonly<Record<string, unknown>>
  readonly body_keys?: readonly string[]
  readonly points?: readonly unknown[]
  readonly crucial_property_keys?: readonly string[]
  readonly effective_date_from?: string
  readonly effective_date_to?: string
}

interface AnalyticCase {
  readonly id: string
  readonly title: string
  readonly project?: {
    readonly timezone?: string
    readonly test_account_filters?: readonly JsonObject[]
  }
  readonly events: readonly Readonly<Record<string, unknown>>[]
  readonly operations?: readonly Operation[]
  readonly request: {
    readonly method: string
    readonly route: string
    readonly person?: string
    readonly query?: Readonly<Record<string, unknown>>
    readonly body?: unknown
  }
  readonly expect: Expectation
}

interface Actor {
  readonly distinct_ids?: readonly string[]
  readonly group_key?: string
  readonly value_at_data_point?: number | null
}

/** What one of the routes may answer. */
interface Body {
  readonly results?: readonly (Actor & {
    readonly people?: readonly Actor[]
    readonly count?: number
  })[]
  readonly result?: readonly {
    readonly person: Actor
    readonly appearances: readonly number[]
  }[]
  readonly count?: number
  readonly next?: string | null
  readonly previous?: string | null
}

const { cases } = JSON.parse(
  readFileSync(new URL('../fixtures/analytics/analytics-cases.json', import.meta.url), 'utf8'),
) as { readonly cases: readonly AnalyticCase[] }
const NOW_MS = Date.parse('2023-06-01T00:00:00Z')
const READER_KEY = 'phx_reads_all_projects_of_this_test'
const projectKey = (index: number): string => `phc_analytic_${index}`

/** A project for each case, numbered from 1. */
async function createProjects(dataDir: string): Promise<void> {
  const directory = await DataDir.open(dataDir)
  const store = new ProjectStore(dataDir)
  store.bootstrap({ projectKey: 'phc_project_of_the_first_start', personalKey: READER_KEY })
  for (const [index, { project = {} }] of cases.entries()) {
    store.createProject({
      name: `case ${index}`,
      apiKey: projectKey(index),
      ...(project.timezone === undefined ? {} : { timezone: project.timezone }),
      ...(project.test_account_filters === undefined
        ? {}
        : { testAccountFilters: project.test_account_filters }),
    })
  }
  await store.close()
  directory.release()
}

async function startFrozen(t: Test, dataDir: string): Promise<Daemon> {
  const settings = loadSettings({
    flags: new Map([
      ['data-dir', dataDir],
      ['port', '0'],
    ]),
    environment: {},
    machine: { coreCount: 2, isTerminal: false },
  })
  const daemon = await startDaemon(settings, {
    clock: { now: () => NOW_MS, monotonic: () => SYSTEM_CLOCK.monotonic() },
    log: createLogger({ level: 'error', format: 'json' }),
  })
  t.teardown(async () => {
    closeConnections()
    await daemon.stop()
  })
  return daemon
}

/** One project of a daemon as its client sees it. */
class Project {
  readonly #url: string
  readonly #id: number

  constructor(daemon: Daemon, index: number) {
    this.#id = index + 2
    this.#url = `${daemon.url}/api/projects/${this.#id}`
  }

  async ask(method: string, path: string, body?: unknown): Promise<Answer> {
    const headers = { Authorization: `Bearer ${READER_KEY}`, 'Content-Type': 'application/json' }
    const content = body === undefined ? {} : { body: JSON.stringify(body) }
    return send(`${this.#url}/${path}`, { method, headers, ...content })
  }

  async personId(distinctId: string): Promise<number> {
    const query = new URLSearchParams({ distinct_id: distinctId })
    const answer = await this.ask('GET', `persons/?${query.toString()}`)
    const { results } = jsonOf(answer) as { results: readonly { id: number }[] }
    const [person] = results
    if (person === undefined) throw new Error(`nobody has the id ${distinctId}`)
    return person.id
  }

  async operate({ op, distinct_id, ...rest }: Operation): Promise<void> {
    const id = await this.personId(distinct_id)
    const answer =
      op === 'split'
        ? await this.ask('POST', `persons/${id}/split/`, rest)
        : await this.ask('DELETE', `persons/${id}/`, rest)
    if (answer.status >= 300) throw new Error(`${op} was answered ${answer.status}`)
  }
}

function queryText(query: Readonly<Record<string, unknown>>): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    parameters.set(name, typeof value === 'string' ? value : JSON.stringify(value))
  }
  return parameters.toString()
}

const idsOf = (actor: Actor): readonly string[] => [...(actor.distinct_ids ?? [])].sort()
const nameOf = (actor: Actor): string => actor.group_key ?? idsOf(actor)[0] ?? ''
const byText = (a: unknown, b: unknown): number => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)

function peopleOf(body: Body): readonly Actor[] {
  if (body.result !== undefined) return body.result.map(({ person }) => person)
  return body.results?.[0]?.people ?? []
}

/** What the answer says of the things that a case expects something of. */
function sight(expected: Expectation, status: number, body: Body): Record<string, unknown> {
  const actors = peopleOf(body)
  const direct: Readonly<Record<string, unknown>> = { ...body }
  const seen: Record<string, unknown> = {
    status,
    people: actors.map(idsOf).sort(byText),
    ordered_people: (body.results ?? []).map(idsOf),
    total: body.count,
    count: body.result?.length ?? body.results?.[0]?.count,
    values: Object.fromEntries(actors.map((actor) => [nameOf(actor), actor.value_at_data_point])),
    groups: actors.map(nameOf).sort(),
    has_next: typeof body.next === 'string',
    has_previous: typeof body.previous === 'string',
    retention: Object.fromEntries(
      (body.result ?? []).map(({ person, appearances }) => [nameOf(person), appearances]),
    ),
    value_counts: body,
    error: body,
    body_keys: expected.body_keys?.filter((key) => key in direct),
  }
  return Object.fromEntries(
    Object.keys(expected).map((key) => [key, key in seen ? seen[key] : direct[key]]),
  )
}

function sorted(expected: Expectation): Record<string, unknown> {
  const { people, groups } = expected
  return {
    ...expected,
    ...(people === undefined ? {} : { people: people.map((ids) => [...ids].sort()).sort(byText) }),
    ...(groups === undefined ? {} : { groups: [...groups].sort() }),
  }
}

async function checkCase(t: Test, daemon: Daemon, index: number): Promise<void> {
  const { request, operations = [], expect } = cases[index] ?? { request: null }
  if (request === null || expect === undefined) throw new Error('there is no such case')
  const project = new Project(daemon, index)
  for (const operation of operations) await project.operate(operation)
  const { method, route, person, query = {}, body } = request
  const id = person === undefined ? '' : String(await project.personId(person))
  const path = route.replace(':id', id)
  const answer = await project.ask(method, `${path}/?${queryText(query)}`, body)
  const seen = sight(expect, answer.status, jsonOf(answer) as Body)
  t.strictSame(mismatches(sorted(expect), seen), [], 'the answer')
  if (expect.retention !== undefined) {
    const { result = [] } = jsonOf(answer) as Body
    const active = result.map(({ appearances }) => appearances.filter((one) => one === 1).length)
    t.strictSame(
      active,
      [...active].sort((a, b) => b - a),
      'the most active first',
    )
  }
}

t.test('the analytic cases hold over HTTP', async (t) => {
  const dataDir = `${t.testdir()}/data`
  await createProjects(dataDir)
  const daemon = await startFrozen(t, dataDir)
  let last = ''
  for (const [index, { events }] of cases.entries()) {
    last = uuidV7(NOW_MS)
    const batch = events.map((event, position) =>
      position === events.length - 1 ? { ...event, uuid: last } : event,
    )
    const { status } = await postJson(`${daemon.url}/batch/`, { api_key: projectKey(index), batch })
    if (status !== 200) throw new Error(`the events of case ${index} were answered ${status}`)
  }
  const projectId = cases.length + 1
  await untilVisible({ url: daemon.url, personalKey: READER_KEY, projectId }, last)
  for (const [index, { id, title }] of cases.entries()) {
    await t.test(`${id}: ${title}`, (t) => checkCase(t, daemon, index))
  }
})
