/**
 * Tests kill -9 during and right after the write transactions of merging segments, of merging and splitting persons,
 * and of erasure jobs. In the end the store equals that of another daemon that received the same events and was not
 * killed, and `verify` finds no fault. For flags and backups see crash-flags.test.ts and backup-faults.test.ts.
 *
 * @lane quick alone
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { readEvents, untilVisible } from '../fixtures/event-pages.ts'
import { type Answer, closeConnections, jsonOf, postJson, send } from '../fixtures/exact-client.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'
import { atFullDepth } from '../fixtures/random-depth.ts'
import { eventually } from '../fixtures/timed-command.ts'

const KILLS = new URL('../fixtures/faults/write-kills.mjs', import.meta.url)
const FIRST_MS = Date.UTC(2024, 0, 1)
/** Each request becomes a commit that leaves a segment. Together they cause one merge. */
const COMMITS = 20
const EVENTS_PER_COMMIT = 30
const EVENTS = COMMITS * EVENTS_PER_COMMIT
/** One event in ten is removed by retention. */
const OLD_EVERY = 10
const PEOPLE = 30
const LATE_EVENTS = 20
/** Those of `p2`, and of `p12`, which is merged into it. */
const REMOVED_WITH_PERSON = 2 * (EVENTS / PEOPLE + 1)

t.teardown(closeConnections)
t.setTimeout(300_000)

interface ListedPerson {
  readonly id: number
  readonly uuid: string
  readonly distinct_ids: readonly string[]
  readonly properties: Readonly<Record<string, unknown>>
}

/** One of the steps that both stores go through. */
interface Step {
  readonly name: string
  /** The write transaction at which the daemon is killed: `<class> <before or after>`. */
  readonly killedAt: string
  readonly act: (store: Store) => Promise<unknown>
  /** Whether all effects of the step have happened. */
  readonly isOver: (store: Store) => Promise<boolean>
}

function uuidText(number: number): string {
  return `0199b000-0000-7000-8000-${String(number).padStart(12, '0')}`
}

function eventOf(index: number): Readonly<Record<string, unknown>> {
  return {
    event: index % OLD_EVERY === 0 ? 'old' : 'seen',
    uuid: uuidText(index),
    distinct_id: `p${index % PEOPLE}`,
    timestamp: new Date(FIRST_MS + index * 1000).toISOString(),
    properties: { index, pad: `pad ${index}`, $set: { [`k${index % 7}`]: index } },
  }
}

/** A store with many small segments, none of them merged yet. */
async function seed(t: Test, dataDir: string): Promise<void> {
  const dir = await DataDir.open(dataDir)
  const projects = new ProjectStore(dataDir)
  projects.bootstrap({ projectKey: PROJECT_KEY, personalKey: PERSONAL_KEY })
  await projects.close()
  const log = new PersonLog(t, dataDir)
  for (let first = 0; first < EVENTS; first += EVENTS_PER_COMMIT) {
    log.send(
      1,
      Array.from({ length: EVENTS_PER_COMMIT }, (_, index) => eventOf(first + index)),
    )
  }
  // A caller waits for the answer to a command, so nothing is merged now.
  log.append(1, { kind: 'set_properties', person: 1, set: { by: 'hand' } })
  const fail = (error: Error): never => {
    throw error
  }
  const processor = openProcessor(threadSettings(dataDir), fail, { commitEvents: 1 })
  processor.run(60_000)
  await processor.close()
  dir.release()
}

/** A store with a daemon. */
class Store {
  readonly dataDir: string
  readonly #file: string
  #daemon: SpawnedDaemon | null = null

  constructor(dataDir: string) {
    this.dataDir = dataDir
    this.#file = `${dataDir}-kill`
    this.arm('')
  }

  get daemon(): SpawnedDaemon {
    if (this.#daemon === null) throw new Error('no daemon runs')
    return this.#daemon
  }

  get source() {
    return { url: this.daemon.url, personalKey: PERSONAL_KEY }
  }

  arm(text: string): void {
    writeFileSync(this.#file, text)
  }

  /** Whether the requested kill has happened. */
  get isSpent(): boolean {
    return readFileSync(this.#file, 'utf8') === ''
  }

  async start(): Promise<void> {
    const env = { NODE_OPTIONS: `--import ${KILLS.href}`, WRITE_KILLS: this.#file }
    this.#daemon = await spawnDaemon({ dataDir: this.dataDir, env, args: ['--workers', '1'] })
  }

  /** Starts a daemon that is killed by its own work, before or after it is ready. */
  async startAndDie(): Promise<string> {
    try {
      await this.start()
      await eventually(async () => !this.daemon.isRunning)
      return this.daemon.isRunning ? 'it goes on' : String((await this.daemon.ended).signal)
    } catch (error) {
      return /it ended with (\w+)/.exec(String(error))?.[1] ?? String(error)
    }
  }

  async end(): Promise<void> {
    await this.#daemon?.kill()
  }

  ask(method: string, path: string, body?: object): Promise<Answer> {
    return send(`${this.daemon.url}/api/projects/1/${path}`, {
      method,
      headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }

  async results(path: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const body = jsonOf(await this.ask('GET', path)) as {
      results: Readonly<Record<string, unknown>>[]
    }
    return body.results
  }

  async persons(query: string): Promise<readonly ListedPerson[]> {
    const body = jsonOf(await this.ask('GET', `persons/?${query}`)) as { results: ListedPerson[] }
    return body.results
  }

  /** The number of the person with this distinct_id. */
  async idOf(distinctId: string): Promise<number> {
    return (await this.persons(`distinct_id=${distinctId}`))[0]?.id ?? 0
  }

  async areJobsDone(count: number): Promise<boolean> {
    const jobs = await this.results('erasures/')
    return jobs.length === count && jobs.every(({ status }) => status === 'done')
  }
}

const STEPS: readonly Step[] = [
  {
    name: 'merges of persons, and events',
    killedAt: 'ProcessingWriter before',
    act: (store) => {
      const merges = Array.from({ length: LATE_EVENTS }, (_, index) => ({
        ...eventOf(EVENTS + index),
        event: index < 4 ? '$merge_dangerously' : 'late',
        distinct_id: `p${index}`,
        properties: { alias: `p${index + 10}`, $set: { late: index } },
      }))
      return postJson(`${store.daemon.url}/batch/`, { api_key: PROJECT_KEY, batch: merges })
    },
    isOver: async (store) => {
      await untilVisible(store.source, uuidText(EVENTS + LATE_EVENTS - 1))
      return true
    },
  },
  {
    name: 'the split of a person',
    killedAt: 'ProcessingWriter after',
    act: async (store) => {
      const path = `persons/${await store.idOf('p1')}/split/`
      return store.ask('POST', path, { main_distinct_id: 'p1' })
    },
    isOver: async (store) => (await store.idOf('p1')) !== (await store.idOf('p11')),
  },
  {
    name: 'the deletion of a person with events',
    killedAt: 'EventErasure before',
    act: async (store) =>
      store.ask('DELETE', `persons/${await store.idOf('p2')}/?delete_events=true`),
    isOver: (store) => store.areJobsDone(1),
  },
  {
    name: 'retention',
    killedAt: 'EventErasure after',
    act: async (store) => {
      await store.ask('PUT', 'retention/', { events: [{ event: 'old', days: 30 }] })
      return store.ask('POST', 'retention/run/', {})
    },
    isOver: (store) => store.areJobsDone(2),
  },
]

/** The data that both stores must have in common: without arrival times and random uuids. */
async function contents(store: Store) {
  const persons = await store.persons('limit=1000')
  const names = new Map(persons.map(({ uuid, distinct_ids }) => [uuid, [...distinct_ids].sort()]))
  const events = await readEvents(store.source)
  const jobs = await store.results('erasures/')
  return {
    events: events.map(({ id, uuid, event, distinct_id, timestamp, properties, person_id }) =>
      JSON.stringify([
        id,
        uuid,
        event,
        distinct_id,
        timestamp,
        Object.entries(properties).sort(),
        names.get(person_id) ?? 'nobody',
      ]),
    ),
    persons: persons
      .map(({ distinct_ids, properties }) =>
        JSON.stringify([[...distinct_ids].sort(), Object.entries(properties).sort()]),
      )
      .sort(),
    jobs: jobs.map(({ id, origin, events_removed }) => [id, origin, events_removed]),
  }
}

t.test('a kill while segments are merged loses no event, and they are merged later', async (t) => {
  const store = new Store(join(t.testdir({}), 'killed'))
  await seed(t, store.dataDir)
  t.teardown(() => store.end())
  store.arm('SegmentCompactor before')
  t.equal(await store.startAndDie(), 'SIGKILL')
  t.ok(store.isSpent, 'the daemon was killed at the right transaction')
  await store.start()
  const indexes = (await readEvents(store.source)).map(({ properties }) => properties['index'])
  const wanted = Array.from({ length: EVENTS }, (_, index) => index)
  t.strictSame(
    indexes.filter((index) => index !== undefined),
    wanted,
    'every event is there, once',
  )
  t.strictSame(await store.daemon.stop(), { code: 0, signal: null })
  t.same((await verifyStore(store.dataDir, () => undefined)).findings, [])
})

const TWIN = 'kills in the middle of writes leave the store of a twin that was not killed'
t.test(TWIN, { skip: atFullDepth }, async (t) => {
  const folder = t.testdir({})
  await seed(t, join(folder, 'seed'))
  const [killed, twin] = ['killed', 'twin'].map((name) => {
    const isWanted = (path: string): boolean => basename(path) !== 'lock.mdb'
    cpSync(join(folder, 'seed'), join(folder, name), { recursive: true, filter: isWanted })
    return new Store(join(folder, name))
  })
  if (killed === undefined || twin === undefined) throw new Error('two stores were wanted')
  t.teardown(() => Promise.all([killed.end(), twin.end()]))
  killed.arm('SegmentCompactor before')
  t.equal(
    await killed.startAndDie(),
    'SIGKILL',
    'segments that are merged: SegmentCompactor before',
  )
  t.ok(killed.isSpent, 'the daemon was killed at the right transaction')
  await Promise.all([killed.start(), twin.start()])
  for (const step of STEPS) {
    await step.act(twin)
    t.ok(await eventually(() => step.isOver(twin)), step.name)
    killed.arm(step.killedAt)
    // Whether the request was answered depends on where the daemon ended.
    const acting = step.act(killed).catch(() => null)
    await eventually(async () => !killed.daemon.isRunning)
    t.notOk(killed.daemon.isRunning, `${step.name}: ${step.killedAt}`)
    await acting
    t.ok(killed.isSpent, 'the daemon was killed at the right transaction')
    await killed.start()
    t.ok(await eventually(() => step.isOver(killed)), `${step.name}: the daemon continues`)
  }
  const wanted = await contents(twin)
  t.strictSame(await contents(killed), wanted)
  // The event of the seed's command is stored, too. Of the persons, four were merged, one split, one deleted.
  t.equal(wanted.events.length, EVENTS + LATE_EVENTS + 1 - REMOVED_WITH_PERSON - EVENTS / OLD_EVERY)
  t.equal(wanted.persons.length, PEOPLE - 4 + 1 - 1)
  t.strictSame(
    wanted.jobs.map(([, origin, removed]) => [origin, removed]),
    [
      ['retention', EVENTS / OLD_EVERY],
      ['person', REMOVED_WITH_PERSON],
    ],
  )
  for (const store of [killed, twin]) {
    t.strictSame(await store.daemon.stop(), { code: 0, signal: null })
    t.same((await verifyStore(store.dataDir, () => undefined)).findings, [])
  }
})
