/**
 * Every ingestion case over real HTTP, against a whole daemon whose clock stands still: status, headers
 * and body of each answer, the stored events as the private API shows them, and persons and groups as
 * the store has them.
 *
 * A case expects an empty store. Starting a daemon for each would take minutes, so each case gets
 * projects of its own: the keys in its text are replaced by others of the same length. Where that is
 * impossible (the key is inside compressed bytes, or the case names a project by its number) the case
 * runs in the projects that the file describes, and its events are those between two boundaries.
 */
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { uuidV7 } from '../../src/base/ids.ts'
import { createLogger } from '../../src/base/log.ts'
import { loadSettings } from '../../src/config/settings.ts'
import { type Daemon, startDaemon } from '../../src/daemon.ts'
import { personUuid } from '../../src/rules/persons/person-uuid.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { EventReader } from '../../src/store/warehouse/read/event-reader.ts'
import { readEvents, type StoredEvent, untilVisible } from '../fixtures/event-pages.ts'
import { type Answer, closeConnections, postJson, send } from '../fixtures/exact-client.ts'
import { mismatches } from '../fixtures/matchers.ts'

interface CaseRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly body_base64?: string
  readonly body_gen?: {
    readonly prefix: string
    readonly unit: string
    readonly count?: number
    readonly total?: number
    readonly suffix: string
    readonly encode?: string
  }
}

interface Step {
  readonly request: CaseRequest
  readonly response: {
    readonly status: number
    readonly body?: unknown
    readonly headers?: Readonly<Record<string, unknown>>
  }
}

interface IngestionCase {
  readonly id: string
  readonly title: string
  readonly steps: readonly Step[]
  readonly final: {
    readonly ingested: number
    readonly events?: readonly Readonly<Record<string, unknown>>[]
    readonly persons?: readonly unknown[]
    readonly groups?: readonly unknown[]
    readonly group_types?: Readonly<Record<string, readonly string[]>>
  }
}

interface CaseFile {
  readonly env: {
    readonly now: string
    readonly projects: readonly {
      readonly id: number
      readonly api_key: string
      readonly anonymize_ips?: boolean
    }[]
    readonly personal_keys: readonly { readonly key: string; readonly projects: number[] }[]
  }
  readonly cases: readonly IngestionCase[]
}

/** The projects in which one case runs: the number in the file -> key and number in the store. */
type World = ReadonlyMap<number, { readonly key: string; readonly id: number }>

/** What one case has led to. */
interface Outcome {
  readonly world: World
  readonly answers: readonly Answer[]
  readonly stepErrors: readonly unknown[]
  /** Numbers of the events before the case, by project of the store. */
  readonly boundaries: ReadonlyMap<number, string>
}

const file = JSON.parse(
  readFileSync(new URL('../fixtures/ingestion-cases.json', import.meta.url), 'utf8'),
) as CaseFile
const nowMs = Date.parse(file.env.now)
const PROJECT_KEYS = file.env.projects.map((project) => project.api_key)
const READER_KEY = 'phx_reads_all_projects_of_this_test'
const BOUNDARY = 'boundary between cases'
const FAR_FUTURE_MS = 8.64e15 / 2

/** The key of a case's own project: as long as the original, so that sizes stay. */
function ownKey(original: string, index: number): string {
  return original.replace('project', String(index).padStart('project'.length, '0'))
}

/** Whether the keys in the text of every request can be replaced. */
function canHaveOwnProjects(ingestionCase: IngestionCase): boolean {
  return ingestionCase.steps.every(({ request }) => {
    const texts = [request.path, request.body ?? '', request.body_gen?.prefix ?? '']
    const text = texts.join('\n')
    return PROJECT_KEYS.some((key) => text.includes(key)) && !/"project_id"|phx_/.test(text)
  })
}

function inOwnProjects(ingestionCase: IngestionCase, index: number): IngestionCase {
  let text = JSON.stringify(ingestionCase)
  for (const key of PROJECT_KEYS) text = text.replaceAll(key, ownKey(key, index))
  return JSON.parse(text) as IngestionCase
}

/** Creates the projects of the file (1, 2, 3), then those of the cases; answers the world of each case. */
async function createWorlds(dataDir: string): Promise<readonly World[]> {
  const { env, cases } = file
  const directory = await DataDir.open(dataDir)
  const store = new ProjectStore(dataDir)
  const shared = new Map<number, { key: string; id: number }>()
  store.bootstrap({ projectKey: env.projects[0]?.api_key ?? '', personalKey: READER_KEY })
  for (const { id, api_key: key, anonymize_ips } of env.projects) {
    if (id > 1)
      store.createProject({ name: key, apiKey: key, isIpAnonymized: anonymize_ips === true })
    shared.set(id, { key, id })
  }
  for (const { key, projects } of env.personal_keys) {
    store.keys.create({ text: key, projectIds: projects })
  }
  const worlds = cases.map((ingestionCase, index) => {
    if (!canHaveOwnProjects(ingestionCase)) return shared
    const world = new Map<number, { key: string; id: number }>()
    const text = JSON.stringify(ingestionCase)
    for (const { id, api_key: original, anonymize_ips } of env.projects) {
      if (!text.includes(original)) continue
      const key = ownKey(original, index)
      const isIpAnonymized = anonymize_ips === true
      world.set(id, { key, id: store.createProject({ name: key, apiKey: key, isIpAnonymized }).id })
    }
    return world
  })
  await store.close()
  directory.release()
  return worlds
}

async function startFrozen(dataDir: string): Promise<Daemon> {
  const settings = loadSettings({
    flags: new Map([
      ['data-dir', dataDir],
      ['port', '0'],
    ]),
    environment: {},
    machine: { coreCount: 2, isTerminal: false },
  })
  return startDaemon(settings, {
    clock: { now: () => nowMs, monotonic: () => SYSTEM_CLOCK.monotonic() },
    log: createLogger({ level: 'error', format: 'json' }),
  })
}

function bodyOf(request: CaseRequest): Buffer | undefined {
  if (request.body_base64 !== undefined) return Buffer.from(request.body_base64, 'base64')
  if (request.body !== undefined) return Buffer.from(request.body)
  if (request.body_gen === undefined) return undefined
  const { prefix, unit, count, total, suffix, encode } = request.body_gen
  const frameBytes = Buffer.byteLength(prefix) + Buffer.byteLength(suffix)
  const repeats = count ?? ((total ?? 0) - frameBytes) / Buffer.byteLength(unit)
  const body = Buffer.from(prefix + unit.repeat(repeats) + suffix)
  return encode === 'gzip' ? gzipSync(body) : body
}

async function run(url: string, ingestionCase: IngestionCase, world: World): Promise<Outcome> {
  const boundaries = new Map<number, string>()
  for (const { key, id } of world.values()) {
    const uuid = uuidV7(Date.now())
    await postJson(`${url}/capture/`, {
      api_key: key,
      event: BOUNDARY,
      distinct_id: BOUNDARY,
      uuid,
    })
    boundaries.set(id, uuid)
  }
  const answers: Answer[] = []
  const stepErrors: unknown[] = []
  for (const { request } of ingestionCase.steps) {
    const { method, headers } = request
    const body = bodyOf(request)
    try {
      const options = body === undefined ? { method, headers } : { method, headers, body }
      answers.push(await send(`${url}${request.path}`, options))
    } catch (error) {
      stepErrors.push(error)
    }
  }
  return { world, answers, stepErrors, boundaries }
}

/** The events that arrived in a case, oldest first, with the project's number in the file. */
function eventsOf(
  outcome: Outcome,
  stored: ReadonlyMap<number, readonly StoredEvent[]>,
): readonly unknown[] {
  return [...outcome.world].flatMap(([project_id, { id }]) => {
    const events = stored.get(id) ?? []
    const start = events.findIndex(({ uuid }) => uuid === outcome.boundaries.get(id))
    if (start === -1) throw new Error(`a boundary in project ${id} was not stored`)
    const end = events.findIndex(({ event }, index) => index > start && event === BOUNDARY)
    const own = events.slice(start + 1, end === -1 ? undefined : end)
    return own.map((event) => ({ ...event, project_id }))
  })
}

function answerMismatches(expected: Step['response'], answer: Answer): readonly string[] {
  const text = answer.body.toString('utf8')
  let body: unknown = text
  try {
    body = text === '' ? null : JSON.parse(text)
  } catch {
    // Shown as the text that it is.
  }
  const found = mismatches(expected, { status: answer.status, headers: answer.headers, body })
  const type = answer.headers['content-type'] ?? ''
  if (text !== '' && !/^application\/json\b/.test(type)) found.push(`the body has the type ${type}`)
  return found
}

/** What is expected in project 1, for the project that took its place. */
function inProject(expected: unknown, projectId: number): unknown {
  if (Array.isArray(expected)) return expected.map((element) => inProject(element, projectId))
  if (typeof expected !== 'object' || expected === null) return expected
  if ('~uuidv5Of' in expected) return personUuid(projectId, String(expected['~uuidv5Of']))
  const entries = Object.entries(expected)
  return Object.fromEntries(entries.map(([key, value]) => [key, inProject(value, projectId)]))
}

/** Persons in order of creation, with the project's number in the file. */
function personsOf(reader: EventReader, world: World): readonly unknown[] {
  return [...world].flatMap(([project_id, { id: projectId }]) => {
    const query = { projectId, limit: 10_000, offset: 0, nowMs: FAR_FUTURE_MS }
    const { results } = reader.persons().list(query)
    return results
      .filter(({ distinct_ids: ids }) => !ids.includes(BOUNDARY))
      .sort((a, b) => a.id - b.id)
      .map((person) => ({
        ...person,
        project_id,
        created_at: new Date(person.created_at).toISOString(),
      }))
  })
}

function groupsOf(reader: EventReader, world: World): readonly unknown[] {
  return [...world].flatMap(([project_id, { id }]) =>
    [0, 1, 2, 3, 4].flatMap((typeIndex) =>
      reader
        .persons()
        .groups(id, typeIndex, null, 10_000, null)
        .results.map((group) => ({
          ...group,
          project_id,
          created_at: new Date(group.created_at).toISOString(),
        })),
    ),
  )
}

function groupTypesOf(reader: EventReader, world: World): unknown {
  return Object.fromEntries(
    [...world].map(([projectId, { id }]) => [
      projectId,
      reader
        .persons()
        .groupTypes(id)
        .map((type) => type.group_type),
    ]),
  )
}

t.test('the ingestion cases hold over HTTP', async (t) => {
  const dataDir = `${t.testdir()}/data`
  const worlds = await createWorlds(dataDir)
  const daemon = await startFrozen(dataDir)
  t.teardown(async () => {
    closeConnections()
    await daemon.stop()
  })
  const { url } = daemon
  const cases = file.cases.map((ingestionCase, index) =>
    canHaveOwnProjects(ingestionCase) ? inOwnProjects(ingestionCase, index) : ingestionCase,
  )
  const outcomes: Outcome[] = []
  for (const [index, ingestionCase] of cases.entries()) {
    outcomes.push(await run(url, ingestionCase, worlds[index] ?? new Map()))
  }

  const last = uuidV7(Date.now())
  const reader = { url, personalKey: READER_KEY }
  const end = { api_key: PROJECT_KEYS[0], event: BOUNDARY, distinct_id: BOUNDARY, uuid: last }
  await postJson(`${url}/capture/`, end)
  await untilVisible(reader, last)
  const stored = new Map<number, readonly StoredEvent[]>()
  const projectIds = new Set(worlds.flatMap((world) => [...world.values()].map(({ id }) => id)))
  for (const projectId of projectIds) {
    stored.set(projectId, await readEvents({ ...reader, projectId }))
  }

  const store = new EventReader({ dataDir })
  t.teardown(() => store.close())
  for (const [index, ingestionCase] of cases.entries()) {
    const outcome = outcomes[index]
    if (outcome === undefined) throw new Error('a case was not run')
    const { final, steps } = ingestionCase
    await t.test(`${ingestionCase.id}: ${ingestionCase.title}`, async (t) => {
      t.strictSame(outcome.stepErrors, [], 'every request is answered')
      for (const [step, { response }] of steps.entries()) {
        const answer = outcome.answers[step]
        if (answer !== undefined) t.strictSame(answerMismatches(response, answer), [], 'answer')
      }
      const events = eventsOf(outcome, stored)
      t.equal(events.length, final.ingested, 'stored events')
      const { world } = outcome
      const projectId = world.get(1)?.id ?? 1
      const expect = (expected: unknown, actual: unknown, name: string): void => {
        if (expected === undefined) return
        t.strictSame(mismatches(inProject(expected, projectId), actual), [], name)
      }
      expect(final.events, events, 'events')
      expect(final.persons, personsOf(store, world), 'persons')
      expect(final.groups, groupsOf(store, world), 'groups')
      expect(final.group_types, groupTypesOf(store, world), 'group types')
    })
  }
})
