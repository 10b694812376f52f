/**
 * Question: does a decision about a person with very many properties cost more than one about an ordinary person?
 * Workload: 40 flags with conditions on ten properties of a person or group. Persons and groups have only these
 * properties, or as many others as the options set (the limit of a person allows 32,000). Every request has its own
 * `person_properties`. `first`: the reader has no cached person. `again`: it has decided for all of them. Measured is
 * the elapsed time in one thread, and both kinds take turns.
 * Baseline: the small persons in the same run.
 * Reconsider: pages of properties, if the 99th percentile of the large ones is more than twice that of the small ones.
 */
import { compileFlags } from '../../src/rules/flags/compile.ts'
import { decide, requestOf } from '../../src/rules/flags/decide.ts'
import type { Flag } from '../../src/rules/flags/types.ts'
import { groupState, personState } from '../../src/rules/persons/person-repository.ts'
import { personUuid } from '../../src/rules/persons/person-uuid.ts'
import { PropertyTable } from '../../src/rules/persons/property-table.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { DecisionSourceReader } from '../../src/store/identity/decision-sources.ts'
import { makeFlag } from './flag-decisions.ts'

/** The sizes of a run. */
export interface LargePersonsRun {
  readonly persons: number
  /** The number of properties of a large person. */
  readonly properties: number
  readonly rounds: number
  readonly dataDir: string
}

/** The microseconds of a decision: the median and the 99th percentile. */
export interface LargePersonsFigures {
  readonly kind: 'first' | 'again'
  readonly small: { readonly medianUs: number; readonly p99Us: number }
  readonly large: { readonly medianUs: number; readonly p99Us: number }
}

const FLAGS = 40
const NAMES = 10
const GROUP_TYPE = 'company'

/**
 * Stores persons and groups in an empty data directory, decides flags for them, and prints one line of JSON for each
 * kind.
 */
export async function run(sizes: LargePersonsRun): Promise<readonly LargePersonsFigures[]> {
  const { dataDir, rounds } = sizes
  await storeEverybody(sizes)
  const compiled = compileFlags({
    projectId: 1,
    timezone: 'UTC',
    flags: Array.from({ length: FLAGS }, (_, index) => flagOf(index)),
    cohorts: new Map(),
    groupTypes: new Map([[0, GROUP_TYPE]]),
  })
  // Keeps the file mapped into memory, as a daemon does.
  const holder = new DecisionSourceReader(dataDir)
  const samples = { first: newSamples(), again: newSamples() }
  for (let round = 0; round <= rounds; round++) {
    const stored = new DecisionSourceReader(dataDir)
    for (const kind of ['first', 'again'] as const) {
      for (let index = 0; index < sizes.persons; index++) {
        for (const size of ['small', 'large'] as const) {
          const distinctId = `${size} ${index}`
          const request = requestOf({
            distinctId,
            nowMs: 0,
            groups: { [GROUP_TYPE]: distinctId },
            personProperties: { round: `${kind} ${round} ${index}` },
          })
          const startedAt = performance.now()
          stored.freshen()
          decide(compiled, request, {
            personProperties: () => stored.person(1, distinctId).properties,
            groupProperties: (typeIndex, key) => stored.groupProperties(1, typeIndex, key),
            isInStaticCohort: () => false,
            continuityOverrides: () => new Map(),
          })
          const elapsedUs = (performance.now() - startedAt) * 1000
          // The first round is a warm-up.
          if (round > 0) samples[kind][size].push(elapsedUs)
        }
      }
    }
    await stored.close()
  }
  await holder.close()
  return (['first', 'again'] as const).map((kind) => {
    const { small, large } = samples[kind]
    const figures = { kind, small: percentiles(small), large: percentiles(large) }
    console.log(JSON.stringify({ bench: 'large-persons', ...figures }))
    return figures
  })
}

async function storeEverybody({ persons, properties, dataDir }: LargePersonsRun): Promise<void> {
  const writer = new ProcessingWriter({ dataDir, isFlushDeferred: true })
  const repository = writer.persons(1)
  repository.addGroupType(GROUP_TYPE, 0)
  for (let index = 0; index < persons; index++) {
    for (const [size, others] of [
      ['small', 0],
      ['large', properties],
    ] as const) {
      const distinctId = `${size} ${index}`
      const table = (): PropertyTable => PropertyTable.from(membersOf(others, index))
      const uuid = personUuid(1, distinctId)
      const number = repository.nextPersonNumber()
      repository.create(personState(number, uuid, 0, table(), false, 0), distinctId)
      repository.createGroup(groupState(0, distinctId, 0, table()))
    }
  }
  writer.commit(1)
  await writer.close()
}

function membersOf(others: number, salt: number): Record<string, unknown> {
  const members: Record<string, unknown> = {}
  for (let index = 0; index < NAMES; index++) members[`property_${index}`] = `value ${index}`
  for (let index = 0; index < others; index++) members[`p${index}`] = (index + salt) % 10
  return members
}

function flagOf(index: number): Flag {
  const isGroup = index % 4 === 3
  const filter = {
    key: `property_${index % NAMES}`,
    operator: 'exact',
    value: [`value ${index % 7}`, 'x'],
    ...(isGroup ? { type: 'group', group_type_index: 0 } : { type: 'person' }),
  }
  return {
    ...makeFlag(index),
    filters: { groups: [{ properties: [filter], rollout_percentage: 100 }] },
  }
}

function newSamples(): { small: number[]; large: number[] } {
  return { small: [], large: [] }
}

function percentiles(samples: number[]): { medianUs: number; p99Us: number } {
  samples.sort((left, right) => left - right)
  const at = (part: number): number => {
    return Math.round((samples[Math.floor(samples.length * part)] ?? 0) * 10) / 10
  }
  return { medianUs: at(0.5), p99Us: at(0.99) }
}
