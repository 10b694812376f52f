/**
 * The flag of an experiment: which flags can have an experiment, the flag that is created for a new experiment, and the
 * changes that an experiment makes to its flag. The changes are request bodies for flags, so the rules of flags apply
 * to them. Source: docs/compatibility/experiments.md, "The flag".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { isObject, isSameJson, type JsonObject, objectsOf } from '../../../base/json.ts'
import { groupTypeOf, withGroupType } from '../../flags/group-type.ts'
import type { Flag } from '../../flags/types.ts'
import { STORED_VARIANTS_MAX } from './limits.ts'
import {
  countedKey,
  type Experiment,
  type ExperimentFields,
  type FlagVariant,
  type Holdout,
  type RunningChange,
  statusOf,
} from './stored-experiment.ts'

/** The key of the variant with which the other variants are compared, unless the experiment names another one. */
const CONTROL = 'control'

const DEFAULT_VARIANTS: readonly FlagVariant[] = [
  { key: CONTROL, rollout_percentage: 50 },
  { key: 'test', rollout_percentage: 50 },
]
const EVERYBODY = 100
const SHIPPED = /^Serves .* to everybody since the end of the experiment\.$/s

/**
 * Returns the variants in `parameters`, or null if there are none. In a variant, `split_percent` is another name of
 * `rollout_percentage`. Throws 400 whose `attr` is `parameters`.
 */
export function variantsIn(parameters: JsonObject): readonly FlagVariant[] | null {
  const { feature_flag_variants: found = null } = parameters
  if (found === null) return null
  if (!Array.isArray(found)) throw invalid('needs a list as `feature_flag_variants`')
  const variants = found.map((one: unknown, index) => variantOf(one, index))
  requireComparable(variants, 'parameters')
  const sum = variants.reduce((total, { rollout_percentage }) => total + rollout_percentage, 0)
  if (Math.abs(sum - EVERYBODY) > 1e-9) {
    throw invalid(`needs variants whose \`rollout_percentage\` adds up to 100, not ${sum}`)
  }
  return variants
}

/**
 * Returns the variants of a flag. Throws 400 whose `attr` is `feature_flag_key` if the flag cannot have an experiment.
 */
export function variantsOfFlag({ key, filters }: Flag): readonly FlagVariant[] {
  const { multivariate } = filters
  const attr = 'feature_flag_key'
  const found = isObject(multivariate) ? objectsOf(multivariate['variants']) : []
  if (found.length === 0) {
    const detail = `The flag \`${key}\` has no variants. Add the variant \`${CONTROL}\` and at least one more, or choose a key that no flag has.`
    throw new ServiceError('invalid_input', detail, { attr })
  }
  if (groupTypeOf(filters) === undefined) {
    const detail = `The conditions of the flag \`${key}\` have different group types, so neither persons nor groups can be counted. Give all conditions the same group type.`
    throw new ServiceError('invalid_input', detail, { attr })
  }
  // The rules of flags ensure that every variant has a key.
  const variants = found.map(({ key: name, name: title, rollout_percentage: share }) => ({
    key: String(name),
    ...(typeof title === 'string' ? { name: title } : {}),
    rollout_percentage: typeof share === 'number' ? share : 0,
  }))
  requireComparable(variants, attr)
  return variants
}

/**
 * Returns the variants and the group type that an experiment has from its launch on. Throws the errors of
 * `variantsOfFlag`.
 */
export function launchedWith(
  flag: Flag,
): Pick<ExperimentFields, 'variants'> & { readonly group_type_index: number | null } {
  return { variants: variantsOfFlag(flag), group_type_index: groupTypeOf(flag.filters) ?? null }
}

/** Returns the index of the group type whose groups an experiment counts, or null if it counts persons. */
export function countedGroupType(
  { variants, group_type_index: atLaunch = null }: ExperimentFields,
  flag: Flag | null,
): number | null {
  return variants === null ? (groupTypeOf(flag?.filters ?? {}) ?? null) : atLaunch
}

/**
 * Returns the index of the group type in `parameters`, null for persons, or undefined if the member is absent. Throws
 * 400 whose `attr` is `parameters`.
 */
function groupTypeIn({
  aggregation_group_type_index: index,
}: JsonObject): number | null | undefined {
  if (index === undefined) return undefined
  const type = groupTypeOf({ aggregation_group_type_index: index })
  if (type !== undefined) return type
  throw invalid('needs a whole number from 0 to 4, or null, as `aggregation_group_type_index`')
}

/** Throws 400 if a body names a group type other than `groupType`. Null stands for persons. */
export function requireSameGroupType(parameters: JsonObject, groupType: number | null): void {
  const wanted = groupTypeIn(parameters)
  if (wanted === undefined || wanted === groupType) return
  const own = groupType === null ? 'persons' : `the groups of type ${groupType}`
  throw invalid(`may not change \`aggregation_group_type_index\`: the flag is decided for ${own}`)
}

/** Returns the request body that creates the flag of a new experiment. */
export function flagBodyOf(
  experiment: { readonly name: string; readonly key: string; readonly isLaunched: boolean },
  parameters: JsonObject,
  holdout: Holdout | null,
): JsonObject {
  const { rollout_percentage: rollout, feature_flag_payloads: payloads } = parameters
  const { ensure_experience_continuity: continuity } = parameters
  const groupType = groupTypeIn(parameters) ?? null
  const variants = variantsIn(parameters) ?? DEFAULT_VARIANTS
  return {
    key: experiment.key,
    name: `Variants of the experiment "${experiment.name}"`.slice(0, NAME_UNITS),
    active: experiment.isLaunched,
    ensure_experience_continuity: continuity === true,
    filters: {
      groups: [{ properties: [], rollout_percentage: rolloutIn(rollout) ?? EVERYBODY }],
      multivariate: { variants },
      ...(groupType === null ? {} : { aggregation_group_type_index: groupType }),
      ...(isObject(payloads) ? { payloads } : {}),
      ...(holdout === null ? {} : holdoutFilters(holdout)),
    },
  }
}

/** The number of UTF-16 units to which the description of a new flag is cut. The limit of flags is higher. */
const NAME_UNITS = 400

/** Returns the member of a flag's filters that excludes the persons of a holdout from the variants. */
export function holdoutFilters(holdout: Holdout | null): JsonObject {
  if (holdout === null) return { holdout: null }
  const { id, fields } = holdout
  return { holdout: { id, exclusion_percentage: fields.percentage } }
}

/**
 * Returns a condition for everybody. It has the group type of the other conditions, so that the flag is not decided for
 * groups and for persons at once.
 */
export function conditionForAll(filters: JsonObject): JsonObject {
  const type = groupTypeOf(filters) ?? null
  const isCommon = type === (filters['aggregation_group_type_index'] ?? null)
  return {
    properties: [],
    rollout_percentage: EVERYBODY,
    ...(isCommon ? {} : { aggregation_group_type_index: type }),
  }
}

/**
 * Returns the filters that make a flag serve one variant. If `toEveryone` is true, everybody gets it. Otherwise only
 * persons who match the conditions of the flag get it. Throws 400 if the flag has no such variant.
 */
export function shippedFilters(flag: Flag, variant: string, toEveryone: boolean): JsonObject {
  const variants = variantsOfFlag(flag)
  if (!variants.some(({ key }) => key === variant)) {
    const known = variants.map(({ key }) => key).join(', ')
    const detail = `The flag \`${flag.key}\` has no variant ${JSON.stringify(variant)}. Choose one of ${known}.`
    throw new ServiceError('invalid_input', detail, { attr: 'variant_key' })
  }
  const { groups, multivariate, ...others } = flag.filters
  const shipped = isObject(multivariate) ? objectsOf(multivariate['variants']) : []
  const everybody = {
    ...conditionForAll(flag.filters),
    description: `Serves ${variant} to everybody since the end of the experiment.`,
  }
  const [first, ...rest] = objectsOf(groups)
  // If a variant was shipped before, its condition is replaced.
  const before = first !== undefined && isShipped(first) ? rest : objectsOf(groups)
  return {
    ...others,
    groups: toEveryone ? [everybody, ...before] : objectsOf(groups),
    multivariate: {
      variants: shipped.map((one) => ({
        ...one,
        rollout_percentage: one['key'] === variant ? EVERYBODY : 0,
      })),
    },
    ...(toEveryone && others['holdout'] !== undefined ? { holdout: null } : {}),
    ...(toEveryone && others['holdout_groups'] !== undefined ? { holdout_groups: null } : {}),
  }
}

/** Returns whether a condition was made by `shippedFilters` and is still unchanged. */
export function isShipped(condition: JsonObject): boolean {
  const { properties, rollout_percentage: rollout, description, ...rest } = condition
  const { aggregation_group_type_index: _, ...others } = rest
  const isForAll = rollout === EVERYBODY && Array.isArray(properties) && properties.length === 0
  return (
    isForAll &&
    Object.values(others).every((value) => value === null) &&
    typeof description === 'string' &&
    SHIPPED.test(description)
  )
}

/**
 * Returns the filters that the flag of a draft has after a change of the parameters or the holdout. Returns null if
 * they stay the same. Throws 400.
 */
export function draftFilters(
  flag: Flag,
  parameters: JsonObject | undefined,
  holdout: Holdout | null | undefined,
): JsonObject | null {
  const variants = parameters === undefined ? null : variantsIn(parameters)
  const rollout = parameters === undefined ? null : rolloutIn(parameters['rollout_percentage'])
  const groupType = parameters === undefined ? undefined : groupTypeIn(parameters)
  const isSameType = groupType === undefined || groupType === groupTypeOf(flag.filters)
  const typed = isSameType ? flag.filters : withGroupType(flag.filters, groupType)
  const [first, ...others] = objectsOf(typed['groups'])
  const filters = {
    ...typed,
    ...(variants === null ? {} : { multivariate: { variants } }),
    ...(rollout === null || first === undefined
      ? {}
      : { groups: [{ ...first, rollout_percentage: rollout }, ...others] }),
    ...(holdout === undefined ? {} : holdoutFilters(holdout)),
  }
  return isSameJson(filters, flag.filters) ? null : filters
}

/** Throws 400 if a body changes the variants of an experiment that was launched. */
export function requireSameVariants(
  parameters: JsonObject,
  variants: readonly FlagVariant[],
): void {
  const wanted = variantsIn(parameters)
  if (wanted === null || isSameJson(shares(wanted), shares(variants))) return
  throw invalid(
    'may not change `feature_flag_variants` after the launch, because persons would change their variant. Reset or duplicate the experiment',
  )
}

/** Returns the kinds of changes between two states of a flag that can spoil the results of its running experiments. */
export function runningChangesOfFlag(before: Flag, after: Flag): RunningChange['change'][] {
  const differs = (...names: readonly string[]) =>
    names.some((name) => !isSameJson(before.filters[name] ?? null, after.filters[name] ?? null))
  const changes: RunningChange['change'][] = []
  if (differs('multivariate')) changes.push('variants')
  if (differs('groups', 'super_groups', 'aggregation_group_type_index')) changes.push('conditions')
  if (differs('holdout', 'holdout_groups')) changes.push('holdout')
  if (before.active !== after.active) changes.push(after.active ? 'resumed' : 'paused')
  const isOther =
    before.bucketingIdentifier !== after.bucketingIdentifier ||
    before.ensureExperienceContinuity !== after.ensureExperienceContinuity ||
    before.evaluationRuntime !== after.evaluationRuntime
  if (isOther) changes.push('flag')
  return changes
}

/**
 * Throws 400 if a flag with experiments must not be deleted or renamed. A running experiment needs its flag, and the
 * result of a launched experiment is counted under the key of the flag.
 */
export function requireFlagOfExperiments(
  before: Flag,
  after: Flag,
  experiments: readonly Experiment[],
): void {
  const isDeleting = after.deleted && !before.deleted
  const isRenaming = after.key !== before.key
  if (!isDeleting && !isRenaming) return
  const found = experiments.find(({ fields }) => {
    if (isDeleting) return statusOf(fields) === 'running'
    return fields.start_date !== null && countedKey(fields, before) === before.key
  })
  if (found === undefined) return
  const named = `experiment ${found.id} (${JSON.stringify(found.fields.name)})`
  const detail = isDeleting
    ? `Cannot delete the flag \`${before.key}\`, because ${named} is running. End the experiment first.`
    : `Cannot rename the flag \`${before.key}\`, because the result of ${named} is counted under this key. Reset or delete the experiment first.`
  throw new ServiceError('invalid_input', detail, { attr: isDeleting ? 'deleted' : 'key' })
}

function variantOf(found: unknown, index: number): FlagVariant {
  const place = `\`feature_flag_variants.${index}\``
  if (!isObject(found)) throw invalid(`needs an object as ${place}`)
  const { key, name, rollout_percentage: rollout, split_percent: split = rollout } = found
  if (typeof key !== 'string' || key === '') {
    throw invalid(`needs a text that is not empty as \`key\` of ${place}`)
  }
  const isShare = typeof split === 'number' && split >= 0 && split <= EVERYBODY
  if (!isShare) throw invalid(`needs a number from 0 to 100 as \`rollout_percentage\` of ${place}`)
  const title = typeof name === 'string' && name !== '' ? { name } : {}
  return { key, ...title, rollout_percentage: split }
}

/** Throws 400 unless the variants contain the control and at least one other variant. */
function requireComparable(variants: readonly FlagVariant[], attr: string): void {
  const keys = variants.map(({ key }) => key)
  const fault = comparableFault(keys)
  if (fault !== null) throw invalidInput(attr, fault, 'The experiment')
}

function comparableFault(keys: readonly string[]): string | null {
  if (keys.length === 0) return `needs the variant \`${CONTROL}\` and at least one more`
  if (!keys.includes(CONTROL)) {
    return `needs a variant with the key \`${CONTROL}\`, which the others are compared with. Its variants are ${keys.join(', ')}`
  }
  if (keys.length < 2) return `needs at least one variant besides \`${CONTROL}\``
  if (keys.length > STORED_VARIANTS_MAX) {
    return `may have at most ${STORED_VARIANTS_MAX} variants`
  }
  const twice = keys.find((key, index) => keys.indexOf(key) !== index)
  return twice === undefined ? null : `names the variant ${JSON.stringify(twice)} twice`
}

function rolloutIn(rollout: unknown): number | null {
  if (rollout === undefined || rollout === null) return null
  if (typeof rollout === 'number' && rollout >= 0 && rollout <= EVERYBODY) return rollout
  throw invalid('needs a number from 0 to 100 as `rollout_percentage`')
}

function shares(variants: readonly FlagVariant[]): JsonObject {
  return Object.fromEntries(variants.map(({ key, rollout_percentage: share }) => [key, share]))
}

function invalid(what: string): ServiceError {
  return invalidInput('parameters', what)
}
