/**
 * Compiles all flags of a project. The stored filters are read once, and the compiled form is used for every decision.
 * A change of one flag is cheap: the compiled form of unchanged flags is reused, and so is the data that is derived
 * from all flags if the change does not affect it.
 */
import type { FlagHashes } from './bucketing.ts'
import { type CompiledCohort, cohortsOfFlag, compileCohorts } from './compiled-cohorts.ts'
import { CompiledFlag } from './compiled-flag.ts'
import { type DependencyOrder, dependenciesOf, orderDependencies } from './dependency-order.ts'
import type { CohortTest, EvaluationRules } from './evaluation.ts'
import { FlagLookup } from './flag-lookup.ts'
import { changesOfFlags, type FlagChange, isSameRecord } from './flag-set-changes.ts'
import { COMPILED_CHANGES_MAX } from './limits.ts'
import type { Flag, FlagSet } from './types.ts'

/** The compiled flags of a project. The object is shared and never changes. */
export interface CompiledFlags {
  readonly set: FlagSet
  /** The active flags in the order of the set. */
  readonly active: readonly CompiledFlag[]
  readonly byKey: FlagLookup<string, CompiledFlag>
  readonly byId: FlagLookup<number, CompiledFlag>
  readonly cohorts: ReadonlyMap<number, CompiledCohort>
  readonly dependencies: DependencyOrder
  readonly rules: EvaluationRules
  /** True if an active flag is restricted to one runtime. */
  readonly hasRuntimes: boolean
  /** True if an active flag is restricted to some contexts. */
  readonly hasContexts: boolean
}

type ActiveFlags = Pick<CompiledFlags, 'active' | 'byKey' | 'byId'>

/**
 * The ids of the flags and cohorts that a flag refers to. They are cached for each flag, because finding them walks
 * through all filters.
 */
interface References {
  readonly flags: readonly number[]
  readonly cohorts: readonly number[]
}

const referencesOfFlag = new WeakMap<Flag, References>()
const NO_REFERENCES: References = { flags: [], cohorts: [] }

/**
 * Compiles a set of flags. If a flag or cohort has the same record as in `previous`, its compiled form is reused. It
 * never throws, whatever the stored filters contain. The cost is linear in the changed flags. Each other flag costs a
 * few nanoseconds, or a fraction of a microsecond if many flags changed, if active flags were added or removed, or if a
 * changed flag refers to other flags or cohorts than before.
 */
export function compileFlags(set: FlagSet, previous?: CompiledFlags): CompiledFlags {
  const known = previous?.set.timezone === set.timezone ? previous : null
  const changes =
    known === null ? null : changesOfFlags(known.set.flags, set.flags, COMPILED_CHANGES_MAX)
  const flags =
    known === null || changes === null
      ? activeFlags(set, known)
      : changedFlags(known, changes, set.timezone)
  orderHashes(flags.active)
  const areReferencesSame = changes?.every(hasSameReferences) === true
  const cohorts =
    areReferencesSame && known?.set.cohorts === set.cohorts
      ? known.cohorts
      : compileCohorts(set, known?.cohorts ?? null, (flag) => referencesOf(flag).cohorts)
  return {
    set,
    ...flags,
    cohorts,
    dependencies:
      areReferencesSame && known !== null
        ? known.dependencies
        : orderDependencies(
            set.flags.filter(({ deleted }) => !deleted),
            (flag) => referencesOf(flag).flags,
          ),
    rules: { groupTypes: set.groupTypes, cohortTests: testsOf(cohorts) },
    hasRuntimes: flags.active.some(({ flag }) => flag.evaluationRuntime !== 'all'),
    hasContexts: flags.active.some(({ flag }) => flag.evaluationContexts.length > 0),
  }
}

/** Compiles the active flags of the whole set. The compiled form of an unchanged flag is taken from `known`. */
function activeFlags(set: FlagSet, known: CompiledFlags | null): ActiveFlags {
  const byId = new Map<number, CompiledFlag>()
  const byKey = new Map<string, CompiledFlag>()
  const active: CompiledFlag[] = []
  for (const flag of set.flags) {
    if (!isActive(flag)) continue
    const before = known?.byId.get(flag.id)
    const compiled =
      before !== undefined && isSameRecord(before.flag, flag)
        ? before
        : new CompiledFlag(flag, set.timezone)
    active.push(compiled)
    byId.set(flag.id, compiled)
    byKey.set(flag.key, compiled)
  }
  return { active, byKey: new FlagLookup(byKey), byId: new FlagLookup(byId) }
}

/**
 * Tells each flag which flags are usually decided next, so that their hashes can be computed together with its own
 * hash.
 */
function orderHashes(active: readonly CompiledFlag[]): void {
  let rollout: FlagHashes | null = null
  let variant: FlagHashes | null = null
  for (const flag of active.toReversed()) {
    flag.hashes.precede(rollout, variant)
    if (flag.hasRollout) rollout = flag.hashes
    if (flag.hasVariants) variant = flag.hashes
  }
}

/** Builds the active flags by applying the changes to `known`. */
function changedFlags(
  known: CompiledFlags,
  changes: readonly FlagChange[],
  timezone: string,
): ActiveFlags {
  if (changes.length === 0) return known
  const active = known.active.slice()
  const ids = new Map<number, CompiledFlag | null>()
  const keys = new Map<string, CompiledFlag | null>()
  for (const { before } of changes) {
    if (before === null || !isActive(before)) continue
    const at = placeOf(active, before.id)
    if (active[at]?.flag.id === before.id) active.splice(at, 1)
    ids.set(before.id, null)
    keys.set(before.key, null)
  }
  // All old flags are removed before the new ones are added, because a flag may have taken the key of another flag.
  for (const { now } of changes) {
    if (now === null || !isActive(now)) continue
    const compiled = new CompiledFlag(now, timezone)
    active.splice(placeOf(active, now.id), 0, compiled)
    ids.set(now.id, compiled)
    keys.set(now.key, compiled)
  }
  return { active, byKey: known.byKey.with(keys), byId: known.byId.with(ids) }
}

/** Returns the index of the first flag whose id is not lower than `id`. */
function placeOf(active: readonly CompiledFlag[], id: number): number {
  let low = 0
  let high = active.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((active[middle]?.flag.id ?? 0) < id) low = middle + 1
    else high = middle
  }
  return low
}

function isActive({ active, deleted }: Flag): boolean {
  return active && !deleted
}

/**
 * Returns whether a change keeps the references of a flag. This is so if the flag existed before and still exists, was
 * neither switched on nor off, and refers to the same flags and cohorts as before.
 */
function hasSameReferences({ before, now }: FlagChange): boolean {
  if (before === null || now === null) return false
  if (before.active !== now.active || before.deleted !== now.deleted) return false
  const [old, next] = [referencesOf(before), referencesOf(now)]
  return isSameList(old.flags, next.flags) && isSameList(old.cohorts, next.cohorts)
}

function isSameList(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((id, index) => id === other[index])
}

function referencesOf(flag: Flag): References {
  if (!isActive(flag)) return NO_REFERENCES
  const known = referencesOfFlag.get(flag)
  if (known !== undefined) return known
  const references = { flags: dependenciesOf(flag), cohorts: cohortsOfFlag(flag) }
  referencesOfFlag.set(flag, references)
  return references
}

function testsOf(cohorts: ReadonlyMap<number, CompiledCohort>): EvaluationRules['cohortTests'] {
  const tests = new Map<number, CohortTest | null>()
  for (const [id, { test }] of cohorts) tests.set(id, test)
  return tests
}
