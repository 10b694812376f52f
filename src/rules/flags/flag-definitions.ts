/**
 * Writes the flag definitions for SDKs that evaluate flags locally. They contain all flags of a project and the cohorts
 * and group types that the flags refer to. SDKs poll every half minute, so an ETag avoids sending the same definitions
 * again. Source: docs/compatibility/decisions.md, "Local evaluation".
 */
import type { JsonObject } from '../../base/json.ts'
import { minimalFlagBody } from './edit/flag-body.ts'
import {
  cohortReferences,
  cohortsOfTree,
  flagReferences,
  referenceOf,
  withProperties,
} from './flag-references.ts'
import { FLAG_CHAIN_MAX } from './limits.ts'
import { strictFilters, strictTree } from './sdk-filters.ts'
import type { Flag, FlagCohort, FlagSet } from './types.ts'

/** The JSON of each flag that does not depend on other flags, as a cache. */
const written = new WeakMap<Flag, string>()

/**
 * Yields the definitions of a project as JSON, one text for each flag. Inactive flags are included; flags with remote
 * configuration are not. If `hasCohorts` is true, the trees of the dynamic cohorts that flags refer to are included.
 * The cost is linear in the size of the flags, apart from chains of dependencies. The JSON of unchanged flags is
 * reused.
 */
export function* definitionTexts(set: FlagSet, hasCohorts: boolean): Iterable<string> {
  const flags = set.flags.filter(({ isRemoteConfiguration }) => !isRemoteConfiguration)
  const byId = new Map(flags.map((flag) => [flag.id, flag]))
  yield '{"flags":['
  for (const [index, flag] of flags.entries()) {
    if (index > 0) yield ','
    yield textOf(flag, byId)
  }
  const rest = JSON.stringify({
    group_type_mapping: Object.fromEntries(set.groupTypes),
    cohorts: hasCohorts ? cohortTrees(flags, set.cohorts) : {},
  })
  yield `],${rest.slice(1)}`
}

/** Returns whether the header If-None-Match contains the ETag, in its weak or strong form, or `*`. */
export function isSameEtag(ifNoneMatch: string, etag: string): boolean {
  const wanted = strong(etag)
  return ifNoneMatch.split(',').some((text) => {
    const candidate = text.trim()
    return candidate === '*' || strong(candidate) === wanted
  })
}

function strong(etag: string): string {
  return etag.startsWith('W/') ? etag.slice(2) : etag
}

/**
 * Returns the JSON of a flag. It is cached as long as the flag does not change. If the flag depends on other flags, the
 * JSON contains their keys and is not cached.
 */
function textOf(flag: Flag, byId: ReadonlyMap<number, Flag>): string {
  const known = written.get(flag)
  if (known !== undefined) return known
  const filters = withChains(flag, byId)
  const text = JSON.stringify(minimalFlagBody(flag, strictFilters(filters)))
  if (filters === flag.filters) written.set(flag, text)
  return text
}

/**
 * Returns the filters of a flag, changed so that each filter on another flag names that flag by its key. Such a filter
 * also lists the keys of the flags that must be evaluated before it.
 */
function withChains(flag: Flag, byId: ReadonlyMap<number, Flag>): JsonObject {
  return withProperties(flag.filters, (property) => {
    if (property['type'] !== 'flag') return property
    const id = referenceOf(property['key'])
    const target = id === null ? undefined : byId.get(id)
    const chain = target === undefined ? [] : chainOf(target, byId)
    return { ...property, key: target?.key ?? property['key'], dependency_chain: chain }
  })
}

/**
 * Returns the keys of all flags that a flag depends on, each after its own dependencies, and last the key of the flag
 * itself. Returns an empty list if one of these flags is missing, if some of them depend on each other in a circle, or
 * if there are more than `FLAG_CHAIN_MAX`.
 */
function chainOf(target: Flag, byId: ReadonlyMap<number, Flag>): readonly string[] {
  const chain: string[] = []
  const open = new Set<number>()
  const done = new Set<number>()
  const add = (flag: Flag): boolean => {
    if (done.has(flag.id)) return true
    if (open.has(flag.id) || open.size + chain.length >= FLAG_CHAIN_MAX) return false
    open.add(flag.id)
    for (const id of flagReferences(flag.filters)) {
      const next = byId.get(id)
      if (next === undefined || !add(next)) return false
    }
    open.delete(flag.id)
    done.add(flag.id)
    chain.push(flag.key)
    return true
  }
  return add(target) ? chain : []
}

/**
 * Returns the trees of all dynamic cohorts that flags refer to, directly or through other cohorts. A tree that SDKs
 * cannot evaluate is left out, so that SDKs ask the server for the flag.
 */
function cohortTrees(
  flags: readonly Flag[],
  cohorts: ReadonlyMap<number, FlagCohort>,
): Record<string, unknown> {
  const trees: Record<string, unknown> = {}
  const seen = new Set<number>()
  const rest = flags.flatMap(({ filters }) => cohortReferences(filters))
  for (let id = rest.pop(); id !== undefined; id = rest.pop()) {
    if (seen.has(id)) continue
    seen.add(id)
    const cohort = cohorts.get(id)
    if (cohort === undefined || cohort.isStatic) continue
    const stored = cohort.filters['properties']
    const tree = strictTree(stored)
    if (tree !== null) trees[id] = tree
    rest.push(...cohortsOfTree(stored))
  }
  return trees
}
