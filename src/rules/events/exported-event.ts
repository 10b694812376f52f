/** Events as an export returns them: as lines, or field by field. */
import type { JsonBytes } from '../../base/json-bytes.ts'

/** One event, ready to be written. */
export interface ExportedEvent {
  readonly id: number
  readonly uuid: string
  readonly event: string
  readonly distinctId: string
  /**
   * The uuid of the person that the event belongs to now. If there is no person, it is the uuid that a person would get
   * from the distinct_id.
   */
  readonly personId: string
  readonly timestampMs: number
  readonly arrivedAtMs: number
  readonly personMode: string
  readonly elementsChain: string
  /** The JSON of the properties. */
  readonly propertiesJson: string
}

/**
 * The events of one segment that the export selects, at most `rowsMax`, and the position up to which the project was
 * read.
 */
export interface ExportedSegment {
  readonly count: number
  /**
   * The events. They can be iterated once. Start the iteration before you request the next segment. Each event is built
   * when it is read.
   */
  readonly events: Iterable<ExportedEvent>
  /** Appends the event with the index `place`, from 0 to `count` - 1, as a line of NDJSON with its newline. */
  writeLine(place: number, target: JsonBytes): void
  /**
   * The id of the last event that was examined, whether or not the export selects this event. The export continues with
   * the next id.
   */
  readonly lastId: number
}
