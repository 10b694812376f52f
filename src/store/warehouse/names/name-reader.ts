/** The names of projects as of a snapshot: what was gathered before is kept, and only new segments are read. */
import { loadDistinctText } from '../../identity/distinct-ids.ts'
import { erasedRows } from '../../identity/erasure-records.ts'
import type { EventTables } from '../../lmdb/keys.ts'
import { loadCounters } from '../format/event-projects.ts'
import { SegmentTables } from '../format/segment-tables.ts'
import { NAMES_BYTES_MAX } from '../limits.ts'
import { ProjectNames } from './project-names.ts'

interface KnownNames {
  /** Number of merges and erasures when `erased` was read. */
  readonly generation: number
  /** Events that all erasures so far have removed. */
  readonly erased: number
  readonly names: ProjectNames
}

/** Keeps the names of projects for one thread. */
export class NameReader {
  readonly #tables: EventTables
  readonly #segments: SegmentTables
  readonly #known = new Map<number, KnownNames>()

  constructor(tables: EventTables) {
    this.#tables = tables
    // Views that nobody keeps: each segment is read once.
    this.#segments = new SegmentTables(tables)
  }

  /**
   * The names of a project. `check` is asked before each segment that is new, and throws to give up; what
   * was read stays. Throws `DamagedRecordError`. Cost: nothing when nothing has changed, else some
   * milliseconds for each new segment, and for all of them after an erasure.
   */
  names(projectId: number, check: () => void): ProjectNames {
    const counters = loadCounters(this.#tables.projects, projectId)
    const { names } = this.#current(projectId, counters?.generation ?? 0)
    const rows = counters?.rows ?? 0
    if (names.through < rows) {
      const first = this.#segments.firstSequenceOf(projectId, names.through + 1)
      for (const { firstSequence } of this.#segments.summaries(projectId, first, rows)) {
        check()
        names.add(this.#segments.segmentAt(projectId, firstSequence))
      }
    }
    this.#makeRoom()
    return names
  }

  #current(projectId: number, generation: number): KnownNames {
    let known = this.#known.get(projectId)
    this.#known.delete(projectId)
    if (known?.generation !== generation) {
      const erased = erasedRows(this.#tables.deletion_jobs, projectId)
      const textOf = (id: number): string => loadDistinctText(this.#tables, projectId, id)
      const isSame = known?.erased === erased
      const names = isSame && known ? known.names : new ProjectNames(projectId, textOf)
      known = { generation, erased, names }
    }
    this.#known.set(projectId, known)
    return known
  }

  /** Forgets the projects that were asked for longest ago. */
  #makeRoom(): void {
    let bytes = 0
    for (const { names } of this.#known.values()) bytes += names.bytes
    for (const [projectId, { names }] of this.#known) {
      if (bytes <= NAMES_BYTES_MAX || this.#known.size === 1) break
      bytes -= names.bytes
      this.#known.delete(projectId)
    }
  }
}
