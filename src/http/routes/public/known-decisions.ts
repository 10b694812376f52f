/**
 * A cache of flag decisions. Pages and SDKs send the same requests again and again. As long as the inputs of a decision
 * have not changed, deciding again would give the same result. The inputs that can change are checked each time: the
 * key, the snapshot and the person.
 *
 * A request with the same bytes as an earlier one is not even parsed. A request that has other bytes and means the same
 * is parsed, and the cached decision is found by its meaning. Browsers send such requests, because they put the time
 * into the query and encode the body.
 */
import {
  DECISION_BYTES_MAX,
  KNOWN_ANSWER_BYTES_MAX,
  KNOWN_ANSWERS_BYTES_MAX,
  KNOWN_DECISIONS_BYTES_MAX,
  KNOWN_REQUESTS_BYTES_MAX,
} from '../../../base/limits.ts'
import { RecentValues } from '../../../base/maps.ts'
import type { DecisionBasis, DecisionService } from '../../../engine/front/decisions.ts'
import type { ProjectDirectory } from '../../../rules/access/project-directory.ts'
import { asBuffer } from '../../../rules/capture/form.ts'
import type { DecisionRequest, Decisions } from '../../../rules/flags/types.ts'
import { type AnswerParts, answerBytes, type KeptAnswer, KeptAnswers } from './decide-answers.ts'
import type { FlagRequestHead } from './flag-request.ts'

/** A cached decision, with the inputs on which it depends. */
export interface KnownDecision {
  readonly projectId: number
  readonly decided: Decisions
  readonly basis: DecisionBasis
  /** The cached answer with this decision. Null until the decision has been repeated. */
  answer: KeptAnswer | null
}

/** A cached request. It is found by the bytes of its body. */
export interface KnownRequest {
  readonly head: FlagRequestHead
  /** The key of the project, as the request contains it. */
  readonly apiKey: string
  readonly projectId: number
  /** The text that identifies the meaning of the request. See `meaningOf`. */
  readonly meaning: string
}

/** The estimated bytes of an entry of the cache, without its texts and its list of decisions. */
const ENTRY_BYTES = 400
const REFERENCE_BYTES = 8
const ALL_BYTES = KNOWN_REQUESTS_BYTES_MAX + KNOWN_DECISIONS_BYTES_MAX + KNOWN_ANSWERS_BYTES_MAX

/** The cache of decisions. It is used on the main thread. */
export class KnownDecisions {
  readonly #directory: Pick<ProjectDirectory, 'projectByKey'>
  readonly #decisions: Pick<DecisionService, 'isStillTrue'>
  readonly #requests: RecentValues<KnownRequest>
  readonly #known: RecentValues<KnownDecision>
  readonly #answers: KeptAnswers

  constructor(
    directory: Pick<ProjectDirectory, 'projectByKey'>,
    decisions: Pick<DecisionService, 'isStillTrue'>,
    bytesMax: number = ALL_BYTES,
  ) {
    // Each of the three caches gets its usual share of `bytesMax`.
    const part = (usualBytes: number): number => (usualBytes * bytesMax) / ALL_BYTES
    this.#requests = new RecentValues(
      part(KNOWN_REQUESTS_BYTES_MAX),
      ({ meaning }) => meaning.length + ENTRY_BYTES,
    )
    this.#known = new RecentValues(
      part(KNOWN_DECISIONS_BYTES_MAX),
      ({ decided }) => decided.decisions.length * REFERENCE_BYTES + ENTRY_BYTES,
    )
    this.#answers = new KeptAnswers(part(KNOWN_ANSWERS_BYTES_MAX))
    this.#directory = directory
    this.#decisions = decisions
  }

  /**
   * Returns the name under which a request is cached. Returns null if the request is not cached: because it is too
   * large, or because its body is not plain JSON.
   */
  nameOf(head: FlagRequestHead, body: Uint8Array): string | null {
    const isPlain = head.query.compression === '' && head.contentEncoding === ''
    if (!isPlain || body.length > DECISION_BYTES_MAX || body[0] !== 0x7b) return null
    // Each byte becomes one character, so different bodies have different names.
    return asBuffer(body).toString('latin1')
  }

  /**
   * Returns a text with everything that can influence a decision: two requests with the same text get the same
   * decision. Returns null if the request is too large. `jsonBytes` is the size of the request's JSON. The call takes
   * some microseconds.
   */
  meaningOf(projectId: number, asked: DecisionRequest, jsonBytes: number): string | null {
    if (jsonBytes > DECISION_BYTES_MAX) return null
    const { distinctId, anonDistinctId, deviceId, flagKeys, evaluationContexts } = asked
    // Stands for a missing value. The values that may be missing are texts and lists, so a number cannot be confused
    // with them.
    const none = 0
    return JSON.stringify([
      projectId,
      distinctId,
      anonDistinctId ?? none,
      deviceId ?? none,
      flagKeys ?? none,
      evaluationContexts,
      asked.evaluationRuntime ?? none,
      asked.isSurveyFlagsOnly,
      asked.groups,
      asked.personProperties,
      asked.groupProperties,
    ])
  }

  /**
   * Returns the cached decision for a request with the same bytes, or null if there is none or if it is no longer
   * valid.
   */
  find(head: FlagRequestHead, name: string): KnownDecision | null {
    const request = this.#requests.get(name)
    if (request === undefined || request.head !== head) return null
    if (this.#directory.projectByKey(request.apiKey)?.id !== request.projectId) return null
    return this.findMeant(request.meaning)
  }

  /**
   * Returns the cached decision for a request with the same meaning, or null if there is none or if it is no longer
   * valid.
   */
  findMeant(meaning: string): KnownDecision | null {
    const known = this.#known.get(meaning)
    return known !== undefined && this.#decisions.isStillTrue(known.basis) ? known : null
  }

  /**
   * Caches a decision. If hardly any cached decision is used again, most calls do nothing. When the decisions exceed
   * their share of the memory, the oldest ones are evicted.
   */
  keep(meaning: string, known: KnownDecision): void {
    this.#known.keep(meaning, known)
  }

  /**
   * Caches the meaning of a request. If hardly any cached request is repeated, most calls do nothing. When the requests
   * exceed their share of the memory, the oldest ones are evicted.
   */
  keepRequest(name: string, request: KnownRequest): void {
    this.#requests.keep(name, request)
  }

  /**
   * Returns the bytes of the answer with a decision that was found in the cache. They are valid until the next call. A
   * short answer is cached.
   */
  answerOf(known: KnownDecision, parts: AnswerParts): Uint8Array {
    const again = known.answer === null ? null : this.#answers.again(known.answer, parts)
    if (again !== null) return again
    const bytes = answerBytes(parts)
    if (bytes.length <= KNOWN_ANSWER_BYTES_MAX) known.answer = this.#answers.keep(parts, bytes)
    return bytes
  }
}
