/**
 * The structure of one event of the public capture endpoints. If an event violates a rule of this schema, the whole
 * request is refused. All other rules for events are in the other files of this folder. Source:
 * docs/compatibility/ingestion.md, "Requests that are refused".
 */
import { compileShape } from '../../base/validator.ts'

/** An event of a request whose structure was checked. A field that is not listed here may have any value. */
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
