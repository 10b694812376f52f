/** A cohort as it is stored, and as the API shows it. */
import type { FilterGroup } from '../filters/filter-group.ts'
import type { CohortView } from './cohort-shapes.ts'

/** A cohort as it is stored. */
export interface CohortRecord {
  readonly id: number
  readonly name: string
  readonly description: string
  readonly isStatic: boolean
  readonly filters: FilterGroup | null
  readonly isDeleted: boolean
  readonly createdAt: string
  readonly createdBy: Readonly<Record<string, unknown>> | null
  /** When members were last added; null for dynamic cohorts. */
  readonly changedAt: string | null
  /** Members of a fixed list. */
  readonly count: number
}

/** A cohort as the API shows it; `count` is null when it is not known. */
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
