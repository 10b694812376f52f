/**
 * Turns trees of filters and the membership in cohorts into tests of a candidate, for lists and for flags. A dialect
 * describes how lists or flags read a tree. Source: docs/compatibility/persons.md, "Cohorts" and
 * docs/compatibility/decisions.md, "Flag decisions".
 */
import { isObject, type JsonObject } from '../../base/json.ts'

/** Returns whether a candidate passes. */
export type CandidateTest<Candidate> = (candidate: Candidate) => boolean

/** How one group of callers (lists or flags) reads trees. */
export interface TreeDialect<Candidate> {
  /** Returns the test of a filter, or null if the filter cannot be used. */
  readonly leaf: (filter: JsonObject) => CandidateTest<Candidate> | null
  /**
   * If true, unusable filters are left out, and an empty group passes. Otherwise one unusable filter makes the whole
   * tree unusable.
   */
  readonly isLenient: boolean
  /** The maximum depth of nested groups. The root has depth 1. */
  readonly depthMax: number
}

/** Returns the test of a tree, or null if the tree is unusable. The cost is linear in the tree. */
export function treeTest<Candidate>(
  node: unknown,
  dialect: TreeDialect<Candidate>,
  depth = 1,
): CandidateTest<Candidate> | null {
  if (!isObject(node)) return null
  const { values } = node
  if (!Array.isArray(values)) return dialect.leaf(node)
  if (depth > dialect.depthMax) return null
  const tests: CandidateTest<Candidate>[] = []
  for (const value of values as readonly unknown[]) {
    const test = treeTest(value, dialect, depth + 1)
    if (test !== null) tests.push(test)
    else if (!dialect.isLenient) return null
  }
  const [only] = tests
  if (only === undefined && dialect.isLenient) return () => true
  if (only !== undefined && tests.length === 1) return only
  return node['type'] === 'OR'
    ? (candidate) => tests.some((test) => test(candidate))
    : (candidate) => tests.every((test) => test(candidate))
}

/**
 * Returns the test of a cohort filter. The default operator is `in`. If `isEqualityKnown` is true, `exact` and `is_not`
 * mean the same as `in` and `not_in`. With any other operator, nobody passes. If `negation` is true, every result is
 * reversed.
 */
export function membershipTest<Candidate>(
  { operator, negation }: { readonly operator?: unknown; readonly negation?: unknown },
  isMember: CandidateTest<Candidate>,
  isEqualityKnown: boolean,
): CandidateTest<Candidate> {
  const name = operator ?? 'in'
  const isIn = name === 'in' || (isEqualityKnown && name === 'exact')
  const isNotIn = name === 'not_in' || (isEqualityKnown && name === 'is_not')
  const isNegated = negation === true
  if (!isIn && !isNotIn) return () => isNegated
  const isWanted = isNotIn === isNegated
  return (candidate) => isMember(candidate) === isWanted
}

/** Returns all filters and groups of a tree of any shape. The cost is linear. */
export function nodesOf(tree: unknown): readonly JsonObject[] {
  const nodes: JsonObject[] = []
  const rest: unknown[] = [tree]
  while (rest.length > 0) {
    const node = rest.pop()
    if (!isObject(node)) continue
    nodes.push(node)
    if (Array.isArray(node['values'])) {
      for (const value of node['values'] as readonly unknown[]) rest.push(value)
    }
  }
  return nodes
}
