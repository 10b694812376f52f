/**
 * Plans how to change several flags of a project to the state that files describe. If flags of a plan depend on each
 * other, each is changed after the flags that it needs. The functions are pure; the store carries out the plan. Source:
 * docs/FLAGS-IN-FILES.md.
 */
import { ServiceError } from '../../../base/errors.ts'
import { isSameJson, type JsonObject } from '../../../base/json.ts'
import { DEPENDENTS_NAMED_MAX } from '../limits.ts'
import type { Flag, FlagRepository, FlagSet } from '../types.ts'
import { writableFields } from './flag-body.ts'
import { changeFlag, draftFlag } from './flag-changes.ts'
import { bodyOfPortable, dependenciesOfPortable, namesIn } from './portable-flag.ts'

/** What a plan does with a flag. */
export type PlannedAction = 'create' | 'update' | 'delete' | 'none'

/** A flag of a plan. */
export interface PlannedFlag {
  readonly key: string
  /** The wanted state of the flag, in the form of a file. */
  readonly wanted: JsonObject
  readonly action: PlannedAction
  /** The flag before the plan. Null if the flag does not exist. */
  readonly before: Flag | null
  /** The flag after the plan. Null if the plan deletes the flag. A new flag has an id that no stored flag has. */
  readonly after: Flag | null
}

/** The changes of a plan, and the flags that cannot be brought to the state in their file. */
export interface FlagsPlan {
  /** The flags in the order in which they must be changed. */
  readonly flags: readonly PlannedFlag[]
  readonly faults: readonly { readonly key: string; readonly detail: string }[]
}

/**
 * Throws 400 if an object that uses a flag, such as an experiment, does not allow a change of the flag. `before` is
 * null for a new flag. The module that stores flags implements it.
 */
export type FlagChangeCheck = (before: Flag | null, after: Flag) => void

/**
 * The id of the first new flag of a plan. The ids of further new flags count down from it. No stored flag has such an
 * id.
 */
const FIRST_NEW_ID = 999_999_999_999_999

/**
 * Plans how to change the flags of a set. `wanted` contains the wanted states in the form of a file, with unique keys.
 * A flag that is not in the list stays as it is. If `check` refuses a change, this is a fault of the plan. The cost is
 * linear in the number of flags, apart from dependencies within the plan.
 */
export function planFlags(
  wanted: readonly JsonObject[],
  set: FlagSet,
  nowMs: number,
  check: FlagChangeCheck = () => {},
): FlagsPlan {
  const repository = new PlannedRepository(set, nowMs, check)
  const flags: PlannedFlag[] = []
  let pending = wanted
  // A change may only be possible after another change of the plan: after a dependency is created, or after a flag that
  // depends on this one is switched off. The changes that failed are therefore tried again as long as others succeed.
  for (;;) {
    const faults: { key: string; detail: string }[] = []
    const left: JsonObject[] = []
    for (const flag of pending) {
      try {
        flags.push(repository.apply(flag))
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error
        faults.push({ key: String(flag['key']), detail: error.message })
        left.push(flag)
      }
    }
    if (left.length === 0 || left.length === pending.length) {
      return { flags, faults: withCircles(faults, repository.missingCircles(left)) }
    }
    pending = left
  }
}

/**
 * Replaces the faults of flags that depend on each other in a circle. Otherwise each of these flags would be reported
 * as missing.
 */
function withCircles(
  faults: FlagsPlan['faults'],
  circles: ReadonlyMap<string, string>,
): FlagsPlan['faults'] {
  return faults.map(({ key, detail }) => ({ key, detail: circles.get(key) ?? detail }))
}

/** Returns the set of flags as it is after a plan, so that decisions can be computed with it. */
export function plannedSet(set: FlagSet, { flags }: FlagsPlan): FlagSet {
  const byId = new Map(set.flags.map((flag) => [flag.id, flag]))
  for (const { before, after } of flags) {
    if (before !== null && after === null) byId.delete(before.id)
    if (after !== null) byId.set(after.id, after)
  }
  return { ...set, flags: [...byId.values()].sort((one, other) => one.id - other.id) }
}

/** The flags of a project, with the changes of the plan that were planned so far. */
class PlannedRepository implements FlagRepository {
  readonly nowMs: number
  readonly #set: FlagSet
  readonly #check: FlagChangeCheck
  readonly #byId: Map<number, Flag>
  readonly #byKey: Map<string, Flag>
  #nextId = FIRST_NEW_ID

  constructor(set: FlagSet, nowMs: number, check: FlagChangeCheck) {
    this.#set = set
    this.#check = check
    this.nowMs = nowMs
    this.#byId = new Map(set.flags.map((flag) => [flag.id, flag]))
    this.#byKey = new Map(set.flags.map((flag) => [flag.key, flag]))
  }

  get flags(): readonly Flag[] {
    return [...this.#byId.values()]
  }

  flagById(id: number): Flag | null {
    return this.#byId.get(id) ?? null
  }

  flagByKey(key: string): Flag | null {
    return this.#byKey.get(key) ?? null
  }

  cohort(id: number) {
    return this.#set.cohorts.get(id) ?? null
  }

  /** Files contain no dashboards, so no dashboard has to be found. */
  hasDashboard(): boolean {
    return false
  }

  /** Plans the change of one flag to the state in a file. Throws 400. */
  apply(flag: JsonObject): PlannedFlag {
    const key = String(flag['key'])
    const before = this.flagByKey(key)
    if (flag['deleted'] === true) return this.#delete(flag, before)
    const { body, faults } = bodyOfPortable(
      flag,
      namesIn(this.#set, (name) => this.flagByKey(name)?.id ?? null),
    )
    if (faults.length > 0) throw new ServiceError('invalid_input', `${faults.join('. ')}.`)
    if (before === null) {
      const nobody = { createdById: null, lastModifiedById: null, updatedAtMs: this.nowMs }
      const { projectId } = this.#set
      const id = this.#nextId--
      const after: Flag = { ...draftFlag(body, this), ...nobody, id, projectId, version: 1 }
      this.#check(null, after)
      this.#put(after)
      return { key, wanted: flag, action: 'create', before, after }
    }
    const draft = changeFlag(before, body, false, this)
    const after: Flag = { ...before, ...draft, version: before.version + 1 }
    if (isSameJson(comparable(before), comparable(after))) {
      return { key, wanted: flag, action: 'none', before, after: before }
    }
    this.#check(before, after)
    this.#put(after)
    return { key, wanted: flag, action: 'update', before, after }
  }

  /**
   * Finds the flags of a plan that cannot be created because they depend on each other in a circle, and the flags that
   * depend on such flags. Returns the reason for each of them, by key.
   */
  missingCircles(left: readonly JsonObject[]): ReadonlyMap<string, string> {
    const byKey = new Map(left.map((flag) => [String(flag['key']), flag]))
    const isMissing = (key: string) => byKey.has(key) && this.flagByKey(key) === null
    let needs = new Map<string, readonly string[]>()
    for (const [key, flag] of byKey) {
      const missing = dependenciesOfPortable(flag).filter(isMissing)
      if (flag['deleted'] !== true && missing.length > 0) needs.set(key, missing)
    }
    // A flag that needs no other flag of the list is not part of a circle and depends on none, so it is removed. This
    // is repeated until nothing changes. Each remaining flag then needs another remaining flag, so following the needs
    // of any flag ends in a circle.
    for (;;) {
      const rest = new Map<string, readonly string[]>()
      for (const [key, keys] of needs) {
        const others = keys.filter((other) => needs.has(other))
        if (others.length > 0) rest.set(key, others)
      }
      const isComplete = rest.size === needs.size
      needs = rest
      if (isComplete) break
    }
    const known = namesIn(this.#set, (key) => {
      return this.flagByKey(key)?.id ?? (byKey.has(key) ? FIRST_NEW_ID : null)
    })
    const reasons = new Map<string, string>()
    for (const key of needs.keys()) {
      // The flag may have other faults besides the circle, such as an unknown cohort. The reason names them too.
      const { faults } = bodyOfPortable(byKey.get(key) ?? {}, known)
      reasons.set(key, `${[...faults, circleText(key, circleFrom(key, needs))].join('. ')}.`)
    }
    return reasons
  }

  #delete(wanted: JsonObject, before: Flag | null): PlannedFlag {
    const key = String(wanted['key'])
    if (before === null) return { key, wanted, action: 'none', before: null, after: null }
    const draft = changeFlag(before, { deleted: true }, false, this)
    this.#check(before, { ...before, ...draft })
    this.#byId.delete(before.id)
    this.#byKey.delete(key)
    return { key, wanted, action: 'delete', before, after: null }
  }

  #put(flag: Flag): void {
    this.#byId.set(flag.id, flag)
    this.#byKey.set(flag.key, flag)
  }
}

/**
 * Returns the keys of a circle of flags. It is found by following the first dependency of each flag from `start`. Every
 * flag of `needs` must have a dependency in `needs`.
 */
function circleFrom(
  start: string,
  needs: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  const path: string[] = []
  const places = new Map<string, number>()
  let key = start
  while (!places.has(key)) {
    places.set(key, path.push(key) - 1)
    key = needs.get(key)?.[0] ?? start
  }
  return path.slice(places.get(key))
}

/** Returns a sentence which says that a flag is part of a circle, or depends on one. */
function circleText(key: string, circle: readonly string[]): string {
  const names = circle.slice(0, DEPENDENTS_NAMED_MAX).map((one) => `\`${one}\``)
  const more = circle.length - names.length
  const flags = names.join(', ') + (more > 0 ? ` and ${more} more` : '')
  const isOwn = circle.includes(key)
  if (circle.length === 1) {
    return isOwn
      ? `The flag ${flags} depends on itself`
      : `It depends on the flag ${flags}, which depends on itself`
  }
  return isOwn
    ? `The flags ${flags} depend on each other in a circle`
    : `It depends on the flags ${flags}, which depend on each other in a circle`
}

/** Returns the fields that files decide about. A missing value of experience continuity counts as false. */
function comparable(flag: Flag): JsonObject {
  const fields = writableFields(flag)
  return {
    ...fields,
    performed_rollback: null,
    ensure_experience_continuity: flag.ensureExperienceContinuity === true,
  }
}
