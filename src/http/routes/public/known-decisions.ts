/**
 * Decisions that were made before, by the bytes of the request. Pages and SDKs ask the same again and
 * again; while nothing has changed that the decision was made of, reading the request and deciding would
 * come to the same. What may have changed is asked anew each time: the key, the snapshot, the person.
 */
import { DECISION_BYTES_MAX, KNOWN_DECISIONS_BYTES_MAX } from '../../../base/limits.ts'
import { RecentValues } from '../../../base/maps.ts'
import type { DecisionBasis, DecisionService } from '../../../engine/front/decisions.ts'
import type { ProjectDirectory } from '../../../rules/access/project-directory.ts'
import { asBuffer } from '../../../rules/capture/form.ts'
import type { Decisions } from '../../../rules/flags/types.ts'
import type { FlagRequestHead } from './flag-request.ts'

/** A decision with everything that has to be as it was. */
export interface KnownDecision {
  readonly head: FlagRequestHead
  /** The key of the project, as the request gave it. */
  readonly apiKey: string
  readonly projectId: number
  readonly decided: Decisions
  readonly basis: DecisionBasis
}

/** What an entry takes beside its text and its list of decisions. */
const ENTRY_BYTES = 400
const REFERENCE_BYTES = 8

/** Decisions of earlier requests. For the main thread. */
export class KnownDecisions {
  readonly #directory: Pick<ProjectDirectory, 'projectByKey'>
  readonly #decisions: Pick<DecisionService, 'isStillTrue'>
  readonly #known = new RecentValues(
    KNOWN_DECISIONS_BYTES_MAX,
    ({ decided }: KnownDecision) => decided.decisions.length * REFERENCE_BYTES + ENTRY_BYTES,
  )

  constructor(
    directory: Pick<ProjectDirectory, 'projectByKey'>,
    decisions: Pick<DecisionService, 'isStillTrue'>,
  ) {
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

  /** What was decided about the same request, if it still holds; else null. */
  find(head: FlagRequestHead, name: string): KnownDecision | null {
    const known = this.#known.get(name)
    if (known === undefined) return null
    const { apiKey, projectId, basis } = known
    if (known.head !== head) return null
    if (this.#directory.projectByKey(apiKey)?.id !== projectId) return null
    return this.#decisions.isStillTrue(basis) ? known : null
  }

  /** Keeps a decision, if such are asked for again; the oldest go beyond KNOWN_DECISIONS_BYTES_MAX. */
  keep(name: string, known: KnownDecision): void {
    this.#known.keep(name, known)
  }
}
