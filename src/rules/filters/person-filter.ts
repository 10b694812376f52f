/**
 * Trees of filters on persons as pure tests, membership in cohorts included. Source:
 * docs/compatibility/events.md, "Property filters" and docs/compatibility/persons.md, "Cohorts".
 */
import {
  cohortIdOf,
  type FilterGroup,
  isCohortFilterType,
  type PropertyFilter,
} from './filter-group.ts'
import { PERSON_COHORT_DEPTH_MAX } from './limits.ts'
import { propertyTest } from './property-filter.ts'
import { membershipTest, type TreeDialect, treeTest } from './tree-test.ts'

/** What a test looks at; whoever keeps persons decides how. */
export interface PersonCandidate {
  readonly number: number
  /** The value of a property, undefined when it is missing. */
  property(key: string): unknown
}

/** Whoever is not known as a person: without properties, and in no cohort. */
export const NO_PERSON: PersonCandidate = { number: 0, property: () => undefined }

/** Whether a person passes. */
export type PersonTest = (person: PersonCandidate) => boolean

/** A cohort as far as membership is concerned. */
export type CohortDefinition =
  | { readonly kind: 'static'; readonly hasMember: (personNumber: number) => boolean }
  | { readonly kind: 'dynamic'; readonly filters: FilterGroup }

/** Answers null for cohorts that do not exist or are deleted: nobody is a member. */
export type CohortLookup = (id: number) => CohortDefinition | null

/**
 * The test of a tree. Each cohort is looked up here and not at the test; a group without usable filters
 * holds for everybody. Cost of a test: that of its filters, each cohort at most once.
 */
export function personTest(tree: FilterGroup, cohorts: CohortLookup): PersonTest {
  const builder = new TestBuilder(cohorts)
  return builder.counted(builder.group(tree))
}

/** The test for membership in one cohort. */
export function cohortTest(cohortId: number, cohorts: CohortLookup): PersonTest {
  const builder = new TestBuilder(cohorts)
  return builder.counted(builder.cohort(cohortId))
}

class TestBuilder {
  readonly #cohorts: CohortLookup
  readonly #known = new Map<number, PersonTest>()
  /** Cohorts on the way to the one that is being built. */
  readonly #path: number[] = []
  /** Number of the person that is being tested; results for cohorts count for one person. */
  #round = 0

  readonly #dialect: TreeDialect<PersonCandidate> = {
    // What lists and cohorts hold was read by `filter-tree.ts`.
    leaf: (filter) => this.#filter(filter as unknown as PropertyFilter),
    isLenient: true,
    depthMax: Number.POSITIVE_INFINITY,
  }

  constructor(cohorts: CohortLookup) {
    this.#cohorts = cohorts
  }

  /** The outermost test: each call of it is about another person. */
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
   * Members are persons. Nobody is a member of a cohort that leads back to itself by way of itself, or of one
   * too deep.
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

  /** Many filters may ask for the same cohort: each person is tested once. */
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
    const test = propertyTest(filter)
    return test === null ? null : (person) => test(person.property(filter.key))
  }
}
