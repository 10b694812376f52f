/** Builds the form in which the API shows a stored event, from the columns of its segment. */
import type { JsonObject } from '../../../base/json.ts'
import type { EventView } from '../../../rules/events/event-queries.ts'
import { eventView } from '../../../rules/events/event-view.ts'
import type { expandProperties } from '../../../rules/persons/automatic-properties.ts'
import { loadDistinctText } from '../../identity/distinct-ids.ts'
import type { PersonReader } from '../../identity/person-reader.ts'
import type { EventTables } from '../../lmdb/keys.ts'
import { addOwn, isHistoricalMode, personModeOf } from '../format/segment-builder.ts'
import { MODE_MIRROR, ROLE_ELEMENTS, ROLE_PROPERTY, ROLE_REST } from '../format/segment-format.ts'
import type { SegmentView } from '../format/segment-view.ts'

/** Creates views of stored events. */
export class EventViews {
  readonly #tables: EventTables
  readonly #persons: PersonReader
  readonly #expand: typeof expandProperties

  /** `expand` adds the derived properties (rules/persons/automatic-properties.ts) that the stored form omits. */
  constructor(tables: EventTables, persons: PersonReader, expand: typeof expandProperties) {
    this.#tables = tables
    this.#persons = persons
    this.#expand = expand
  }

  /** Returns one event. Decodes only the columns in which the row has a value. Throws `DamagedRecordError`. */
  viewOf(view: SegmentView, row: number): EventView {
    const { projectId, firstSequence } = view.summary
    const number = view.distinctIds[row] ?? 0
    const distinctId = loadDistinctText(this.#tables, projectId, number)
    const mode = view.modeOf(row)
    const facts = {
      projectId,
      sequence: firstSequence + row,
      uuid: view.uuidOf(row),
      name: view.nameOf(row),
      distinctId,
      timestampMs: view.timestamps[row] ?? 0,
      createdAtMs: view.arrivals[row] ?? 0,
      properties: propertiesOf(view, row, distinctId),
      elementsChain: elementsOf(view, row),
      personMode: personModeOf(mode),
      isHistorical: isHistoricalMode(mode),
    }
    const person = this.#persons.summaryOf(projectId, number, facts.sequence)
    return eventView(facts, person, this.#expand)
  }
}

/** Returns the stored properties of a row. Throws `DamagedRecordError`. */
export function propertiesOf(view: SegmentView, row: number, distinctId: string): JsonObject {
  const properties: JsonObject = {}
  for (const entry of view.directory.columns) {
    if (entry.role !== ROLE_PROPERTY && entry.role !== ROLE_REST) continue
    const place = view.placeOf(entry, row)
    if (place < 0) continue
    if (entry.mode === MODE_MIRROR) addOwn(properties, entry.key, distinctId)
    else if (entry.role === ROLE_PROPERTY) {
      addOwn(properties, entry.key, view.valueAt(entry, place))
    } else {
      // The cast is right: the column of shared properties contains only objects.
      const shared = view.valueAt(entry, place) as Readonly<JsonObject>
      for (const [key, value] of Object.entries(shared)) addOwn(properties, key, value)
    }
  }
  return properties
}

function elementsOf(view: SegmentView, row: number): string {
  const entry = view.special(ROLE_ELEMENTS)
  const place = entry === undefined ? -1 : view.placeOf(entry, row)
  return entry === undefined || place < 0 ? '' : String(view.valueAt(entry, place))
}
