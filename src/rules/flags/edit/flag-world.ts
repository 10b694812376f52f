/**
 * What rules about changes of flags ask of the rest of a project. Whoever keeps flags implements it; the
 * rules stay pure.
 */
import type { Flag, FlagCohort } from '../types.ts'

/** The flags of one project, and what they may refer to, at the moment of a change. */
export interface FlagWorld {
  /** All flags that are not deleted. */
  readonly flags: readonly Flag[]
  /** A flag of the project, deleted or not; null for any other number. */
  flagById(id: number): Flag | null
  /** The flag with this key that is not deleted, or null. */
  flagByKey(key: string): Flag | null
  /** A cohort of the project that is not deleted, or null. */
  cohort(id: number): FlagCohort | null
  hasDashboard(id: number): boolean
  readonly nowMs: number
}
