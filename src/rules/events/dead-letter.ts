/**
 * The shape of dead letters, which are events or blocks of the log that could not be processed, and of lists of them.
 * The store keeps them.
 */
import { RECORD_IP_ANONYMIZED } from '../capture/log-block.ts'
import type { FateSample } from './ingestion-fates.ts'
import { LETTER_BODY_BYTES_MAX } from './limits.ts'

/** The facts about an event that the log contains outside of the event's JSON. */
export interface DeadLetterOrigin {
  /** The RECORD_* bits with which the request was recorded in the log. */
  readonly flags: number
  readonly arrivedAtMs: number
  /** The time at which the client sent the request, by its own clock. NaN if the client did not give this time. */
  readonly sentAtMs: number
  /** The IP address of the client. It is '' if the project stores no IP addresses. */
  readonly address: string
  /** The 16 bytes of the event's uuid. Null if the client sent no uuid. */
  readonly uuid: Uint8Array | null
}

/** The number of dead letters and their bytes. */
export interface DeadLetterCounts {
  readonly count: number
  readonly bytes: number
  /**
   * The number of letters that were discarded because a limit was reached. Letters that an earlier call of `takeCounts`
   * has reported are not counted again.
   */
  readonly forgotten: number
}

/** An event or a whole block that could not be processed. */
export interface DeadLetter {
  /** The number of the project. It is 0 if the project is unknown. */
  readonly projectId: number
  /** The step that failed: `read` or `process`. */
  readonly step: string
  /** The text of the error. */
  readonly reason: string
  /** The bytes of the event or block as they were accepted. */
  readonly raw: Uint8Array
  readonly origin?: DeadLetterOrigin
}

/** A dead letter as it was stored. */
export interface StoredDeadLetter extends Omit<DeadLetter, 'origin'> {
  readonly number: number
  readonly storedAtMs: number
  /** The other data that the log contained about the event. Null for blocks, commands, and letters of old versions. */
  readonly origin: DeadLetterOrigin | null
}

/** A dead letter as lists show it. */
export interface DeadLetterView {
  readonly number: number
  /** The time at which the letter was stored, in ISO 8601, UTC. */
  readonly stored_at: string
  /** The number of the project. Null if the project is unknown. */
  readonly project: number | null
  readonly step: string
  readonly reason: string
  readonly bytes: number
  /** The beginning of the accepted bytes. Null for blocks, and if the project stores no IP addresses. */
  readonly body: string | null
}

/** Returns a letter as lists show it. */
export function letterView(letter: StoredDeadLetter): DeadLetterView {
  const { number, storedAtMs, projectId, step, reason, raw } = letter
  // The bytes of the event may contain an IP address that the client sent, so they are not shown if the project stores
  // no IP addresses.
  const isPrivate = ((letter.origin?.flags ?? 0) & RECORD_IP_ANONYMIZED) !== 0
  const start = raw.subarray(0, LETTER_BODY_BYTES_MAX)
  const isCut = start.length < raw.length
  return {
    number,
    stored_at: new Date(storedAtMs).toISOString(),
    project: projectId === 0 ? null : projectId,
    step,
    reason,
    bytes: raw.length,
    body: step === 'read' || isPrivate ? null : new TextDecoder().decode(start, { stream: isCut }),
  }
}

/** Returns a dead letter as a sample for the console page that shows why events were not stored. */
export function letterSample(letter: StoredDeadLetter): FateSample {
  const { stored_at: at, reason: detail, body } = letterView(letter)
  const known = { at, distinct_id: null, event: null, uuid: null, detail }
  return body === null ? known : { ...known, body }
}
