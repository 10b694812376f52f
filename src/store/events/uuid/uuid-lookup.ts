/**
 * Finds an event by its uuid, for readers. First it searches the newest segments, whose events are not in a run of the
 * uuid index yet. Then it searches the runs.
 */
import { readNumber } from '../../lmdb/event-state.ts'
import type { EventTables } from '../../lmdb/keys.ts'
import { loadCounters, type ProjectCounters } from '../format/event-projects.ts'
import type { SegmentReader } from '../format/segment-reader.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { SAME_UUID_MAX } from '../limits.ts'
import { UuidFingerprint } from './uuid-fingerprint.ts'
import { loadRuns, RunCursor, type UuidRun } from './uuid-run.ts'

/** An event, given as a row of a segment. */
export interface FoundRow {
  readonly view: SegmentView
  readonly row: number
}

/** Searches events by uuid. It caches the directories of the runs. */
export class UuidLookup {
  readonly #tables: EventTables
  readonly #segments: SegmentReader
  #runs: ReadonlyMap<number, UuidRun> = new Map()

  constructor(tables: EventTables, segments: SegmentReader) {
    this.#tables = tables
    this.#segments = segments
  }

  /**
   * Returns the newest event with a uuid (16 bytes), or null if there is none. The event may be erased. Throws
   * `DamagedRecordError`.
   */
  newest(projectId: number, uuid: Uint8Array): FoundRow | null {
    const counters = loadCounters(this.#tables.projects, projectId)
    const seed = readNumber(this.#tables.state, 'seed')
    if (counters === null || seed === null) return null
    return (
      this.#findUnindexed(projectId, uuid, counters) ??
      this.#findIndexed(projectId, uuid, seed, counters.indexedRows)
    )
  }

  /**
   * Returns whether the runs contain an erased event with this uuid. The uuid itself was erased, and only its
   * fingerprint is left. If another erased event had the same fingerprint, the result is wrong, but the chance of this
   * is one in billions. Throws `DamagedRecordError`.
   */
  wasErased(projectId: number, uuid: Uint8Array): boolean {
    const rows = loadCounters(this.#tables.projects, projectId)?.rows ?? 0
    const seed = readNumber(this.#tables.state, 'seed')
    if (seed === null) return false
    return this.#sequences(projectId, uuid, seed).some((sequence) => {
      if (sequence > rows) return false
      const view = this.#segments.segmentOf(projectId, sequence)
      return view.distinctIds[sequence - view.summary.firstSequence] === 0
    })
  }

  /** Returns the directories of all runs. Only those that are not cached are read. */
  runs(): readonly UuidRun[] {
    const runs = loadRuns(this.#tables, this.#runs)
    this.#runs = new Map(runs.map((run) => [run.number, run]))
    return runs
  }

  /** Searches the events that are not in a run yet, newest first. */
  #findUnindexed(
    projectId: number,
    uuid: Uint8Array,
    { rows, indexedRows }: ProjectCounters,
  ): FoundRow | null {
    for (let sequence = rows; sequence > indexedRows; ) {
      const view = this.#segments.segmentOf(projectId, sequence)
      const row = view.findUuid(uuid)
      if (row >= 0) return { view, row }
      sequence = view.summary.firstSequence - 1
    }
    return null
  }

  #findIndexed(
    projectId: number,
    uuid: Uint8Array,
    seed: number,
    indexedRows: number,
  ): FoundRow | null {
    for (const sequence of this.#sequences(projectId, uuid, seed)) {
      if (sequence > indexedRows) continue
      const view = this.#segments.segmentOf(projectId, sequence)
      const row = sequence - view.summary.firstSequence
      if (view.findUuid(uuid, row, row) === row) return { view, row }
    }
    return null
  }

  /** Returns the sequence numbers of the events in the runs that may have a uuid, newest first. */
  #sequences(projectId: number, uuid: Uint8Array, seed: number): readonly number[] {
    const fingerprint = new UuidFingerprint(seed)
    // Only the high half of the fingerprint is used. The low half also depends on name and distinct_id, which are not
    // known here.
    fingerprint.compute(projectId, uuid, 0, 0, 0)
    const sequences: number[] = []
    for (const run of this.runs()) {
      const cursor = new RunCursor(this.#tables, run)
      cursor.collect(fingerprint.high >>> 0, null, sequences, SAME_UUID_MAX)
    }
    return sequences.sort((a, b) => b - a)
  }
}
