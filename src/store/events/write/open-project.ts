/** The state of one project in the writing thread: its counters, and its events that are not committed yet. */
import type { DistinctIds } from '../../identity/distinct-ids.ts'
import type { ProjectCounters } from '../format/event-projects.ts'
import { SegmentBuilder } from '../format/segment-builder.ts'
import type { EncodedSegment, SegmentEncoder } from '../format/segment-encoder.ts'
import { QUALITY_FAST } from '../format/segment-format.ts'
import type { RowIdentity } from '../format/segment-view.ts'

/** An encoded segment that waits for the commit. The columns that the duplicate check needs are kept beside it. */
interface PendingSegment {
  readonly segment: EncodedSegment
  readonly uuids: Uint8Array
  readonly distinctIds: Uint32Array
  readonly nameIds: Uint16Array
  readonly timestamps: Float64Array
  readonly names: readonly unknown[]
}

/** One project in the writing thread. */
export class OpenProject {
  readonly projectId: number
  /** The counters as they were at the last commit. `takePending` adds the events of the next commit to them. */
  readonly counters: ProjectCounters
  /** The sequence number of the newest event, which may not be committed yet. */
  rows: number
  /** The hash of each name in `builder.names`, by the position of the name, from 1 on. */
  nameHashes: number[] = []
  readonly #distinctIds: DistinctIds
  #builder: SegmentBuilder | null = null
  #pending: PendingSegment[] = []

  constructor(projectId: number, counters: ProjectCounters, distinctIds: DistinctIds) {
    this.projectId = projectId
    this.counters = counters
    this.rows = this.counters.rows
    this.#distinctIds = distinctIds
  }

  get builder(): SegmentBuilder {
    this.#builder ??= new SegmentBuilder((distinctId) => this.textOf(distinctId))
    return this.#builder
  }

  /** Returns the text of a distinct ID number. Throws `DamagedRecordError`. */
  textOf(distinctId: number): string {
    return this.#distinctIds.textOf(this.projectId, distinctId)
  }

  /** Releases the memory of the builder, which must have no rows. */
  releaseBuilder(): void {
    this.#builder?.release()
    this.#builder = null
    this.nameHashes = []
  }

  /**
   * Encodes the rows of the builder as a segment that waits for the commit. Returns the number of bytes of the segment.
   */
  encode(encoder: SegmentEncoder): number {
    const { builder } = this
    const { rows } = builder
    const segment = encoder.encode(this.projectId, this.rows - rows + 1, builder, QUALITY_FAST)
    this.#pending.push({
      segment,
      uuids: builder.uuids.slice(0, rows * 16),
      distinctIds: builder.distinctIds.slice(0, rows),
      nameIds: builder.names.ids.slice(0, rows),
      timestamps: builder.timestamps.slice(0, rows),
      names: builder.names.values,
    })
    builder.reset()
    this.nameHashes = []
    return segment.bytes
  }

  /** Returns the segments for this commit, and adds them to the counters. */
  takePending(): readonly EncodedSegment[] {
    const segments = this.#pending.map(({ segment }) => segment)
    this.#pending = []
    const { counters } = this
    counters.rows = this.rows
    counters.segments += segments.length
    for (const { bytes } of segments) counters.bytes += bytes
    return segments
  }

  /**
   * Returns whether the event with a sequence number has this identity. Only events that are not committed yet are
   * compared. For a committed event, returns null.
   */
  isPendingRow(sequence: number, row: RowIdentity): boolean | null {
    if (sequence <= this.counters.rows) return null
    for (const { segment, uuids, distinctIds, nameIds, names } of this.#pending) {
      const index = sequence - segment.firstSequence
      if (index >= segment.rows) continue
      return (
        distinctIds[index] === row.distinctId &&
        names[(nameIds[index] ?? 0) - 1] === row.name &&
        isUuidAt(uuids, index, row)
      )
    }
    const { builder } = this
    const index = sequence - (this.rows - builder.rows) - 1
    return (
      builder.distinctIds[index] === row.distinctId &&
      builder.names.values[(builder.names.ids[index] ?? 0) - 1] === row.name &&
      isUuidAt(builder.uuids, index, row)
    )
  }

  /** Returns the time of an event that is not committed yet. */
  pendingTimeOf(sequence: number): number {
    for (const { segment, timestamps } of this.#pending) {
      const index = sequence - segment.firstSequence
      if (index < segment.rows) return timestamps[index] ?? 0
    }
    const { builder } = this
    return builder.timestamps[sequence - (this.rows - builder.rows) - 1] ?? 0
  }
}

function isUuidAt(uuids: Uint8Array, index: number, row: RowIdentity): boolean {
  for (let byte = 0; byte < 16; byte++) {
    if (uuids[index * 16 + byte] !== row.uuidBytes[row.uuidOffset + byte]) return false
  }
  return true
}
