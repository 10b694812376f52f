/** The shapes of cohorts: as they are stored, as the API shows them, and as clients describe them. */
import type { FilterGroup } from '../filters/filter-group.ts'

/** A cohort: a fixed list of persons, or a tree of person filters. */
export interface CohortView {
  readonly id: number
  readonly name: string
  readonly description: string
  readonly groups: readonly unknown[]
  readonly deleted: boolean
  readonly filters: Readonly<Record<string, unknown>>
  readonly is_calculating: boolean
  readonly created_by: Readonly<Record<string, unknown>> | null
  readonly created_at: string
  readonly last_calculation: string | null
  readonly errors_calculating: number
  readonly count: number | null
  readonly is_static: boolean
}

/** The fields of a cohort that a client may set. */
export interface CohortDraft {
  readonly name: string
  readonly description: string
  readonly isStatic: boolean
  /** The tree of person filters of a dynamic cohort. */
  readonly filters: FilterGroup | null
  /** The members to add to a static cohort, by uuid and by distinct_id. */
  readonly personUuids: readonly string[]
  readonly distinctIds: readonly string[]
}

/** A cohort as it is stored. */
export interface CohortRecord extends Omit<CohortDraft, 'personUuids' | 'distinctIds'> {
  readonly id: number
  readonly isDeleted: boolean
  readonly createdAt: string
  readonly createdBy: Readonly<Record<string, unknown>> | null
  /** The time at which members were last added. Null for dynamic cohorts. */
  readonly changedAt: string | null
  /** The number of members of a fixed list. */
  readonly count: number
}

/** Returns a cohort as the API shows it. `count` is null if the number of members is unknown. */
export function cohortView(cohort: CohortRecord, count: number | null): CohortView {
  const { filters, isStatic } = cohort
  return {
    id: cohort.id,
    name: cohort.name,
    description: cohort.description,
    groups: [],
    deleted: cohort.isDeleted,
    filters: filters === null ? {} : { properties: filters },
    is_calculating: false,
    created_by: cohort.createdBy,
    created_at: cohort.createdAt,
    last_calculation: isStatic ? cohort.changedAt : null,
    errors_calculating: 0,
    count: isStatic ? cohort.count : count,
    is_static: isStatic,
  }
}
