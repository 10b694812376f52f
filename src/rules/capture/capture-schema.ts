/**
 * One event as the public capture endpoints receive it. The schema holds exactly what refuses a whole
 * request; everything else about an event is a matter of the files beside it.
 * Source: docs/compatibility/ingestion.md, "Requests that are refused".
 */
import { compileShape } from '../../base/validator.ts'

/** An event of a request whose structure was checked. Fields that are not listed may be anything. */
export interface CaptureEvent {
  [field: string]: unknown
  properties?: Record<string, unknown> | null
  /** Absent, null and '' mean that the server names the event. */
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
