/**
 * Runs the worked examples of ingestion, persons and flags against three machines with a warehouse, each request at
 * another machine. Checks the answers and the final state of each machine. For queries see
 * conformance-questions.test.ts.
 *
 * @lane cluster
 */
import t from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { onThree, areMachinesMissing as skip } from '../fixtures/cluster/three-copies.ts'
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
import { Differences } from '../fixtures/differences.ts'
import {
  createProjects,
  DecisionClient,
  FlagWriter,
  PERSONAL_KEY,
} from '../fixtures/flags/decision-daemon.ts'

t.setTimeout(600_000)

const OF_DECISIONS = { projectKey: 'phc_project_1', personalKey: PERSONAL_KEY }

t.test('ingestion cases hold on a cluster', { skip }, async (t) => {
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

t.test('person and flag cases hold on a cluster', { skip }, async (t) => {
  const cases = personCases(FLAG_CASES.length + 1)
  const shifted: { nowMs: number | null } = { nowMs: PERSONS_NOW_MS }
  const options = {
    ...OF_DECISIONS,
    prepare: async (dataDir: string) => {
      await createProjects(dataDir, FLAG_CASES.length + cases.length)
      const flags = new FlagWriter(dataDir)
      for (const one of FLAG_CASES) flags.put(draftsOf(one), one.projectId)
      await flags.close()
    },
    clock: { ...SYSTEM_CLOCK, now: () => shifted.nowMs ?? SYSTEM_CLOCK.now() },
  }
  await onThree(t, options, async (three) => {
    const client = new DecisionClient(three.nextUrl)
    const statuses = new Set<number>()
    for (const { events, projectId } of cases) {
      for (const event of events) {
        const json = { api_key: client.key(projectId), batch: [event] }
        statuses.add((await client.ask('/batch/', { json })).status)
      }
    }
    t.strictSame([...statuses], [200], 'every event is accepted')
    await three.settled()
    for (const { dataDir } of three.machines) {
      const reader = new EventReader({ dataDir })
      checkPersonCases(t, reader, cases)
      await reader.close()
    }

    shifted.nowMs = null
    for (const one of FLAG_CASES) {
      const batch = eventsOf(one)
      if (batch.length === 0) continue
      await client.ask('/batch/', { json: { api_key: client.key(one.projectId), batch } })
    }
    await three.settled()
    for (const one of FLAG_CASES) await makeCohorts(client, one)
    await three.settled()
    const differences = new Differences()
    for (const one of FLAG_CASES) {
      for (const _ of three.machines) await checkFlagCase(differences, client, one)
    }
    t.strictSame(differences.list(), [], 'every machine decides every case as it says')
  })
})
