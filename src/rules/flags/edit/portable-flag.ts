/**
 * The form of flags in files, in which flags can also be copied to another project. It names cohorts, other flags and
 * group types instead of giving their numbers, because the numbers differ between projects. A member that a file leaves
 * out has its default value, so that a file determines the whole flag. Source: docs/FLAGS-IN-FILES.md.
 */
import { isObject, type JsonObject, objectsOf } from '../../../base/json.ts'
import { referenceOf } from '../flag-references.ts'
import type { Flag, FlagSet } from '../types.ts'

/** The members of filters that are lists of conditions. */
const CONDITION_LISTS = ['groups', 'super_groups', 'holdout_groups'] as const

/** The members of a flag in a file, except `key` and `filters`, with their default values. */
const USUAL: JsonObject = {
  name: '',
  active: true,
  tags: [],
  evaluation_contexts: [],
  evaluation_runtime: 'all',
  bucketing_identifier: null,
  ensure_experience_continuity: false,
  is_remote_configuration: false,
}

/** The filters of a flag that is on for everyone. */
const EVERYONE: JsonObject = { groups: [{ properties: [], rollout_percentage: 100 }] }

/** Finds the objects of a project by their names. */
export interface NamedObjects {
  cohortsNamed(name: string): readonly number[]
  /** Returns the id of the flag with a key, or null. */
  flagNumber(key: string): number | null
  /** Returns the index of a group type, or null. */
  groupIndex(name: string): number | null
}

/** The request body for a flag, and the reasons why a file cannot be turned into one. */
export interface ReadFlag {
  readonly body: JsonObject
  /** Sentences without a full stop. Empty if the body is complete. */
  readonly faults: readonly string[]
}

/**
 * Returns a flag in the form of a file. A reference to an object stays a number if other objects have the same name.
 */
export function portableFlag(flag: Flag, set: FlagSet): JsonObject {
  const own: JsonObject = {
    name: flag.name,
    active: flag.active,
    tags: flag.tags,
    evaluation_contexts: flag.evaluationContexts,
    evaluation_runtime: flag.evaluationRuntime,
    bucketing_identifier: flag.bucketingIdentifier,
    ensure_experience_continuity: flag.ensureExperienceContinuity ?? false,
    is_remote_configuration: flag.isRemoteConfiguration,
  }
  const unusual = Object.entries(own).filter(([name, value]) => {
    return JSON.stringify(value) !== JSON.stringify(USUAL[name])
  })
  return {
    key: flag.key,
    ...Object.fromEntries(unusual),
    filters: portableFilters(flag.filters, set),
  }
}

/**
 * Returns the body of a request that sets a flag to the state in a file. If `filters` are left out, the flag is on for
 * everyone.
 */
export function bodyOfPortable(flag: JsonObject, names: NamedObjects): ReadFlag {
  const faults: string[] = []
  const { filters = EVERYONE, deleted: _, ...members } = flag
  const body = {
    ...USUAL,
    ...members,
    filters: isObject(filters) ? storedFilters(filters, names, faults) : filters,
  }
  return { body, faults: [...new Set(faults)] }
}

/** Returns functions that find the cohorts and group types of a set by name. `flagNumber` finds the flags. */
export function namesIn(
  { cohorts, groupTypes }: Pick<FlagSet, 'cohorts' | 'groupTypes'>,
  flagNumber: (key: string) => number | null,
): NamedObjects {
  return {
    cohortsNamed: (name) => {
      return [...cohorts.values()].filter((cohort) => cohort.name === name).map(({ id }) => id)
    },
    flagNumber,
    groupIndex: (name) => [...groupTypes].find(([, type]) => type === name)?.[0] ?? null,
  }
}

/** Returns the keys of the flags that a flag in the form of a file depends on. */
export function dependenciesOfPortable(flag: JsonObject): readonly string[] {
  return [...new Set(membersOf(flag, 'flag'))]
}

/** Returns the names of the cohorts that a flag in the form of a file refers to. */
export function cohortsOfPortable(flag: JsonObject): readonly string[] {
  return [...new Set(membersOf(flag, 'cohort'))]
}

/**
 * Returns whether a flag refers to another flag or a cohort by number, because no name identifies it. Such a flag
 * cannot be copied to another project.
 */
export function hasNumbers(flag: JsonObject): boolean {
  return propertiesIn(flag['filters']).some(({ type, flag: key, cohort }) => {
    return (type === 'flag' && key === undefined) || (type === 'cohort' && cohort === undefined)
  })
}

/**
 * Returns the tree of a cohort in which the numbers of other cohorts are replaced. `numberOf` returns the new number,
 * or null to keep the old one.
 */
export function withCohortNumbers(tree: unknown, numberOf: (id: number) => number | null): unknown {
  if (Array.isArray(tree)) return tree.map((entry) => withCohortNumbers(entry, numberOf))
  if (!isObject(tree)) return tree
  if (tree['type'] === 'cohort') {
    const id = referenceOf(tree['value'])
    return { ...tree, value: (id === null ? null : numberOf(id)) ?? tree['value'] }
  }
  return Object.fromEntries(
    Object.entries(tree).map(([name, value]) => [name, withCohortNumbers(value, numberOf)]),
  )
}

const knownKeys = new WeakMap<FlagSet['flags'], ReadonlyMap<number, string>>()
const knownNames = new WeakMap<FlagSet['cohorts'], ReadonlyMap<number, string>>()

/**
 * Returns the keys of flags by their numbers. They are cached for each list, because every flag of a file needs them.
 */
function keysOf(flags: FlagSet['flags']): ReadonlyMap<number, string> {
  const known = knownKeys.get(flags)
  if (known?.size === flags.length) return known
  const keys = new Map(flags.map(({ id, key }) => [id, key]))
  knownKeys.set(flags, keys)
  return keys
}

/**
 * Returns the names of cohorts by their numbers, without names that several cohorts have. They are cached, because
 * every flag of a file needs them.
 */
function cohortNamesOf(cohorts: FlagSet['cohorts']): ReadonlyMap<number, string> {
  const known = knownNames.get(cohorts)
  if (known !== undefined) return known
  const counts = new Map<string, number>()
  for (const { name } of cohorts.values()) counts.set(name, (counts.get(name) ?? 0) + 1)
  const unique = [...cohorts.values()].filter(({ name }) => counts.get(name) === 1)
  const names = new Map(unique.map(({ id, name }) => [id, name]))
  knownNames.set(cohorts, names)
  return names
}

function portableFilters(filters: JsonObject, set: FlagSet): JsonObject {
  const keys = keysOf(set.flags)
  const cohortNames = cohortNamesOf(set.cohorts)
  return changedFilters(
    filters,
    (holder) => withGroupName(holder, 'aggregation_group_type', set.groupTypes),
    (property) => {
      const { cohort_name: _, ...rest } = withGroupName(property, 'group_type', set.groupTypes)
      if (property['type'] === 'flag') {
        const { key, ...others } = rest
        const name = keys.get(referenceOf(key) ?? -1)
        return name === undefined ? rest : { ...others, flag: name }
      }
      if (property['type'] === 'cohort') {
        const { key: __, value, ...others } = rest
        const name = cohortNames.get(referenceOf(value) ?? -1)
        return name === undefined ? rest : { ...others, cohort: name }
      }
      return rest
    },
  )
}

function storedFilters(filters: JsonObject, names: NamedObjects, faults: string[]): JsonObject {
  return changedFilters(
    filters,
    (holder) => withGroupIndex(holder, 'aggregation_group_type', names, faults),
    (property) => {
      const rest = withGroupIndex(property, 'group_type', names, faults)
      if (rest['type'] === 'flag' && typeof rest['flag'] === 'string') {
        const { flag: key, ...others } = rest
        const id = names.flagNumber(key)
        if (id === null) faults.push(`There is no flag ${JSON.stringify(key)}`)
        return { ...others, key: String(id ?? 0) }
      }
      if (rest['type'] === 'cohort' && typeof rest['cohort'] === 'string') {
        const { cohort: name, ...others } = rest
        const [id = 0, ...more] = names.cohortsNamed(name)
        if (id === 0) faults.push(`There is no cohort ${JSON.stringify(name)}`)
        if (more.length > 0) faults.push(`Several cohorts have the name ${JSON.stringify(name)}`)
        return { ...others, key: 'id', value: id }
      }
      return rest
    },
  )
}

/**
 * Returns a copy of filters with changes: `holderOf` replaces the filters themselves and each condition, because they
 * may contain a group type, and `propertyOf` replaces each property filter.
 */
function changedFilters(
  filters: JsonObject,
  holderOf: (holder: JsonObject) => JsonObject,
  propertyOf: (property: JsonObject) => JsonObject,
): JsonObject {
  const changed: Record<string, unknown> = { ...holderOf(filters) }
  for (const name of CONDITION_LISTS) {
    const list: unknown = filters[name]
    if (!Array.isArray(list)) continue
    changed[name] = list.map((condition: unknown) => {
      if (!isObject(condition)) return condition
      const { properties } = condition
      const holder = holderOf(condition)
      if (!Array.isArray(properties)) return holder
      const list = properties.map((one: unknown) => (isObject(one) ? propertyOf(one) : one))
      return { ...holder, properties: list }
    })
  }
  return changed
}

function withGroupName(
  holder: JsonObject,
  name: 'group_type' | 'aggregation_group_type',
  types: ReadonlyMap<number, string>,
): JsonObject {
  const { [`${name}_index`]: index, ...rest } = holder
  const type = typeof index === 'number' ? types.get(index) : undefined
  return type === undefined ? holder : { ...rest, [name]: type }
}

function withGroupIndex(
  holder: JsonObject,
  name: 'group_type' | 'aggregation_group_type',
  names: NamedObjects,
  faults: string[],
): JsonObject {
  const { [name]: type, ...rest } = holder
  if (typeof type !== 'string') return holder
  const index = names.groupIndex(type)
  if (index === null) faults.push(`There is no group type ${JSON.stringify(type)}`)
  return { ...rest, [`${name}_index`]: index }
}

function membersOf(flag: JsonObject, name: 'flag' | 'cohort'): readonly string[] {
  return propertiesIn(flag['filters'])
    .filter(({ type }) => type === name)
    .map((property) => property[name])
    .filter((value) => typeof value === 'string')
}

function propertiesIn(filters: unknown): readonly JsonObject[] {
  if (!isObject(filters)) return []
  const conditions = CONDITION_LISTS.flatMap((name) => objectsOf(filters[name]))
  return conditions.flatMap(({ properties }) => objectsOf(properties))
}
