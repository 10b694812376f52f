/**
 * Plain data types of the flag rules: stored flags, requests and decisions. They have no behavior. Source: PostHog's
 * API description, sections 2.3 and 2.8; docs/compatibility/flags.md, "Feature flags".
 */
import type { JsonObject } from '../../base/json.ts'

/** The runtime in which a flag may be evaluated. `all` means both `client` and `server`. */
export type EvaluationRuntime = 'all' | 'client' | 'server'

/** A feature flag as it is stored, complete. Times are milliseconds since 1970. */
export interface Flag {
  readonly id: number
  readonly projectId: number
  readonly key: string
  /** The description of the flag. On the wire it is the member `name`. */
  readonly name: string
  /** The filters as the client wrote them, after they were checked. Unknown keys are kept. */
  readonly filters: JsonObject
  readonly deleted: boolean
  readonly active: boolean
  /** The version is 1 when the flag is created and increases by one with every change. */
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
  /** The ids of the experiments that use the flag and are not deleted. Absent: none. */
  readonly experiments?: readonly number[]
}

/** The parts of a cohort that flags need. */
export interface FlagCohort {
  readonly id: number
  readonly name: string
  /**
   * True if the members of the cohort are stored. This is so for a fixed list of persons, and for a rule about what
   * persons did. `filters` are then empty.
   */
  readonly isStatic: boolean
  /**
   * The filters of a dynamic cohort as they are stored: `{properties: tree}`, where the tree has two levels and
   * contains filters on persons and on other cohorts.
   */
  readonly filters: JsonObject
}

/** All data of a project that decisions depend on, except the person. */
export interface FlagSet {
  readonly projectId: number
  /** The time zone in which dates in filters are read, as a name in the IANA time zone database. */
  readonly timezone: string
  /** All flags that are not deleted, including inactive ones, in the order of their ids. */
  readonly flags: readonly Flag[]
  readonly cohorts: ReadonlyMap<number, FlagCohort>
  /** The name of each group type by its index, such as 0 -> `company`. */
  readonly groupTypes: ReadonlyMap<number, string>
}

/**
 * The data of a project that is needed to check a change of a flag: the flags of the project, and the objects that
 * flags may refer to. The module that stores flags implements this interface.
 */
export interface FlagRepository {
  /** All flags that are not deleted. */
  readonly flags: readonly Flag[]
  /** Returns the flag of the project with an id, deleted or not. Returns null if there is none. */
  flagById(id: number): Flag | null
  /** Returns the flag with this key that is not deleted, or null. */
  flagByKey(key: string): Flag | null
  /** Returns a cohort of the project that is not deleted, or null. */
  cohort(id: number): FlagCohort | null
  hasDashboard(id: number): boolean
  readonly nowMs: number
}

/** The content of a request. All texts come from the client and are untrusted. */
export interface DecisionRequest {
  /** The distinct_id as text, already cut to the length that the wire protocol requires. */
  readonly distinctId: string
  /** The key of a group for each group type, by the name of the type. A key may be any JSON value. */
  readonly groups: JsonObject
  readonly personProperties: JsonObject
  /** The properties of the group for each group type, by the name of the type. */
  readonly groupProperties: JsonObject
  readonly anonDistinctId: string | null
  readonly deviceId: string | null
  readonly nowMs: number
  /** The keys of the wanted flags. The flags that they depend on are decided too. Null means all flags. */
  readonly flagKeys: readonly string[] | null
  /** The evaluation contexts of the client. An empty list means that no flag is left out because of its contexts. */
  readonly evaluationContexts: readonly string[]
  /** The runtime of the client. Null means that it is unknown. */
  readonly evaluationRuntime: EvaluationRuntime | null
  readonly isSurveyFlagsOnly: boolean
}

/** The properties of a person or group, looked up by name. */
export interface PropertyLookup {
  /** Returns the value of a property, or undefined if there is none. Throws if it cannot be read. */
  get(name: string): unknown
}

/**
 * The stored data about the person and the groups of a request. During one request, each method is called at most once
 * for each argument, and only if a flag needs the result. If a method throws, the flags that need the result fail, and
 * the other flags are still answered.
 */
export interface DecisionSources {
  /** Returns the stored properties of the person that owns the distinct_id, or null if there is no such person. */
  personProperties(): PropertyLookup | null
  /** Returns the stored properties of a group, or null if there is no such group. */
  groupProperties(typeIndex: number, key: string): PropertyLookup | null
  /** Returns whether the person that owns the distinct_id is on the list of a static cohort. */
  isInStaticCohort(cohortId: number): boolean
  /**
   * Returns the identifiers that are hashed instead of the distinct_id for flags with experience continuity, by the key
   * of the flag. They are stored for the person. The map is empty if there are none.
   */
  continuityOverrides(): ReadonlyMap<string, string>
}

/** The reason for the value of a flag. Source: docs/compatibility/decisions.md, "Flag decisions". */
export type DecisionReason =
  | 'condition_match'
  | 'no_condition_match'
  | 'out_of_rollout_bound'
  | 'no_group_type'
  | 'super_condition_value'
  | 'holdout_condition_value'
  | 'missing_dependency'
  /** The reasons below are failures: the flag could not be computed. */
  | 'person_unavailable'
  | 'group_unavailable'
  | 'override_unavailable'
  | 'cohort_unavailable'
  | 'pattern_limit'
  | 'dependency_failed'

/** An outcome of a flag as members of JSON objects, in UTF-8. */
export interface OutcomeBytes {
  /** The member `"key":{...}` of an answer with details. */
  readonly detail: Uint8Array
  /** The member `"key":value` of an answer with values only. */
  readonly value: Uint8Array
  /** The member `"key":"payload"` of an answer with payloads. Empty if there is no payload. */
  readonly payload: Uint8Array
}

/** The value of a flag: true, false or a variant. Null if it could not be computed. */
export type FlagValue = string | boolean | null

/** How often each value of each flag was decided in one hour. */
export interface UsageHour {
  /** The start of the hour. */
  readonly hourMs: number
  /** The time at which counting began. Decisions before it are not counted. */
  readonly sinceMs: number
  readonly flags: readonly {
    readonly id: number
    /** The time of the last decision, accurate to a few seconds. */
    readonly lastMs: number
    readonly counts: readonly (readonly [value: FlagValue, count: number])[]
  }[]
}

/** The decision of one flag. */
export interface FlagDecision {
  readonly flag: Flag
  readonly isEnabled: boolean
  /** The variant. Null for boolean flags, and if the flag is off. */
  readonly variant: string | null
  readonly reason: DecisionReason
  readonly conditionIndex: number | null
  /** A sentence for people. On the wire it is `reason.description`. */
  readonly description: string
  /** The payload as stored JSON text, or null if there is none. */
  readonly payload: string | null
  readonly isFailed: boolean
  /** The bytes that represent the decision in answers. Source: docs/compatibility/decisions.md, "Flag answers". */
  readonly bytes: OutcomeBytes
  /** How often this decision was answered since the counts were last collected (see engine/front/flag-usage.ts). */
  count: number
}

/** The answer to a request: one decision for each active flag that takes part. */
export interface Decisions {
  readonly decisions: readonly FlagDecision[]
  /** True if a flag failed, or flags depend on each other in a circle. */
  readonly hasErrors: boolean
  /** True if a decision used the time of the request, so that the same request may get another answer later. */
  readonly isTimeBound: boolean
}
