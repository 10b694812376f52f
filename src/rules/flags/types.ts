/**
 * Plain data that flag rules work on: flags as they are stored, what a request says, what a decision is.
 * No behaviour. Source: interface description, sections 2.3 and 2.8; docs/compatibility/flags.md, "Feature
 * flags".
 */
import type { JsonObject } from '../../base/json.ts'

/** Where a flag may be evaluated. */
export type EvaluationRuntime = 'all' | 'client' | 'server'

/** A feature flag as it is stored, complete. Times are milliseconds since 1970. */
export interface Flag {
  readonly id: number
  readonly projectId: number
  readonly key: string
  /** What the wire calls `name`: a description. */
  readonly name: string
  /** As the client wrote it, validated: unknown keys are kept. */
  readonly filters: JsonObject
  readonly deleted: boolean
  readonly active: boolean
  /** 1 when created, one more with every change. */
  readonly version: number
  readonly createdById: number | null
  readonly createdAtMs: number
  readonly lastModifiedById: number | null
  readonly updatedAtMs: number
  readonly ensureExperienceContinuity: boolean | null
  readonly rollbackConditions: unknown
  readonly performedRollback: boolean | null
  readonly tags: readonly string[]
  readonly usageDashboard: number | null
  readonly analyticsDashboards: readonly number[]
  readonly hasEnrichedAnalytics: boolean
  readonly evaluationRuntime: EvaluationRuntime
  readonly bucketingIdentifier: 'distinct_id' | 'device_id' | null
  readonly evaluationContexts: readonly string[]
  readonly isRemoteConfiguration: boolean
  readonly hasEncryptedPayloads: boolean
}

/** A cohort as far as flags need it. */
export interface FlagCohort {
  readonly id: number
  readonly name: string
  readonly isStatic: boolean
  /** Dynamic: `{properties: tree}` as stored; the two-level tree of person filters and cohorts. */
  readonly filters: JsonObject
}

/** Everything that decisions of one project depend on, besides the person. */
export interface FlagSet {
  readonly projectId: number
  /** Name of the IANA time zone database; for dates in filters. */
  readonly timezone: string
  /** All flags that are not deleted, inactive ones too, in the order of their ids. */
  readonly flags: readonly Flag[]
  readonly cohorts: ReadonlyMap<number, FlagCohort>
  /** Type index -> name, such as 0 -> `company`. */
  readonly groupTypes: ReadonlyMap<number, string>
}

/**
 * What rules about changes ask of the rest of a project: its flags, and what they may refer to, at the moment
 * of a change. Whoever keeps flags implements it.
 */
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

/** What a request says. Client text everywhere. */
export interface DecisionRequest {
  /** Already text, cut as the wire rule says. */
  readonly distinctId: string
  /** Group type name -> key (any JSON value). */
  readonly groups: JsonObject
  readonly personProperties: JsonObject
  /** Group type name -> properties. */
  readonly groupProperties: JsonObject
  readonly anonDistinctId: string | null
  readonly deviceId: string | null
  readonly nowMs: number
  /** Only these flags and what they depend on; null: all. */
  readonly flagKeys: readonly string[] | null
  /** Empty: no restriction. */
  readonly evaluationContexts: readonly string[]
  /** Null: unknown. */
  readonly evaluationRuntime: EvaluationRuntime | null
  readonly isSurveyFlagsOnly: boolean
}

/** Properties of somebody, looked up by name. */
export interface PropertyLookup {
  /** The value of a property, undefined when there is none. Throws when it cannot be read. */
  get(name: string): unknown
}

/**
 * What is stored about the person and groups of a request. Every method is called at most once for each
 * argument in a decision, and only when a flag needs it. A method that throws makes the flags that need
 * it fail; the others are answered.
 */
export interface DecisionSources {
  /** Stored properties of the person who owns the distinct_id; null when there is no such person. */
  personProperties(): PropertyLookup | null
  /** Stored properties of a group; null when there is no such group. */
  groupProperties(typeIndex: number, key: string): PropertyLookup | null
  /** Whether the person who owns the distinct_id is on the list of a static cohort. */
  isInStaticCohort(cohortId: number): boolean
  /**
   * The identifiers that are to be hashed instead, by flag key, for flags with experience continuity:
   * overrides stored for the person. An empty map when there are none.
   */
  continuityOverrides(): ReadonlyMap<string, string>
}

/** Why a flag is what it is. Source: docs/compatibility/decisions.md, "Flag decisions". */
export type DecisionReason =
  | 'condition_match'
  | 'no_condition_match'
  | 'out_of_rollout_bound'
  | 'no_group_type'
  | 'super_condition_value'
  | 'holdout_condition_value'
  | 'missing_dependency'
  /** Failures: the flag could not be computed. */
  | 'person_unavailable'
  | 'group_unavailable'
  | 'override_unavailable'
  | 'cohort_unavailable'
  | 'pattern_limit'
  | 'dependency_failed'

/** One outcome of one flag as members of a JSON object, in UTF-8. */
export interface OutcomeBytes {
  /** `"key":{...}` of the detailed shapes. */
  readonly detail: Uint8Array
  /** `"key":value`. */
  readonly value: Uint8Array
  /** `"key":"payload"`, or nothing without a payload. */
  readonly payload: Uint8Array
}

/** Off, on, or a variant; null: it could not be computed. */
export type FlagValue = string | boolean | null

/** How often flags were decided to have which value in an hour. */
export interface UsageHour {
  /** Its begin. */
  readonly hourMs: number
  /** When counting began. */
  readonly sinceMs: number
  readonly flags: readonly {
    readonly id: number
    /** When it was decided last, some seconds exact. */
    readonly lastMs: number
    readonly counts: readonly (readonly [value: FlagValue, count: number])[]
  }[]
}

/** What one flag evaluates to. */
export interface FlagDecision {
  readonly flag: Flag
  readonly isEnabled: boolean
  /** Null for boolean flags, and when off. */
  readonly variant: string | null
  readonly reason: DecisionReason
  readonly conditionIndex: number | null
  /** A sentence for people; the wire's `reason.description`. */
  readonly description: string
  /** As stored: JSON text; null when there is none. */
  readonly payload: string | null
  readonly isFailed: boolean
  /** What answers say of it. Source: docs/compatibility/decisions.md, "Flag answers". */
  readonly bytes: OutcomeBytes
  /** How often it was the answer, since somebody took that: see engine/front/flag-usage.ts. */
  count: number
}

/** The answer to a request: one decision for each active flag that takes part. */
export interface Decisions {
  readonly decisions: readonly FlagDecision[]
  /** A flag failed, or flags depend on each other in a circle. */
  readonly hasErrors: boolean
  /** The time of the request took part: the same request may be answered differently later. */
  readonly isTimeBound: boolean
}
