/**
 * Writes the events of one segment as lines of JSON, directly from its columns to bytes. The constructor reads
 * everything that is needed from the segment, so the store may change while the lines are written.
 */

import { formatUuid } from '../../../base/ids.ts'
import { JsonBytes } from '../../../base/json-bytes.ts'
import type { ExportedEvent } from '../../../rules/events/exported-event.ts'
import { personModeOf } from '../format/segment-builder.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { EXPORT_TEXT_BYTES_MAX, EXPORT_TEXTS_MAX } from '../limits.ts'
import {
  ELEMENTS_HEAD,
  elementChunks,
  type PropertyChunks,
  propertyChunks,
} from './export-pieces.ts'

const UUID_BYTES = 16
const OBJECT_START = 0x7b
const OBJECT_END = 0x7d
const NEWLINE = 0x0a

/** The texts that are the same in every line. */
const HEADS = new JsonBytes()
const ID_HEAD = textChunk(HEADS, '{"id":')
const UUID_HEAD = textChunk(HEADS, ',"uuid":')
const TIMESTAMP_HEAD = textChunk(HEADS, ',"timestamp":"')
const ARRIVAL_HEAD = textChunk(HEADS, '","created_at":"')
/** For each mode byte: the text of a line that contains the person mode. */
const MODE_HEADS = Array.from({ length: 256 }, (_, byte) =>
  textChunk(HEADS, `","person_mode":"${personModeOf(byte)}",`),
)
const PROPERTIES_HEAD = textChunk(HEADS, '"properties":')

/** The JSON of distinct_ids, by their numbers. It stays cached over several segments of one project. */
export class DistinctTexts {
  json = new JsonBytes()
  readonly #textOf: (distinctId: number) => string
  readonly #chunks = new Map<number, number>()

  constructor(textOf: (distinctId: number) => string) {
    this.#textOf = textOf
  }

  /**
   * Evicts the texts if there are too many. `json` is then a new object, and offsets that were returned before are
   * valid only in the old object.
   */
  trim(): void {
    if (this.#chunks.size <= EXPORT_TEXTS_MAX && this.json.length <= EXPORT_TEXT_BYTES_MAX) return
    this.#chunks.clear()
    this.json = new JsonBytes()
  }

  /** Returns the offset in `json` at which the chunk with a distinct_id begins. Throws `DamagedRecordError`. */
  chunkOf(distinctId: number): number {
    let chunk = this.#chunks.get(distinctId)
    if (chunk === undefined) {
      chunk = this.json.beginChunk()
      this.json.writeText(JSON.stringify(this.#textOf(distinctId)))
      this.json.endChunk(chunk)
      this.#chunks.set(distinctId, chunk)
    }
    return chunk
  }
}

/**
 * The wanted rows of a segment. The typed arrays are parallel, indexed by the position of a row among the wanted rows.
 * A line is a concatenation of chunks:
 *
 *   #arena          ,"event":"$pageview","distinct_id":   ,"$browser":"Chrome"   ,"$os":"Linux"   ...
 *   #distinctJson   "user-1"   "user-2"   ...
 *   line            {"id": 7 ,"uuid": ... | name chunk | distinct_id chunk | times, mode, elements | properties }
 */
export class SegmentLines {
  readonly count: number
  readonly #ids: Float64Array
  readonly #timestamps: Float64Array
  readonly #arrivals: Float64Array
  readonly #uuids: Buffer
  /** The mode byte of each wanted row (segment-builder.ts). */
  readonly #modes: Uint8Array
  readonly #nameTexts: readonly string[]
  /** For each wanted row: the position of its name in `#nameTexts` and `#names`. */
  readonly #nameIds: Uint16Array
  /**
   * Offsets of chunks in `#arena`: `#names` has one for each name, and `#elements` one for each wanted row. A row
   * without elements has 0 or an empty chunk in `#elements`.
   */
  readonly #names: readonly number[]
  readonly #elements: Uint32Array
  readonly #properties: PropertyChunks
  readonly #arena: JsonBytes
  /** For each wanted row: the offset of the chunk with its distinct_id in `#distinctJson`. */
  readonly #distinctIds: Uint32Array
  readonly #distinctJson: JsonBytes

  /**
   * `rows` are the numbers of the wanted rows, in ascending order. `arenaBytes` is the size that the buffer for chunks
   * has at first. Throws `DamagedRecordError`.
   */
  constructor(
    view: SegmentView,
    rows: Uint16Array,
    distinctTexts: DistinctTexts,
    arenaBytes: number | undefined,
  ) {
    const count = rows.length
    this.count = count
    this.#arena = new JsonBytes(arenaBytes)
    this.#ids = new Float64Array(count)
    this.#timestamps = new Float64Array(count)
    this.#arrivals = new Float64Array(count)
    this.#modes = new Uint8Array(count)
    this.#nameIds = new Uint16Array(count)
    this.#uuids = Buffer.allocUnsafe(count * UUID_BYTES)
    this.#distinctIds = new Uint32Array(count)
    const { timestamps, arrivals, distinctIds, names } = view
    const { firstSequence } = view.summary
    const places = new Int32Array(view.summary.rows).fill(-1)
    distinctTexts.trim()
    for (let place = 0; place < count; place++) {
      const row = rows[place] ?? 0
      places[row] = place
      this.#ids[place] = firstSequence + row
      this.#timestamps[place] = timestamps[row] ?? 0
      this.#arrivals[place] = arrivals[row] ?? 0
      this.#modes[place] = view.modeOf(row)
      this.#nameIds[place] = names.ids[row] ?? 0
      view.copyUuid(row, this.#uuids, place * UUID_BYTES)
      this.#distinctIds[place] = distinctTexts.chunkOf(distinctIds[row] ?? 0)
    }
    this.#nameTexts = names.values.map(String)
    this.#names = this.#nameTexts.map((name) =>
      textChunk(this.#arena, `,"event":${JSON.stringify(name)},"distinct_id":`),
    )
    this.#distinctJson = distinctTexts.json
    const wanted = {
      view,
      count,
      places,
      arena: this.#arena,
      distinctChunks: this.#distinctIds,
      distinctJson: this.#distinctJson,
    }
    this.#elements = elementChunks(wanted)
    this.#properties = propertyChunks(wanted)
  }

  /** The number of bytes of the buffer for chunks. It is a good first size for the next segment of the project. */
  get arenaBytes(): number {
    return this.#arena.bytes.length
  }

  /** Appends the line of a wanted row, with the newline at its end. */
  writeLine(place: number, target: JsonBytes): void {
    target.copyChunk(HEADS, ID_HEAD)
    target.writeNumber(this.#ids[place] ?? 0)
    target.copyChunk(HEADS, UUID_HEAD)
    target.writeUuid(this.#uuids, place * UUID_BYTES)
    target.copyChunk(this.#arena, this.#names[this.#nameIds[place] ?? 0] ?? 0)
    target.copyChunk(this.#distinctJson, this.#distinctIds[place] ?? 0)
    target.copyChunk(HEADS, TIMESTAMP_HEAD)
    target.writeTime(this.#timestamps[place] ?? 0)
    target.copyChunk(HEADS, ARRIVAL_HEAD)
    target.writeTime(this.#arrivals[place] ?? 0)
    target.copyChunk(HEADS, MODE_HEADS[this.#modes[place] ?? 0] ?? 0)
    const elements = this.#elements[place] ?? 0
    if (elements !== 0) target.copyChunk(this.#arena, elements)
    target.copyChunk(HEADS, PROPERTIES_HEAD)
    this.#writeProperties(place, target)
    target.writeByte(OBJECT_END)
    target.writeByte(NEWLINE)
  }

  /** Returns the event of a wanted row, without its person. */
  eventAt(place: number): Omit<ExportedEvent, 'personId'> {
    const elements = this.#elements[place] ?? 0
    const properties = new JsonBytes()
    this.#writeProperties(place, properties)
    return {
      id: this.#ids[place] ?? 0,
      uuid: formatUuid(this.#uuids, place * UUID_BYTES),
      event: this.#nameTexts[this.#nameIds[place] ?? 0] ?? '',
      distinctId: String(JSON.parse(this.#distinctJson.chunkText(this.#distinctIds[place] ?? 0))),
      timestampMs: this.#timestamps[place] ?? 0,
      arrivedAtMs: this.#arrivals[place] ?? 0,
      personMode: personModeOf(this.#modes[place] ?? 0),
      elementsChain: elements === 0 ? '' : elementsChainOf(this.#arena.chunkText(elements)),
      propertiesJson: properties.bytes.toString('utf8', 0, properties.length),
    }
  }

  #writeProperties(place: number, target: JsonBytes): void {
    const { chunks, ends } = this.#properties
    const start = target.length
    const end = ends[place + 1] ?? 0
    for (let index = ends[place] ?? 0; index < end; index++) {
      target.copyChunk(this.#arena, chunks[index] ?? 0)
    }
    // Each chunk begins with a comma. The comma before the first property is replaced by the opening brace.
    if (target.length === start) target.writeByte(OBJECT_START)
    else target.bytes[start] = OBJECT_START
    target.writeByte(OBJECT_END)
  }
}

/** Returns the elements of an event from a chunk that `elementChunks` has written. */
function elementsChainOf(chunk: string): string {
  return chunk === '' ? '' : String(JSON.parse(chunk.slice(ELEMENTS_HEAD.length, -1)))
}

function textChunk(target: JsonBytes, text: string): number {
  const start = target.beginChunk()
  target.writeText(text)
  target.endChunk(start)
  return start
}
