/**
 * The answer to a request for flags: which flags take part, and what each of them evaluates to. Source:
 * docs/compatibility/decisions.md, "Flag decisions".
 */
import type { JsonObject } from '../../base/json.ts'
import type { CompiledFlags } from './compile.ts'
import type { CompiledFlag } from './compiled-flag.ts'
import type { BrokenDependency } from './dependency-order.ts'
import { Evaluation } from './evaluation.ts'
import { EvaluationFailure } from './evaluation-failure.ts'
import type { DecisionRequest, DecisionSources, Decisions, Flag, FlagDecision } from './types.ts'

/** A request about somebody that leaves out no flag; what `given` does not say is empty. */
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

/** No flags, for answers without any. */
export const NO_DECISIONS: Decisions = Object.freeze({
  decisions: [],
  hasErrors: false,
  isTimeBound: false,
})

const NOTHING: JsonObject = Object.freeze({})
const NO_CONTEXTS: ReadonlySet<string> = new Set()
const SURVEY_PREFIX = 'survey-targeting-'

/**
 * Decides all flags that take part, in the order of the set. What `sources` cannot answer makes the flags
 * that need it fail. The decisions are shared between requests: they must not be changed, and the same
 * object always says the same. Cost: some 0.3 us a flag, more with patterns, dates and cohorts.
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
  // Maps have the right length from the start: growing takes twice the memory of what may be kept.
  const decisions = part.flags.map((flag) => {
    const { id } = flag.flag
    const known = hasDependencies ? evaluation.decided.get(id) : undefined
    const decision = known ?? decideFlag(flag, broken, evaluation)
    if (decision.isFailed || (hasDependencies && broken.get(id) === 'circle')) hasErrors = true
    return decision
  })
  return { decisions, hasErrors, isTimeBound: evaluation.isTimeBound }
}

/** What one flag evaluates to, given those that it depends on. Never throws for what is stored. */
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

/** Flags that others depend on come first, each after what it depends on. */
function decideInOrder(compiled: CompiledFlags, part: Participants, evaluation: Evaluation): void {
  for (const id of compiled.dependencies.order) {
    const flag = compiled.byId.get(id)
    if (flag === undefined || !part.has(flag)) continue
    evaluation.decided.set(id, decideFlag(flag, compiled.dependencies.broken, evaluation))
  }
}

/** The active flags that a request asks for and may see. */
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
  // Few of many: what is not asked for is not looked at.
  const wanted = requested(compiled, request.flagKeys)
  const contexts = contextsOf(compiled, request)
  const has = (flag: CompiledFlag): boolean =>
    wanted.has(flag) && isVisible(flag.flag, request, contexts)
  const flags = [...wanted].filter(has).sort((one, other) => one.flag.id - other.flag.id)
  return { flags, has }
}

/** The flags with these keys and those that they depend on. */
function requested(
  { byKey, byId, dependencies }: CompiledFlags,
  keys: readonly string[],
): ReadonlySet<CompiledFlag> {
  const wanted = new Set<CompiledFlag>()
  for (const key of keys) {
    const flag = byKey.get(key)
    if (flag !== undefined) wanted.add(flag)
  }
  // A set visits what is added meanwhile.
  for (const { flag } of wanted) {
    for (const id of dependencies.dependencies.get(flag.id) ?? []) {
      const dependency = byId.get(id)
      if (dependency !== undefined) wanted.add(dependency)
    }
  }
  return wanted
}

/** The contexts of a request; a request may name thousands, and each flag looks for its own. */
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
