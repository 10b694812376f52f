/**
 * Answers a request for flags: finds the flags that take part in the request, and evaluates each of them. Source:
 * docs/compatibility/decisions.md, "Flag decisions".
 */
import type { JsonObject } from '../../base/json.ts'
import type { CompiledFlags } from './compile.ts'
import type { CompiledFlag } from './compiled-flag.ts'
import type { BrokenDependency } from './dependency-order.ts'
import { Evaluation } from './evaluation.ts'
import { EvaluationFailure } from './evaluation-failure.ts'
import type { DecisionRequest, DecisionSources, Decisions, Flag, FlagDecision } from './types.ts'

/** Returns a request about one person that asks for all flags. Members that `given` does not contain are empty. */
export function requestOf(
  given: Pick<DecisionRequest, 'distinctId' | 'nowMs'> & Partial<DecisionRequest>,
): DecisionRequest {
  return {
    groups: NOTHING,
    personProperties: NOTHING,
    groupProperties: NOTHING,
    anonDistinctId: null,
    deviceId: null,
    flagKeys: null,
    evaluationContexts: [],
    evaluationRuntime: 'all',
    isSurveyFlagsOnly: false,
    ...given,
  }
}

/** An answer without flags. */
export const NO_DECISIONS: Decisions = Object.freeze({
  decisions: [],
  hasErrors: false,
  isTimeBound: false,
})

const NOTHING: JsonObject = Object.freeze({})
const NO_CONTEXTS: ReadonlySet<string> = new Set()
const SURVEY_PREFIX = 'survey-targeting-'

/**
 * Decides all flags that take part in a request, in the order of the set. If `sources` cannot answer a question, the
 * flags that need the answer fail. The decisions are shared between requests and must not be changed, so a caller may
 * cache data by decision. A flag takes about 0.3 us, or more with patterns, dates and cohorts.
 */
export function decide(
  compiled: CompiledFlags,
  request: DecisionRequest,
  sources: DecisionSources,
): Decisions {
  const evaluation = new Evaluation(request, sources, compiled.rules)
  const part = participants(compiled, request)
  const { order, broken } = compiled.dependencies
  const hasDependencies = order.length > 0 || broken.size > 0
  if (hasDependencies) decideInOrder(compiled, part, evaluation)
  let hasErrors = false
  // `map` allocates the final length at once. An array that grows takes up to twice the memory, and the caller may keep
  // the array for long.
  const decisions = part.flags.map((flag) => {
    const { id } = flag.flag
    const known = hasDependencies ? evaluation.decided.get(id) : undefined
    const decision = known ?? decideFlag(flag, broken, evaluation)
    if (decision.isFailed || (hasDependencies && broken.get(id) === 'circle')) hasErrors = true
    return decision
  })
  return { decisions, hasErrors, isTimeBound: evaluation.isTimeBound }
}

/** Decides one flag. The flags that it depends on must have been decided. It never throws because of stored data. */
function decideFlag(
  compiled: CompiledFlag,
  broken: ReadonlyMap<number, BrokenDependency>,
  evaluation: Evaluation,
): FlagDecision {
  if (broken.size > 0 && broken.has(compiled.flag.id)) return compiled.outcomes.brokenDependency()
  try {
    return compiled.decide(evaluation)
  } catch (error) {
    if (error instanceof EvaluationFailure) return compiled.outcomes.failed(error.reason)
    throw error
  }
}

interface Participants {
  readonly flags: readonly CompiledFlag[]
  has(flag: CompiledFlag): boolean
}

/** Decides all flags that take part in dependencies, each after the flags that it depends on. */
function decideInOrder(compiled: CompiledFlags, part: Participants, evaluation: Evaluation): void {
  for (const id of compiled.dependencies.order) {
    const flag = compiled.byId.get(id)
    if (flag === undefined || !part.has(flag)) continue
    evaluation.decided.set(id, decideFlag(flag, compiled.dependencies.broken, evaluation))
  }
}

/** Returns the active flags that the request asks for and that its runtime and contexts allow. */
function participants(compiled: CompiledFlags, request: DecisionRequest): Participants {
  const isRestricted =
    (compiled.hasContexts && request.evaluationContexts.length > 0) ||
    (compiled.hasRuntimes && request.evaluationRuntime !== 'all') ||
    request.isSurveyFlagsOnly
  if (request.flagKeys === null) {
    if (!isRestricted) return { flags: compiled.active, has: () => true }
    const contexts = contextsOf(compiled, request)
    const isSeen = (flag: CompiledFlag): boolean => isVisible(flag.flag, request, contexts)
    return { flags: compiled.active.filter(isSeen), has: isSeen }
  }
  // If the request names a few of many flags, only these flags are visited.
  const wanted = requested(compiled, request.flagKeys)
  const contexts = contextsOf(compiled, request)
  const has = (flag: CompiledFlag): boolean =>
    wanted.has(flag) && isVisible(flag.flag, request, contexts)
  const flags = [...wanted].filter(has).sort((one, other) => one.flag.id - other.flag.id)
  return { flags, has }
}

/** Returns the flags with these keys and the flags that they depend on. */
function requested(
  { byKey, byId, dependencies }: CompiledFlags,
  keys: readonly string[],
): ReadonlySet<CompiledFlag> {
  const wanted = new Set<CompiledFlag>()
  for (const key of keys) {
    const flag = byKey.get(key)
    if (flag !== undefined) wanted.add(flag)
  }
  // Entries that are added to a Set during the loop are visited too, so the loop also reaches the dependencies of
  // dependencies.
  for (const { flag } of wanted) {
    for (const id of dependencies.dependencies.get(flag.id) ?? []) {
      const dependency = byId.get(id)
      if (dependency !== undefined) wanted.add(dependency)
    }
  }
  return wanted
}

/**
 * Returns the contexts of a request as a Set, because a request may name thousands and each flag looks up its own ones.
 */
function contextsOf(compiled: CompiledFlags, request: DecisionRequest): ReadonlySet<string> {
  return compiled.hasContexts ? new Set(request.evaluationContexts) : NO_CONTEXTS
}

function isVisible(flag: Flag, request: DecisionRequest, contexts: ReadonlySet<string>): boolean {
  const { evaluationRuntime: runtime } = request
  if (request.isSurveyFlagsOnly && !flag.key.startsWith(SURVEY_PREFIX)) return false
  const isLimited = flag.evaluationRuntime === 'client' || flag.evaluationRuntime === 'server'
  if (isLimited && runtime !== 'all' && runtime !== flag.evaluationRuntime) return false
  if (contexts.size === 0 || flag.evaluationContexts.length === 0) return true
  return flag.evaluationContexts.some((context) => contexts.has(context))
}
