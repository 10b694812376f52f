/**
 * The state of the decisions for one request. It combines the request with stored data. Stored data is looked up at
 * most once, and only if a flag needs it. Nothing is copied: a property is first searched in the request and then among
 * the stored properties. Source: docs/compatibility/decisions.md, "Flag decisions".
 */

import { isObject } from '../../base/json.ts'
import { PatternBudget } from '../../base/pattern/pattern.ts'
import type { TestMoment } from '../filters/operator-tests.ts'
import { EvaluationFailure } from './evaluation-failure.ts'
import { FLAG_COHORT_DEPTH_MAX } from './limits.ts'
import type {
  DecisionReason,
  DecisionRequest,
  DecisionSources,
  FlagDecision,
  PropertyLookup,
} from './types.ts'

/** Returns whether the person of a decision belongs to a cohort. Throws `EvaluationFailure`. */
export type CohortTest = (evaluation: Evaluation) => boolean

/** The parts of a compiled project that its decisions share. */
export interface EvaluationRules {
  readonly groupTypes: ReadonlyMap<number, string>
  /**
   * The test of each cohort that flags refer to, directly or through other cohorts. Null if the cohort cannot be
   * computed.
   */
  readonly cohortTests: ReadonlyMap<number, CohortTest | null>
}

/** The result of a lookup, or the reason why the lookup failed. */
type Looked<T> = { readonly value: T } | EvaluationFailure

/** The values that flags read while a request is answered. */
export class Evaluation implements TestMoment {
  readonly request: DecisionRequest
  /** True once a flag has read the time of the request. */
  isTimeBound = false
  readonly patternBudget = new PatternBudget()
  /** The decisions that were already made for flags that take part in dependencies, by the id of the flag. */
  readonly decided = new Map<number, FlagDecision>()
  readonly #sources: DecisionSources
  readonly #rules: EvaluationRules
  #person: Looked<PropertyLookup | null> | null = null
  #overrides: Looked<ReadonlyMap<string, string>> | null = null
  #groups: Map<number, Looked<PropertyLookup | null>> | null = null
  #cohorts: Map<number, boolean | EvaluationFailure> | null = null
  #cohortDepth = 0

  constructor(request: DecisionRequest, sources: DecisionSources, rules: EvaluationRules) {
    this.request = request
    this.#sources = sources
    this.#rules = rules
  }

  /** The time of the request. Reading it marks the answer as one that depends on the time. */
  get nowMs(): number {
    this.isTimeBound = true
    return this.request.nowMs
  }

  /**
   * Returns a person property. If the person does not have it, returns the property `standIn` instead, or `undefined`
   * if the person has neither. Throws `EvaluationFailure`.
   */
  personValue(key: string, standIn: string | null): unknown {
    const { personProperties, distinctId } = this.request
    if (Object.hasOwn(personProperties, key)) return personProperties[key]
    if (key === 'distinct_id') return distinctId
    const value = lookedUp(this.#storedPerson(), key, 'person_unavailable')
    if (value !== undefined || standIn === null) return value
    return this.personValue(standIn, null)
  }

  /**
   * Returns a property of the group that the request names for a group type. Returns `undefined` if the request names
   * no group, or if the group does not have the property. Throws `EvaluationFailure`.
   */
  groupValue(typeIndex: number, key: string): unknown {
    const name = this.#rules.groupTypes.get(typeIndex)
    if (name === undefined) return undefined
    const { groups, groupProperties } = this.request
    if (key === '$group_key' && Object.hasOwn(groups, name)) return groups[name]
    const given = Object.hasOwn(groupProperties, name) ? groupProperties[name] : null
    if (isObject(given) && Object.hasOwn(given, key)) return given[key]
    return lookedUp(this.#storedGroup(typeIndex), key, 'group_unavailable')
  }

  /**
   * Returns, as text, the key of the group that the request names for a group type. Returns null if it names no group.
   */
  groupKey(typeIndex: number): string | null {
    const name = this.#rules.groupTypes.get(typeIndex)
    if (name === undefined || !Object.hasOwn(this.request.groups, name)) return null
    const key = this.request.groups[name]
    if (typeof key === 'number') return String(key)
    return typeof key === 'string' && key !== '' ? key : null
  }

  /** Returns the device of the request, or '' if it names none. */
  device(): string {
    const { deviceId, personProperties } = this.request
    if (deviceId !== null && deviceId !== '') return deviceId
    const hasOwn = Object.hasOwn(personProperties, '$device_id')
    const given = hasOwn ? personProperties['$device_id'] : null
    return typeof given === 'string' ? given : ''
  }

  /**
   * Returns the identifiers that are stored for flags with experience continuity, by the key of the flag. Throws
   * `EvaluationFailure`.
   */
  continuityOverrides(): ReadonlyMap<string, string> {
    this.#overrides ??= look('override_unavailable', () => this.#sources.continuityOverrides())
    return resultOf(this.#overrides)
  }

  /** Returns whether the person belongs to a cohort. Throws `EvaluationFailure`. */
  isInCohort(id: number): boolean {
    this.#cohorts ??= new Map()
    const known = this.#cohorts.get(id)
    if (known instanceof EvaluationFailure) throw known
    if (known !== undefined) return known
    // This entry detects circles: if the evaluation of the cohort leads back to the same cohort, this failure is found.
    this.#cohorts.set(id, new EvaluationFailure('cohort_unavailable'))
    this.#cohortDepth++
    try {
      const isMember = this.#evaluateCohort(id)
      this.#cohorts.set(id, isMember)
      return isMember
    } catch (error) {
      if (error instanceof EvaluationFailure) this.#cohorts.set(id, error)
      throw error
    } finally {
      this.#cohortDepth--
    }
  }

  /** Returns whether the person is on the list of a static cohort. Throws `EvaluationFailure`. */
  isListed(cohortId: number): boolean {
    return resultOf(look('cohort_unavailable', () => this.#sources.isInStaticCohort(cohortId)))
  }

  #evaluateCohort(id: number): boolean {
    const test = this.#rules.cohortTests.get(id) ?? null
    if (test === null || this.#cohortDepth > FLAG_COHORT_DEPTH_MAX) {
      throw new EvaluationFailure('cohort_unavailable')
    }
    return test(this)
  }

  /** Returns whether a person with the distinct_id of the request is stored. Throws `EvaluationFailure`. */
  hasPerson(): boolean {
    return this.#storedPerson() !== null
  }

  #storedPerson(): PropertyLookup | null {
    this.#person ??= look('person_unavailable', () => this.#sources.personProperties())
    return resultOf(this.#person)
  }

  #storedGroup(typeIndex: number): PropertyLookup | null {
    const key = this.groupKey(typeIndex)
    if (key === null) return null
    this.#groups ??= new Map()
    const known = this.#groups.get(typeIndex)
    if (known !== undefined) return resultOf(known)
    const looked = look('group_unavailable', () => this.#sources.groupProperties(typeIndex, key))
    this.#groups.set(typeIndex, looked)
    return resultOf(looked)
  }
}

function look<T>(reason: DecisionReason, read: () => T): Looked<T> {
  try {
    return { value: read() }
  } catch {
    return new EvaluationFailure(reason)
  }
}

function lookedUp(stored: PropertyLookup | null, name: string, reason: DecisionReason): unknown {
  if (stored === null) return undefined
  try {
    return stored.get(name)
  } catch {
    throw new EvaluationFailure(reason)
  }
}

function resultOf<T>(looked: Looked<T>): T {
  if (looked instanceof EvaluationFailure) throw looked
  return looked.value
}
