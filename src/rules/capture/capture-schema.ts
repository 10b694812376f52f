/**
 * The structure of one event of the public capture endpoints. The schema contains exactly those rules whose violation
 * refuses the whole request. The other files of this folder check everything else about an event.
 * Source: docs/compatibility/ingestion.md, "Requests that are refused".
 */
import { compileShape } from '../../base/validator.ts'

/** An event of a request whose structure was checked. Fields that are not listed may have any value. */
export interface CaptureEvent {
  [field: string]: unknown
  properties?: Record<string, unknown> | null
  /** The UUID that the client chose. If it is absent, null or '', the server assigns one. */
  uuid?: string | null
}

/** The structure that every event of a request must have. */
export const captureEventShape = compileShape<CaptureEvent>({
  type: 'object',
  minProperties: 1,
  properties: {
    properties: { type: 'object', nullable: true },
    uuid: { clientUuid: true },
  },
})
