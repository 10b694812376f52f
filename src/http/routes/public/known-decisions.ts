/**
 * Decisions that were made before. Pages and SDKs ask the same again and again; while nothing has changed that
 * the decision was made of, deciding would come to the same. What may have changed is asked anew each time: the
 * key, the snapshot, the person.
 *
 * The same request, byte for byte, is not even read. One that means the same in other bytes is (browsers put
 * the time into the query, and wrap the body): its decision is known by what the rules are asked.
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

/** A decision, and what it was made of. */
export interface KnownDecision {
  readonly projectId: number
  readonly decided: Decisions
  readonly basis: DecisionBasis
  /** How it was answered when it came again; null before. */
  answer: KeptAnswer | null
}

/** A request, by the bytes of its body. */
export interface KnownRequest {
  readonly head: FlagRequestHead
  /** The key of the project, as the request gave it. */
  readonly apiKey: string
  readonly projectId: number
  /** The name of what it means. */
  readonly meaning: string
}

/** What an entry takes beside its texts and its list of decisions. */
const ENTRY_BYTES = 400
const REFERENCE_BYTES = 8
const ALL_BYTES = KNOWN_REQUESTS_BYTES_MAX + KNOWN_DECISIONS_BYTES_MAX + KNOWN_ANSWERS_BYTES_MAX

/** Decisions of earlier requests. For the main thread. */
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
    // Each of the three gets its usual part.
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
   * The name under which a request is kept; null for one that is too large or wrapped: then more than its
   * body and head would have to be compared.
   */
  nameOf(head: FlagRequestHead, body: Uint8Array): string | null {
    const isPlain = head.query.compression === '' && head.contentEncoding === ''
    if (!isPlain || body.length > DECISION_BYTES_MAX || body[0] !== 0x7b) return null
    // One unit for each byte, whatever they mean: different bytes have different names.
    return asBuffer(body).toString('latin1')
  }

  /**
   * The name of what the rules are asked, which is all that JSON can say; null for a request that is too large.
   * `jsonBytes`: what it was read of. Some microseconds.
   */
  meaningOf(projectId: number, asked: DecisionRequest, jsonBytes: number): string | null {
    if (jsonBytes > DECISION_BYTES_MAX) return null
    const { distinctId, anonDistinctId, deviceId, flagKeys, evaluationContexts } = asked
    // No text, and not what stands for nothing.
    const none = 0
    return JSON.stringify([
      ...[projectId, distinctId, anonDistinctId ?? none, deviceId ?? none, flagKeys ?? none],
      ...[evaluationContexts, asked.evaluationRuntime ?? none, asked.isSurveyFlagsOnly],
      ...[asked.groups, asked.personProperties, asked.groupProperties],
    ])
  }

  /** What was decided about the same request, if it still holds; else null. */
  find(head: FlagRequestHead, name: string): KnownDecision | null {
    const request = this.#requests.get(name)
    if (request === undefined || request.head !== head) return null
    if (this.#directory.projectByKey(request.apiKey)?.id !== request.projectId) return null
    return this.findMeant(request.meaning)
  }

  /** What was decided when the rules were asked the same, if it still holds; else null. */
  findMeant(meaning: string): KnownDecision | null {
    const known = this.#known.get(meaning)
    return known !== undefined && this.#decisions.isStillTrue(known.basis) ? known : null
  }

  /** Keeps a decision, if such are asked for again; the oldest go beyond KNOWN_DECISIONS_BYTES_MAX. */
  keep(meaning: string, known: KnownDecision): void {
    this.#known.keep(meaning, known)
  }

  /** Notes what a request means, if such come again; the oldest go beyond KNOWN_REQUESTS_BYTES_MAX. */
  keepRequest(name: string, request: KnownRequest): void {
    this.#requests.keep(name, request)
  }

  /** The bytes of the answer with a decision that was found just now; short ones are kept, until the next call. */
  answerOf(known: KnownDecision, parts: AnswerParts): Uint8Array {
    const again = known.answer === null ? null : this.#answers.again(known.answer, parts)
    if (again !== null) return again
    const bytes = answerBytes(parts)
    if (bytes.length <= KNOWN_ANSWER_BYTES_MAX) known.answer = this.#answers.keep(parts, bytes)
    return bytes
  }
}
