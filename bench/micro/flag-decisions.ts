/**
 * Question: what does a decision cost, and does the cost depend only on the number of flags?
 * Workload: a person with 30 properties. Half of the flags have a condition on one of them, all have a rollout of half,
 * every fifth has two variants, and each decision has another distinct_id. Measured is the CPU time of one thread, as
 * the 5th percentile.
 * Baseline: one `crypto.hash('sha1')` for each flag in the same run.
 * Reconsider: closures and Tenrec's own SHA-1, if a decision takes more than twice the baseline at 50 flags.
 */
import { createHash } from 'node:crypto'
import { compileFlags } from '../../src/rules/flags/compile.ts'
import { decide } from '../../src/rules/flags/decide.ts'
import { lookupIn } from '../../src/rules/flags/property-lookup.ts'
import type {
  DecisionRequest,
  DecisionSources,
  Flag,
  FlagSet,
} from '../../src/rules/flags/types.ts'

/** The results of a run. */
export interface DecisionFigures {
  readonly flags: number
  /** The microseconds of a decision about all flags. */
  readonly decideUs: number
  /** The microseconds that the crypto library takes for one SHA-1 for each flag. */
  readonly hashUs: number
}

/**
 * Measures decisions about this many flags. It takes this many samples of each kind, after as many samples for the
 * warm-up.
 */
export function run(flagCount: number, samples: number): DecisionFigures {
  const flags = Array.from({ length: flagCount }, (_, index) => makeFlag(index))
  const set: FlagSet = {
    projectId: 1,
    timezone: 'UTC',
    flags,
    cohorts: new Map(),
    groupTypes: new Map(),
  }
  const compiled = compileFlags(set)
  const sources = makeSources()
  const decideAll = (sample: number) => decide(compiled, makeRequest(sample), sources)
  const hashAll = (sample: number) => {
    for (const { key } of flags) createHash('sha1').update(`${key}.user-${sample}`).digest('hex')
  }
  for (const warmUp of [decideAll, hashAll]) percentileUs(warmUp, samples)
  return {
    flags: flagCount,
    decideUs: percentileUs(decideAll, samples),
    hashUs: percentileUs(hashAll, samples),
  }
}

function percentileUs(work: (sample: number) => unknown, samples: number): number {
  const elapsedMs = Array.from({ length: samples }, (_, sample) => {
    const startedAt = performance.now()
    work(sample)
    return performance.now() - startedAt
  })
  elapsedMs.sort((left, right) => left - right)
  return (elapsedMs[Math.floor(samples / 20)] ?? 0) * 1000
}

/** Returns a flag of the usual kind. */
export function makeFlag(index: number): Flag {
  const place = index % 30
  const filters = [
    { key: `property_${place}`, operator: 'exact', value: [`value ${place}`, 'x'] },
    { key: 'email', operator: 'icontains', value: '@EXAMPLE.com' },
    { key: 'age', operator: 'gt', value: '18' },
    { key: 'property_3', operator: 'is_not', value: 'none' },
  ]
  const filter = { ...filters[Math.floor(index / 2) % 4], type: 'person' }
  const halves = ['control', 'test'].map((key) => ({ key, rollout_percentage: 50 }))
  return {
    id: index + 1,
    projectId: 1,
    key: `some-feature-flag-${index}`,
    name: '',
    filters: {
      groups: [{ properties: index % 2 === 0 ? [] : [filter], rollout_percentage: 50 }],
      multivariate: index % 5 === 0 ? { variants: halves } : null,
    },
    deleted: false,
    active: true,
    version: 1,
    createdById: null,
    createdAtMs: 0,
    lastModifiedById: null,
    updatedAtMs: 0,
    ensureExperienceContinuity: false,
    rollbackConditions: null,
    performedRollback: null,
    tags: [],
    usageDashboard: null,
    analyticsDashboards: [],
    hasEnrichedAnalytics: false,
    evaluationRuntime: 'all',
    bucketingIdentifier: null,
    evaluationContexts: [],
    isRemoteConfiguration: false,
    hasEncryptedPayloads: false,
  }
}

function makeRequest(sample: number): DecisionRequest {
  return {
    distinctId: `user-${sample}@example.com`,
    groups: {},
    personProperties: {},
    groupProperties: {},
    anonDistinctId: null,
    deviceId: null,
    nowMs: 0,
    flagKeys: null,
    evaluationContexts: [],
    evaluationRuntime: 'client',
    isSurveyFlagsOnly: false,
  }
}

function makeSources(): DecisionSources {
  const properties = Object.fromEntries(
    Array.from({ length: 28 }, (_, index) => [`property_${index}`, `value ${index}`]),
  )
  const person = { ...properties, email: 'someone@example.com', age: 33 }
  return {
    personProperties: () => lookupIn(person),
    groupProperties: () => null,
    isInStaticCohort: () => false,
    continuityOverrides: () => new Map(),
  }
}
