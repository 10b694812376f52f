/**
 * Copies of an experiment in another project: the flag, the saved metrics and the fields that the copy needs there.
 * Objects of the other project are found by their names, because the numbers differ between projects. Source:
 * docs/compatibility/experiments.md, "Copies in other projects".
 */
import { ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject, objectsOf } from '../../../base/json.ts'
import {
  bodyOfPortable,
  hasNumbers,
  namesIn,
  portableFlag,
} from '../../flags/edit/portable-flag.ts'
import type { Flag, FlagSet } from '../../flags/types.ts'
import { duplicateOf, type ExperimentCommand } from './experiment-changes.ts'
import { conditionForAll, isShipped, variantsOfFlag } from './flag-of-experiment.ts'
import { METRIC_LISTS } from './metric-fields.ts'
import type { Experiment, ExperimentView } from './stored-experiment.ts'

/** The name of the event property that contains the key of a group. It ends with the index of the group type. */
const GROUP_PROPERTY = /^\$group_([0-4])$/

/** The members of the body of a request that copies an experiment. */
export interface CopyWish {
  /** The key of the flag in the other project. The default is the key of the flag of the experiment. */
  readonly feature_flag_key?: string | undefined
  readonly name?: string | undefined
}

/**
 * Returns the change that creates the copy in the project `to`. `flag` is the flag of the experiment in the project
 * `from`. Throws 400 if the flag is deleted, or if the experiment refers to something that the other project lacks.
 */
export function copiedExperiment(
  { experiment, savedMetrics }: ExperimentView,
  flag: Flag,
  { feature_flag_key: key = flag.key, name }: CopyWish,
  from: FlagSet,
  to: FlagSet,
): ExperimentCommand {
  const { fields } = experiment
  if (flag.deleted) {
    throw refused(
      `The flag \`${flag.key}\` is deleted. Restore it first, or duplicate the experiment.`,
    )
  }
  const links = (fields.saved_metrics ?? []).flatMap(({ saved_metric: id, metadata }) => {
    return savedMetrics.filter((one) => one.id === id).map((metric) => ({ metric, metadata }))
  })
  const metrics = [
    ...METRIC_LISTS.flatMap((list) => fields[list]),
    ...links.map(({ metric }) => metric.fields.metric),
  ]
  requirePortable([metrics, fields.exposure_criteria], from, to)
  const { parameters, ...input } = duplicateOf(experiment, key, fields.name)
  const { feature_flag_variants: _, ...others } = parameters ?? {}
  const isKnown = to.flags.some((one) => one.key === key)
  return {
    action: 'copy',
    // A holdout belongs to one project.
    input: { ...input, parameters: others, holdout_id: null },
    name,
    flag: isKnown ? null : copiedFlag(experiment, flag, key, from, to),
    savedMetrics: links.map(({ metric: { fields: saved }, metadata }) => {
      const { metric: query, ...rest } = saved
      return { draft: { ...rest, query }, metadata }
    }),
  }
}

/**
 * Returns the body that creates the flag of the copy. The flag is off, and has the variants with which the experiment
 * was launched. Throws 400 if the flag refers to something that the other project lacks.
 */
function copiedFlag(
  { fields }: Experiment,
  flag: Flag,
  key: string,
  from: FlagSet,
  to: FlagSet,
): JsonObject {
  const { holdout: _, holdout_groups: __, ...filters } = flag.filters
  const conditions = objectsOf(filters['groups']).filter((one) => !isShipped(one))
  const copied: Flag = {
    ...flag,
    key,
    active: false,
    filters: {
      ...filters,
      groups: conditions.length === 0 ? [conditionForAll(filters)] : conditions,
      multivariate: { variants: fields.variants ?? variantsOfFlag(flag) },
    },
  }
  const portable = portableFlag(copied, from)
  const flagNumber = (wanted: string) => to.flags.find((one) => one.key === wanted)?.id ?? null
  const { body, faults: lacking } = bodyOfPortable(portable, namesIn(to, flagNumber))
  const index = unnamedGroupType(portable, to)
  if (index !== null) {
    const what = `the group type ${index}, which has no name yet, and which is ${JSON.stringify(to.groupTypes.get(index))} in the target`
    throw refused(`The flag \`${flag.key}\` cannot be copied. It refers to ${what}.`)
  }
  const unnamed = 'It refers to a flag or cohort that was deleted, or whose name is not unique'
  const faults = hasNumbers(portable) ? [...lacking, unnamed] : lacking
  if (faults.length === 0) return body
  const detail = `The flag \`${flag.key}\` cannot be copied. ${faults.join('. ')}. Create what the target lacks, or copy the flag with \`copy_flags/\` first.`
  throw refused(detail)
}

/**
 * Returns the index of a group type that a flag in the form of a file refers to by number, because the source has no
 * group type with this index, although the target has one. Returns null if there is none.
 */
function unnamedGroupType(portable: JsonObject, to: FlagSet): number | null {
  for (const one of objectsWithin(portable['filters'])) {
    for (const name of ['aggregation_group_type_index', 'group_type_index']) {
      const index = one[name]
      if (typeof index === 'number' && to.groupTypes.has(index)) return index
    }
  }
  return null
}

/**
 * Throws 400 if a value within an experiment refers to an action, a cohort or a group type by a number that stands for
 * something else in the other project.
 */
function requirePortable(value: unknown, from: FlagSet, to: FlagSet): void {
  for (const one of objectsWithin(value)) {
    const what = numbered(one, from, to)
    if (what === null) continue
    const detail = `A metric or \`exposure_criteria\` refers to ${what} by its number, which another project does not have. Use an event with property filters instead.`
    throw refused(detail)
  }
}

/** Yields every object within a value. There is no recursion, so deep values are safe. */
function* objectsWithin(value: unknown): Generator<JsonObject> {
  const pending: unknown[] = [value]
  while (pending.length > 0) {
    const one = pending.pop()
    if (Array.isArray(one)) for (const item of one) pending.push(item)
    if (!isObject(one)) continue
    yield one
    for (const member of Object.values(one)) pending.push(member)
  }
}

/**
 * Returns a text such as `an action` if an object refers to something by a number that stands for something else in the
 * other project. Otherwise returns null.
 */
function numbered(filter: JsonObject, from: FlagSet, to: FlagSet): string | null {
  const { kind, type } = filter
  if (kind === 'ActionsNode') return 'an action'
  if (typeof type === 'string' && type.endsWith('cohort')) return 'a cohort'
  const index = groupTypeIn(filter)
  if (index === null) return null
  const isSame = from.groupTypes.get(index) === to.groupTypes.get(index)
  return isSame ? null : `the group type ${index}`
}

/** Returns the index of the group type that a filter or the source of a value refers to, or null. */
function groupTypeIn({
  type = 'event',
  key,
  math_property: property,
  group_type_index: index,
}: JsonObject): number | null {
  if (typeof index === 'number') return index
  // The events of a group contain its key as a property.
  const name = type === 'event' ? (property ?? key) : null
  const found = typeof name === 'string' ? GROUP_PROPERTY.exec(name) : null
  return found === null ? null : Number(found[1])
}

function refused(detail: string): ServiceError {
  return new ServiceError('invalid_input', detail)
}
