/** The shapes of cohorts: as they are stored, as the API shows them, and as clients describe them. */
import { hasBehavior } from '../filters/behavior-filter.ts'
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
  readonly last_error_message: string | null
  readonly count: number | null
  readonly is_static: boolean
}

/** The fields of a cohort that a client may set. */
export interface CohortDraft {
  readonly name: string
  readonly description: string
  readonly isStatic: boolean
  /** The rule of a dynamic cohort. */
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
  /** The number of stored members. Members are stored only for a fixed list and for a rule on behavior. */
  readonly count: number
  /** The state of the calculation of members. Absent if the rule never contained a filter on behavior. */
  readonly calculation?: CohortCalculation
}

/** The state of the calculation of the members of a cohort. */
export interface CohortCalculation {
  /** A number that is different after each change of the rule. */
  readonly revision: number
  /** How often a calculation of the members was requested. */
  readonly requests: number
  /**
   * The number of requests when the last finished calculation began. If it is less than `requests`, the members must be
   * calculated again.
   */
  readonly answered: number
  /** The moment for which the members were calculated. Null if they were not calculated yet with this rule. */
  readonly calculatedAt: string | null
  /** The time of the last calculation, even if it failed, in milliseconds since 1970. 0 if there was none. */
  readonly triedAtMs: number
  /**
   * The number of failed calculations since the last successful one. `error` is the message of the last calculation, or
   * null if it did not fail.
   */
  readonly errors: number
  readonly error: string | null
}

const NEVER_CALCULATED: CohortCalculation = {
  revision: 0,
  requests: 0,
  answered: 0,
  calculatedAt: null,
  triedAtMs: 0,
  errors: 0,
  error: null,
}

/** The outcome of a calculation. */
export interface CalculationEnd {
  /** The moment for which the members were calculated, as text and in milliseconds. */
  readonly at: string
  readonly atMs: number
  /** The value of `CohortCalculation.requests` when the calculation began. */
  readonly requests: number
  /** The reason why the members could not be calculated, or null. */
  readonly error: string | null
}

/** Returns whether the rule of a cohort filters on behavior, so that its members are calculated and stored. */
export function isCalculated({ filters }: Pick<CohortRecord, 'filters'>): boolean {
  return hasBehavior(filters)
}

/** Returns whether the members of a cohort are stored. The members of other cohorts are found when they are needed. */
export function areMembersStored(cohort: Pick<CohortRecord, 'isStatic' | 'filters'>): boolean {
  return cohort.isStatic || isCalculated(cohort)
}

/**
 * Returns the state of the calculation after a cohort got a new rule. Returns undefined if neither this rule nor an
 * earlier one filters on behavior.
 */
export function calculationOfRule(
  filters: FilterGroup | null,
  before?: CohortCalculation,
): CohortCalculation | undefined {
  if (!hasBehavior(filters) && before === undefined) return undefined
  const { revision, requests, answered } = before ?? NEVER_CALCULATED
  return {
    ...NEVER_CALCULATED,
    revision: revision + 1,
    requests: requests + 1,
    answered,
  }
}

/** Returns the state of the calculation after a calculation has ended. */
export function calculationAfter(
  before: CohortCalculation,
  { at, atMs, requests, error }: CalculationEnd,
): CohortCalculation {
  const ended = { ...before, answered: Math.max(before.answered, requests), triedAtMs: atMs, error }
  if (error !== null) return { ...ended, errors: before.errors + 1 }
  return { ...ended, calculatedAt: at, errors: 0 }
}

/** Returns a cohort as the API shows it. `count` is null if the number of members is unknown. */
export function cohortView(cohort: CohortRecord, count: number | null): CohortView {
  const { filters, isStatic } = cohort
  const { calculation = NEVER_CALCULATED } = isCalculated(cohort) ? cohort : {}
  const { requests, answered, calculatedAt, errors, error } = calculation
  return {
    id: cohort.id,
    name: cohort.name,
    description: cohort.description,
    groups: [],
    deleted: cohort.isDeleted,
    filters: filters === null ? {} : { properties: filters },
    is_calculating: answered < requests,
    created_by: cohort.createdBy,
    created_at: cohort.createdAt,
    last_calculation: isStatic ? cohort.changedAt : calculatedAt,
    errors_calculating: errors,
    last_error_message: error,
    count: countOf(cohort, calculatedAt, count),
    is_static: isStatic,
  }
}

function countOf(
  cohort: CohortRecord,
  calculatedAt: string | null,
  count: number | null,
): number | null {
  if (cohort.isStatic) return cohort.count
  if (!isCalculated(cohort)) return count
  return calculatedAt === null ? null : cohort.count
}
