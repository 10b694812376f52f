/** Cohorts as the API shows them, and what may be said about one. Shapes only. */
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

/** What may be said about a cohort. */
export interface CohortDraft {
  readonly name: string
  readonly description: string
  readonly isStatic: boolean
  /** Dynamic: the tree of person filters. */
  readonly filters: FilterGroup | null
  /** Static: members to add. */
  readonly personUuids: readonly string[]
  readonly distinctIds: readonly string[]
}
