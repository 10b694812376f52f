/**
 * The worked examples against three machines with a warehouse, each request at another machine: answers, and what each
 * of them and ClickHouse have in the end.
 */
import t, { type Test } from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { EventReader } from '../../src/store/warehouse/read/event-reader.ts'
import { StoredSegments } from '../../src/store/warehouse/read/segment-texts.ts'
import { areBrokersMissing } from '../fixtures/cluster/brokers.ts'
import { ThreeMachines, type ThreeMachinesOptions } from '../fixtures/cluster/three-machines.ts'
import {
  ANALYTICS_NOW_MS,
  checkAnalyticCases,
  createProjects as createAnalyticProjects,
  READER_KEY,
} from '../fixtures/conformance/analytics.ts'
import {
  checkFlagCase,
  draftsOf,
  eventsOf,
  FLAG_CASES,
  makeCohorts,
} from '../fixtures/conformance/flags.ts'
import { frozenAt } from '../fixtures/conformance/frozen-daemon.ts'
import {
  checkIngestionCases,
  createWorlds,
  INGESTION_NOW_MS,
  type World,
} from '../fixtures/conformance/ingestion.ts'
import { checkPersonCases, PERSONS_NOW_MS, personCases } from '../fixtures/conformance/persons.ts'
import {
  createProjects,
  DecisionClient,
  FlagWriter,
  PERSONAL_KEY,
} from '../fixtures/flags/decision-daemon.ts'
import { caseFaults, casesOf, QueryCases, requestOf } from '../fixtures/queries/query-cases.ts'
import { tableDigests } from '../fixtures/table-digests.ts'
import { ClickHouseServer, isClickHouseMissing } from '../fixtures/warehouse/clickhouse-server.ts'

/** Contradicted by ingestion: test/http/queries/question-cases.test.ts. */
const LEFT_OUT = ['tr-016']
const skip = areBrokersMissing === false ? isClickHouseMissing : areBrokersMissing

/** More than any case has. */
const EVENTS_MAX = 1000
const SETTLED_TIMES = 5

t.setTimeout(600_000)

const OF_DECISIONS = { projectKey: 'phc_project_1', personalKey: PERSONAL_KEY }

async function onThree(
  t: Test,
  options: Omit<ThreeMachinesOptions, 'clickhouse' | 'folder'>,
  check: (three: ThreeMachines) => Promise<void>,
): Promise<void> {
  const folder = t.testdir({})
  const clickhouse = await ClickHouseServer.start(t, folder)
  const three = await ThreeMachines.start(t, { ...options, folder, clickhouse })
  try {
    await check(three)
  } finally {
    await three.stop()
  }
}

/** All machines have the same, and ClickHouse has as many events of each project. */
async function checkCopies(t: Test, three: ThreeMachines): Promise<void> {
  await three.settled()
  const [first] = three.machines
  const dataDir = first?.dataDir ?? ''
  const segments = new StoredSegments(dataDir)
  const projects = [...segments.projects().keys()]
  await segments.close()
  const reader = new EventReader({ dataDir })
  // Without those that were erased.
  const ids = projects.map((projectId) => {
    const { results } = reader.listEvents({ projectId, limit: EVENTS_MAX })
    return [projectId, results.map(({ id }) => id)] as const
  })
  await reader.close()
  t.ok(await three.copied(new Map(ids)), 'ClickHouse has every event')
  const digests = () => Promise.all(three.machines.map(({ dataDir }) => copyDigest(dataDir)))
  // What a machine has seen of the catalogue is written with its next events.
  const areSame = async () => {
    await three.settled()
    return new Set(await digests()).size === 1
  }
  for (let time = 0; time < SETTLED_TIMES && !(await areSame()); time++);
  const [one, two, last] = await digests()
  t.equal(two, one, 'the tables are the same')
  t.equal(last, one, 'on all three')
}

/** Of all tables but what only this machine knows. */
async function copyDigest(dataDir: string): Promise<string> {
  return JSON.stringify({ ...(await tableDigests(dataDir)), shared_log: '' })
}

t.test('ingestion', { skip }, async (t) => {
  let worlds: readonly World[] = []
  const options = {
    prepare: async (dataDir: string) => {
      worlds = await createWorlds(dataDir)
    },
    clock: frozenAt(INGESTION_NOW_MS),
    projectKey: '',
    personalKey: '',
  }
  await onThree(t, options, async (three) => {
    await checkIngestionCases(t, worlds, three.nextUrl, three.machines)
  })
})

t.test('persons', { skip }, async (t) => {
  const cases = personCases(2)
  const options = {
    ...OF_DECISIONS,
    prepare: (dataDir: string) => createProjects(dataDir, cases.length + 1),
    clock: frozenAt(PERSONS_NOW_MS),
  }
  await onThree(t, options, async (three) => {
    const client = new DecisionClient(three.nextUrl)
    for (const { events, projectId } of cases) {
      for (const event of events) {
        const json = { api_key: client.key(projectId), batch: [event] }
        const { status } = await client.ask('/batch/', { json })
        t.equal(status, 200)
      }
    }
    await three.settled()
    for (const { dataDir } of three.machines) {
      const reader = new EventReader({ dataDir })
      checkPersonCases(t, reader, cases)
      await reader.close()
    }
  })
})

t.test('flags', { skip }, async (t) => {
  const options = {
    ...OF_DECISIONS,
    prepare: async (dataDir: string) => {
      await createProjects(dataDir, FLAG_CASES.length)
      const flags = new FlagWriter(dataDir)
      for (const one of FLAG_CASES) flags.put(draftsOf(one), one.projectId)
      await flags.close()
    },
    clock: SYSTEM_CLOCK,
  }
  await onThree(t, options, async (three) => {
    const client = new DecisionClient(three.nextUrl)
    for (const one of FLAG_CASES) {
      const batch = eventsOf(one)
      if (batch.length === 0) continue
      await client.ask('/batch/', { json: { api_key: client.key(one.projectId), batch } })
    }
    await three.settled()
    for (const one of FLAG_CASES) await makeCohorts(client, one)
    await three.settled()
    for (const one of FLAG_CASES) {
      for (const _ of three.machines) await checkFlagCase(t, client, one)
    }
  })
})

t.test('analytics', { skip }, async (t) => {
  const options = {
    prepare: createAnalyticProjects,
    clock: frozenAt(ANALYTICS_NOW_MS),
    projectKey: 'phc_project_of_the_first_start',
    personalKey: READER_KEY,
  }
  await onThree(t, options, async (three) => {
    await checkAnalyticCases(t, three.nextUrl, () => three.settled())
    await checkCopies(t, three)
  })
})

for (const file of ['question-cases.json', 'web-cases.json']) {
  t.test(file, { skip }, async (t) => {
    const cases = casesOf(file)
    const shifted: { nowMs: number | null } = { nowMs: null }
    const options = {
      ...OF_DECISIONS,
      prepare: (dataDir: string) => createProjects(dataDir, cases.length + 1),
      clock: { ...SYSTEM_CLOCK, now: () => shifted.nowMs ?? SYSTEM_CLOCK.now() },
    }
    await onThree(t, options, async (three) => {
      const asked = new QueryCases(new DecisionClient(three.nextUrl), shifted)
      await asked.send(cases)
      await three.settled()
      const names: ReadonlyMap<string, unknown>[] = []
      for (const [index, one] of cases.entries()) names.push(await asked.prepare(index, one))
      await three.settled()
      for (const [index, one] of cases.entries()) {
        if (LEFT_OUT.includes(one.id)) continue
        const known = names[index] ?? new Map()
        const answer = await asked.askPrepared(index, one, known, ...requestOf(one))
        t.strictSame(caseFaults(one, answer), [], `${one.id} ${one.title}`)
      }
      await checkCopies(t, three)
    })
  })
}
