/**
 * Turns trees of filters on persons into pure tests, including the membership in cohorts. Source:
 * docs/compatibility/events.md, "Property filters" and docs/compatibility/persons.md, "Cohorts".
 */
import { type BehaviorFilter, isBehavior } from './behavior-filter.ts'
import {
  cohortIdOf,
  type FilterGroup,
  isCohortFilterType,
  type PropertyFilter,
} from './filter-group.ts'
import { PERSON_COHORT_DEPTH_MAX } from './limits.ts'
import { propertyTest } from './property-filter.ts'
import { membershipTest, type TreeDialect, treeTest } from './tree-test.ts'

/** The person that is tested. The store of persons implements this interface. */
export interface PersonCandidate {
  readonly number: number
  /** Returns the value of a property, or undefined if it is missing. */
  property(key: string): unknown
}

/** The candidate that stands for a visitor without a person. It has no properties and is in no cohort. */
export const NO_PERSON: PersonCandidate = { number: 0, property: () => undefined }

/** Returns whether a person passes. */
export type PersonTest = (person: PersonCandidate) => boolean

/** Returns the test of a filter on behavior. The test ignores the member `negation` of the filter. */
export type BehaviorTests = (filter: BehaviorFilter) => PersonTest

/**
 * The definition of a cohort, with which members are found. The members of a `static` cohort are stored, and those of a
 * `dynamic` cohort are the persons that pass its filters.
 */
export type CohortDefinition =
  | { readonly kind: 'static'; readonly hasMember: (personNumber: number) => boolean }
  | { readonly kind: 'dynamic'; readonly filters: FilterGroup }

/**
 * Returns the definition of a cohort. Returns null for a cohort that does not exist or was deleted; it has no members.
 */
export type CohortLookup = (id: number) => CohortDefinition | null

/**
 * Returns the test of a tree. The cohorts that the tree refers to are looked up now, and not when the test runs. A
 * group in which no filter can be used passes everybody. If `behavior` is absent, filters on behavior are left out. A
 * test costs as much as all filters together, but a cohort that several filters name is evaluated only once for a
 * person.
 */
export function personTest(
  tree: FilterGroup,
  cohorts: CohortLookup,
  behavior?: BehaviorTests,
): PersonTest {
  const builder = new TestBuilder(cohorts, behavior)
  return builder.counted(builder.group(tree))
}

/** Returns the test for the membership in one cohort. */
export function cohortTest(cohortId: number, cohorts: CohortLookup): PersonTest {
  const builder = new TestBuilder(cohorts)
  return builder.counted(builder.cohort(cohortId))
}

class TestBuilder {
  readonly #cohorts: CohortLookup
  readonly #behavior: BehaviorTests | undefined
  readonly #known = new Map<number, PersonTest>()
  /** The cohorts whose tests are being built: the outermost cohort, a cohort in its rule, and so on. */
  readonly #path: number[] = []
  /**
   * The number of persons that were tested so far. A cached result for a cohort is valid only as long as this number
   * stays the same.
   */
  #round = 0

  readonly #dialect: TreeDialect<PersonCandidate> = {
    // The filters of lists and cohorts come from `filter-tree.ts`, which returns each of them as a `PropertyFilter`.
    leaf: (filter) => this.#filter(filter as unknown as PropertyFilter),
    isLenient: true,
    depthMax: Number.POSITIVE_INFINITY,
  }

  constructor(cohorts: CohortLookup, behavior?: BehaviorTests) {
    this.#cohorts = cohorts
    this.#behavior = behavior
  }

  /**
   * Returns a test that adds one to `#round` at each call. Each call tests another person, for whom the cached results
   * for cohorts are not valid.
   */
  counted(test: PersonTest): PersonTest {
    return (person) => {
      this.#round++
      return test(person)
    }
  }

  group(tree: FilterGroup): PersonTest {
    return treeTest(tree, this.#dialect) ?? (() => true)
  }

  /**
   * Returns the test for the membership in a cohort. Nobody is a member of a cohort that contains itself, directly or
   * through other cohorts, or of a cohort that is nested too deeply.
   */
  cohort(id: number): PersonTest {
    if (this.#path.includes(id) || this.#path.length >= PERSON_COHORT_DEPTH_MAX) return () => false
    const known = this.#known.get(id)
    if (known !== undefined) return known
    const definition = this.#cohorts(id)
    if (definition === null) return () => false
    const isMember = this.#definitionTest(id, definition)
    const test = this.#remembered(
      (person) => person.number !== NO_PERSON.number && isMember(person),
    )
    this.#known.set(id, test)
    return test
  }

  #definitionTest(id: number, definition: CohortDefinition): PersonTest {
    if (definition.kind === 'static') return ({ number }) => definition.hasMember(number)
    this.#path.push(id)
    const test = this.group(definition.filters)
    this.#path.pop()
    return test
  }

  /** Returns a test that computes its result once for each person, because many filters may use the same cohort. */
  #remembered(test: PersonTest): PersonTest {
    let round = -1
    let result = false
    return (person) => {
      if (round !== this.#round) {
        result = test(person)
        round = this.#round
      }
      return result
    }
  }

  #filter(filter: PropertyFilter): PersonTest | null {
    if (isCohortFilterType(filter.type)) {
      const id = cohortIdOf(filter)
      return membershipTest(filter, id === null ? () => false : this.cohort(id), true)
    }
    if (isBehavior(filter)) {
      const did = this.#behavior?.(filter) ?? null
      return did !== null && filter.negation === true ? (person) => !did(person) : did
    }
    const test = propertyTest(filter)
    return test === null ? null : (person) => test(person.property(filter.key))
  }
}
