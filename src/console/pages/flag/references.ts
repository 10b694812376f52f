/** The objects of a project to which the rules of a flag refer: cohorts, other flags and group types. */
import { get, may, project, type Shapes, useLoaded } from '../../kit.ts'
import type { Flag } from './draft.ts'
import type { Names } from './sentences.ts'

/** A group type, such as company. */
export type GroupType = Shapes['GroupType']

/** A flag with the members that rules of other flags need. */
interface OtherFlag {
  readonly id: number
  readonly key: string
  readonly variants: readonly string[]
}

/** The objects to which rules can refer, and their names. */
export interface FlagReferences {
  readonly names: Names
  readonly cohorts: readonly (readonly [id: number, name: string])[]
  /** The active flags of the project, without the flag of the page. */
  readonly flags: readonly OtherFlag[]
  readonly groupTypes: readonly GroupType[]
  /** The group type for which the flag is decided, or null for persons. */
  readonly groupType: GroupType | null
}

/** The fields offer at most this many cohorts and this many flags. */
const OFFERED_MAX = 1000

/** Loads the group types of the project, with their names. */
export async function loadGroupTypes(signal: AbortSignal): Promise<readonly GroupType[]> {
  return may('group:read') ? get('project/groups_types/', {}, signal) : []
}

/** Returns the plural of a group type. It is the one that somebody has entered, or else a regular plural. */
export function pluralOf({ name_plural: plural, group_type: type }: GroupType): string {
  return plural || (/[^aeiou]y$/.test(type) ? `${type.slice(0, -1)}ies` : `${type}s`)
}

/** Returns the objects to which the rules of a flag can refer. The lists are empty while they load. */
export function useReferences(flag: Flag): FlagReferences {
  const { data } = useLoaded(`flag references ${project.value.id}`, async (signal) => {
    const [types, cohorts, flags] = await Promise.all([
      loadGroupTypes(signal),
      may('cohort:read')
        ? get('project/cohorts/', { limit: OFFERED_MAX }, signal)
        : { results: [] },
      get('project/feature_flags/', { active: 'true', limit: OFFERED_MAX }, signal),
    ])
    return { types, cohorts: cohorts.results, flags: flags.results }
  })
  const cohorts = (data?.cohorts ?? []).map(({ id, name }) => [id, name] as const)
  const flags = (data?.flags ?? []).map(({ id, key, filters }) => ({
    id,
    key,
    variants: (filters.multivariate?.variants ?? []).map((variant) => variant.key),
  }))
  const cohortNames = new Map([...namesIn(flag), ...cohorts])
  const flagKeys = new Map(flags.map(({ id, key }) => [id, key]))
  const index = flag.filters.aggregation_group_type_index ?? null
  const groupType = data?.types.find((type) => type.group_type_index === index) ?? null
  const subjects = groupType === null ? 'groups' : pluralOf(groupType)
  return {
    names: {
      subjects: index === null ? 'people' : subjects,
      cohort: (id) => cohortNames.get(id) ?? `number ${id}`,
      flag: (id) => flagKeys.get(id) ?? `number ${id}`,
    },
    cohorts,
    flags: flags.filter(({ id }) => id !== flag.id),
    groupTypes: data?.types ?? [],
    groupType,
  }
}

/** Returns the numbers and names of the cohorts that the filters of a flag contain. */
function namesIn({ filters }: Flag): readonly (readonly [number, string])[] {
  const all = (filters.groups ?? []).flatMap(({ properties }) => properties ?? [])
  return all.flatMap((filter) => {
    const { type, value, cohort_name: name } = filter as Readonly<Record<string, unknown>>
    return type === 'cohort' && typeof name === 'string' ? [[Number(value), name] as const] : []
  })
}
