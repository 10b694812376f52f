/**
 * Tests that compiling only the changed flags gives the same result as compiling all of them, whatever changed. The
 * same holds for the flag list in memory.
 *
 * @lane quick
 */
import t from 'tap'
import { type CompiledFlags, compileFlags } from '../../../src/rules/flags/compile.ts'
import type { Flag, FlagCohort, FlagSet } from '../../../src/rules/flags/types.ts'
import { ProjectFlags } from '../../../src/store/catalog/flag-cache.ts'
import type { StoredFlag } from '../../../src/store/catalog/flag-records.ts'
import { Dice } from '../../fixtures/dice.ts'
import { Differences } from '../../fixtures/differences.ts'
import { roundsOf } from '../../fixtures/random-depth.ts'

const STEPS = roundsOf(300)
const IDS = 60
const KEYS = 80

const cohort = (id: number): FlagCohort => ({ id, name: '', isStatic: true, filters: {} })
const COHORTS = new Map([1, 2, 3].map((id) => [id, cohort(id)]))

function makeFlag(id: number, version: number, dice: Dice, key: string): Flag {
  const references: object[] = []
  if (dice.chance(0.2)) {
    const value = dice.between(1, 5)
    references.push({ type: 'cohort', key: 'id', value })
  }
  if (dice.chance(0.2)) {
    references.push({
      type: 'flag',
      key: String(dice.between(1, IDS)),
      value: true,
      operator: 'flag_evaluates_to',
    })
  }
  return {
    id,
    projectId: 1,
    key,
    name: '',
    filters: { groups: [{ properties: references, rollout_percentage: dice.between(0, 100) }] },
    deleted: dice.chance(0.1),
    active: dice.chance(0.8),
    version,
    createdById: null,
    createdAtMs: 0,
    lastModifiedById: null,
    updatedAtMs: version,
    ensureExperienceContinuity: false,
    rollbackConditions: null,
    performedRollback: null,
    tags: [],
    usageDashboard: null,
    analyticsDashboards: [],
    hasEnrichedAnalytics: false,
    evaluationRuntime: dice.chance(0.05) ? 'client' : 'all',
    bucketingIdentifier: null,
    evaluationContexts: dice.chance(0.05) ? ['web'] : [],
    isRemoteConfiguration: false,
    hasEncryptedPayloads: false,
  }
}

/** Everything that a decision reads. */
function contentsOf(compiled: CompiledFlags): object {
  const keys = Array.from({ length: KEYS }, (_, key) => `flag-${key}`)
  const ids = Array.from({ length: IDS + 1 }, (_, id) => id)
  const { dependencies } = compiled
  return {
    active: compiled.active.map(({ flag }) => flag),
    byKey: keys.map((key) => compiled.byKey.get(key)?.flag ?? null),
    byId: ids.map((id) => compiled.byId.get(id)?.flag ?? null),
    cohorts: [...compiled.cohorts.keys()].sort(),
    tests: [...compiled.rules.cohortTests.keys()].sort(),
    dependencies: [...dependencies.dependencies].sort(([one], [other]) => one - other),
    broken: [...dependencies.broken].sort(([one], [other]) => one - other),
    order: [...dependencies.order].sort(),
    hasRuntimes: compiled.hasRuntimes,
    hasContexts: compiled.hasContexts,
  }
}

t.test('a random history of flags compiles incrementally', async (t) => {
  const dice = new Dice(4)
  const all = new Map<number, StoredFlag>()
  const project = new ProjectFlags(new Map())
  let cohorts: ReadonlyMap<number, FlagCohort> = COHORTS
  let compiled: CompiledFlags | undefined
  let change = 0
  const listed = new Differences()
  const recompiled = new Differences()
  for (let step = 0; step < STEPS; step++) {
    const changes = new Map<number, StoredFlag | null>()
    const count = dice.chance(0.05) ? 200 : dice.between(0, 3)
    for (let index = 0; index < count; index++) {
      const id = dice.between(1, IDS)
      const isFree = (key: string): boolean =>
        ![...all.values()].some(({ flag }) => flag.id !== id && flag.key === key)
      const key = `flag-${dice.between(0, KEYS - 1)}`
      if (dice.chance(0.1) || !isFree(key)) {
        all.delete(id)
        changes.set(id, null)
        continue
      }
      const stored = { flag: makeFlag(id, ++change, dice, key), change, filtersUnits: change % 7 }
      all.set(id, stored)
      changes.set(id, stored)
    }
    // Sometimes nothing was requested in between, so there is no compiled state to update.
    const isAsked = dice.chance(0.8)
    project.apply(changes)
    if (!isAsked) continue
    if (dice.chance(0.05)) cohorts = new Map([...COHORTS].slice(0, dice.between(0, 3)))
    const expected = [...all.values()].map(({ flag }) => flag).filter(({ deleted }) => !deleted)
    expected.sort((one, other) => one.id - other.id)
    const isListed =
      expected.length === project.flags.length &&
      expected.every((flag, index) => flag === project.flags[index])
    listed.ok(isListed, `the list is up to date after step ${step}`)
    for (const flag of expected) {
      listed.equal(project.byKey(flag.key), flag, `${flag.key} is up to date after step ${step}`)
    }
    const units = [...all.values()].reduce((sum, { filtersUnits }) => sum + filtersUnits, 0)
    listed.equal(
      project.filtersUnits,
      units,
      `the units of all filters are up to date after step ${step}`,
    )
    const set: FlagSet = {
      projectId: 1,
      timezone: dice.chance(0.02) ? 'Europe/Paris' : 'UTC',
      flags: project.flags,
      cohorts,
      groupTypes: new Map(),
    }
    const before = compiled === undefined ? null : contentsOf(compiled)
    const next: CompiledFlags = compileFlags(set, compiled)
    recompiled.same(contentsOf(next), contentsOf(compileFlags(set)), `step ${step}`)
    if (compiled !== undefined) {
      recompiled.same(contentsOf(compiled), before, `the older one after step ${step}`)
    }
    compiled = next
  }
  t.strictSame(listed.list(), [], 'the flags in memory are those of the changes')
  t.strictSame(
    recompiled.list(),
    [],
    'compiling the changes gives the same as compiling everything and leaves the older one as it is',
  )
})
