/**
 * Trees of filters and the membership in cohorts as tests of a candidate, for lists and for flags. Where the
 * two differ, a dialect says how. Source: docs/compatibility/persons.md, "Cohorts" and docs/compatibility/decisions.md, "Flag decisions".
 */
import { isObject, type JsonObject } from '../../base/json.ts'

/** Whether a candidate passes. */
export type CandidateTest<Candidate> = (candidate: Candidate) => boolean

/** How those who ask read trees. */
export interface TreeDialect<Candidate> {
  /** The test of a filter; null when it cannot be used. */
  readonly leaf: (filter: JsonObject) => CandidateTest<Candidate> | null
  /** What cannot be used is left out, and a group of nothing holds; else the whole tree is of no use. */
  readonly isLenient: boolean
  /** Groups within groups, the root counting as 1. */
  readonly depthMax: number
}

/** The test of a tree, or null when it is of no use. Linear in the tree. */
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
 * The test of a filter that asks for a cohort: `in` when it names no operator. With `isEqualityKnown` equal
 * and unequal count as within and without. Nobody passes another operator, unless the filter is negated.
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

/** All filters and groups of a tree of any shape. Linear. */
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
