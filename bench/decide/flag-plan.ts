/**
 * Question: how long does a plan of 50 flags take over a million persons?
 * Workload: persons with ten properties in a store without a daemon. A file changes 50 flags: half of them get another
 * share of all persons, half another value of a property. The plan evaluates the usual sample, in one thread.
 * Baseline: a plan without numbers, which only compares the flags.
 * Reconsider: sampling, or one pass over persons for all flags, if the usual plan takes more than 10 s.
 */
import { REHEARSAL_SAMPLE_USUAL } from '../../src/base/limits.ts'
import { planPiece } from '../../src/engine/threads/flag-plans.ts'
import { portableFlag } from '../../src/rules/flags/edit/portable-flag.ts'
import type { FlagSet } from '../../src/rules/flags/types.ts'
import { personState } from '../../src/rules/persons/person-repository.ts'
import { personUuid } from '../../src/rules/persons/person-uuid.ts'
import { PropertyTable } from '../../src/rules/persons/property-table.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { DecisionSourceReader } from '../../src/store/identity/decision-sources.ts'
import type { Bench, BenchContext } from '../harness.ts'
import { makeFlag } from '../micro/flag-decisions.ts'

export const FLAG_PLAN: Bench = {
  name: 'flag-plan',
  group: 'flags',
  question: 'How long does a plan of 50 flags take over a million persons?',
  workload: '50 changed flags, 1,000,000 persons of ten properties, one thread',
  needsDaemon: false,
  run: measure,
}

const FLAGS = 50
const PROPERTIES = 10
const PERSONS_PER_COMMIT = 20_000
const PLAN_SECONDS_MAX = 10
const MICROSECONDS = 1e6

async function measure(context: BenchContext): Promise<void> {
  const persons = context.persons(20_000, 1_000_000)
  const dataDir = context.newFolder()
  await storePersons(dataDir, persons)
  const stored = new DecisionSourceReader(dataDir)
  const set = flagsOf(25)
  const wanted = flagsOf(30).flags.map((flag) => portableFlag(flag, set))
  const none = plan(wanted, set, stored, 0)
  const { seconds, sampled, changed } = plan(wanted, set, stored, REHEARSAL_SAMPLE_USUAL)
  if (changed < FLAGS / 2) throw new Error(`only ${changed} flags would change a value`)
  context.report({
    figure: `plan of ${FLAGS} flags over ${persons} persons, ${sampled} evaluated`,
    value: seconds,
    unit: 's of processor time',
    baseline: none.seconds,
    target: { of: 'value', bound: 'at most', limit: PLAN_SECONDS_MAX },
    note: 'baseline: a plan without numbers',
  })
  await stored.close()
}

/** Allows every change, because no flag of the bench has an experiment. */
function allowAll(): void {}

function plan(
  flags: Parameters<typeof planPiece>[0]['flags'],
  set: FlagSet,
  stored: DecisionSourceReader,
  sampleMax: number,
) {
  const before = process.cpuUsage()
  const task = { projectId: 1, timezone: 'UTC', nowMs: 0, flags, sampleMax }
  let piece = planPiece(task, set, stored, allowAll)
  while ('rest' in piece) piece = planPiece(task, set, stored, allowAll, piece.rest)
  const { user, system } = process.cpuUsage(before)
  const effects = piece.answer.flags.map(({ effect }) => effect)
  return {
    seconds: (user + system) / MICROSECONDS,
    sampled: effects[0]?.sampled ?? 0,
    changed: effects.filter((effect) => (effect?.changed ?? 0) > 0).length,
  }
}

/** Returns flags that all have the rollout `share`, and filter values that depend on it. */
function flagsOf(share: number): FlagSet {
  const flags = Array.from({ length: FLAGS }, (_, index) => {
    const key = `property_${index % PROPERTIES}`
    const value = `value ${(index + share) % PROPERTIES}`
    const filter = { key, type: 'person', operator: 'exact', value: [value] }
    const isShare = index % 2 === 0
    const condition = {
      properties: isShare ? [] : [filter],
      rollout_percentage: isShare ? share : 100,
    }
    return { ...makeFlag(index), id: index + 1, filters: { groups: [condition] } }
  })
  return { projectId: 1, timezone: 'UTC', flags, cohorts: new Map(), groupTypes: new Map() }
}

async function storePersons(dataDir: string, persons: number): Promise<void> {
  const writer = new ProcessingWriter({ dataDir, isFlushDeferred: true })
  for (let index = 0, block = 0; index < persons; ) {
    const repository = writer.persons(1)
    for (let more = 0; more < PERSONS_PER_COMMIT && index < persons; more++, index++) {
      const distinctId = `user-${index}`
      const properties: Record<string, unknown> = {}
      for (let number = 0; number < PROPERTIES; number++) {
        properties[`property_${number}`] = `value ${(index + number) % PROPERTIES}`
      }
      const uuid = personUuid(1, distinctId)
      const table = PropertyTable.from(properties)
      repository.create(
        personState(repository.nextPersonNumber(), uuid, 0, table, false, 0),
        distinctId,
      )
    }
    writer.commit(++block)
  }
  await writer.close()
}
