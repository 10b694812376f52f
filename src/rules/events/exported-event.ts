/** Events as an export gives them out: as lines, or field by field. */
import type { JsonBytes } from '../../base/json-bytes.ts'

/** One event, ready to be written. */
export interface ExportedEvent {
  readonly id: number
  readonly uuid: string
  readonly event: string
  readonly distinctId: string
  /** uuid of the person that the event belongs to now; without one that of its distinct_id. */
  readonly personId: string
  readonly timestampMs: number
  readonly arrivedAtMs: number
  readonly personMode: string
  readonly elementsChain: string
  /** JSON of the properties. */
  readonly propertiesJson: string
}

/** The events of one segment that are wanted, and how far the project is read. */
export interface ExportedSegment {
  readonly count: number
  /** To be gone through once, begun before the next segment: each is made when it is asked for. */
  readonly events: Iterable<ExportedEvent>
  /** Appends event `place`, 0 to `count` - 1, as a line of NDJSON with its newline. */
  writeLine(place: number, target: JsonBytes): void
  /** Id of the last event of the segment, wanted or not. */
  readonly lastId: number
}
