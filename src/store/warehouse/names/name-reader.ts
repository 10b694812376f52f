/** The names of projects as of a snapshot: what was gathered before is kept, and only new segments are read. */
import { loadDistinctText } from '../../identity/distinct-ids.ts'
import { erasedRows } from '../../identity/erasure-records.ts'
import type { EventTables } from '../../lmdb/keys.ts'
import { loadCounters } from '../format/event-projects.ts'
import { SEGMENT_ROWS_TARGET } from '../format/segment-builder.ts'
import { SegmentTables } from '../format/segment-tables.ts'
import { NAMES_BYTES_MAX } from '../limits.ts'
import { loadKeptNames } from './kept-names.ts'
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
  readonly #referredNames: (projectId: number) => ReadonlySet<string>
  readonly #bytesMax: number
  readonly #known = new Map<number, KnownNames>()

  /** `referredNames`: as in `NameKeeperOptions`; `bytesMax`: of the names of all projects that are remembered. */
  constructor(
    tables: EventTables,
    referredNames: (projectId: number) => ReadonlySet<string>,
    bytesMax: number = NAMES_BYTES_MAX,
  ) {
    this.#tables = tables
    this.#referredNames = referredNames
    this.#bytesMax = bytesMax
    // Views that nobody keeps: each segment is read once.
    this.#segments = new SegmentTables(tables)
  }

  /**
   * The names of a project. `check` is asked before each segment that is new, and throws to give up; what
   * was read stays. Throws `DamagedRecordError`. Cost: nothing when nothing has changed; the first time that of
   * what is kept, and some 0.2 ms for each segment behind it, more for small ones and those of older versions;
   * after an erasure that of all segments, until it is kept again.
   */
  names(projectId: number, check: () => void): ProjectNames {
    const counters = loadCounters(this.#tables.projects, projectId)
    const rows = counters?.rows ?? 0
    const { names } = this.#current(projectId, counters?.generation ?? 0, rows)
    gatherNames(names, this.#segments, projectId, rows, check)
    this.#makeRoom()
    return names
  }

  /** Bytes of all names, about, and how many they may take. */
  get held(): { readonly bytes: number; readonly bytesMax: number } {
    let bytes = 0
    for (const { names } of this.#known.values()) bytes += names.bytes
    return { bytes, bytesMax: this.#bytesMax }
  }

  #current(projectId: number, generation: number, rows: number): KnownNames {
    let known = this.#known.get(projectId)
    this.#known.delete(projectId)
    if (known?.generation !== generation) {
      const erased = erasedRows(this.#tables.deletion_jobs, projectId)
      const isSame = known?.erased === erased
      const names = isSame && known ? known.names : this.#namesOf(projectId)
      known = { generation, erased, names }
    }
    // Names that had to give way here may have stayed there.
    const { through, isCut } = known.names
    const isWorth = rows - through > SEGMENT_ROWS_TARGET || isCut
    if (isWorth) known = this.#orKept(projectId, known)
    this.#known.set(projectId, known)
    return known
  }

  /** What is kept in the store, if that is more. */
  #orKept(projectId: number, known: KnownNames): KnownNames {
    const kept = loadKeptNames(this.#tables.kept_names, projectId)
    const isMore = kept?.erased === known.erased && kept.through > known.names.through
    if (!isMore) return known
    const names = this.#namesOf(projectId)
    kept.restore(names)
    return { ...known, names }
  }

  #namesOf(projectId: number): ProjectNames {
    const textOf = (id: number): string => loadDistinctText(this.#tables, projectId, id)
    return new ProjectNames(projectId, textOf, () => this.#referredNames(projectId))
  }

  /** Forgets the projects that were asked for longest ago. */
  #makeRoom(): void {
    let bytes = 0
    for (const { names } of this.#known.values()) bytes += names.bytes
    for (const [projectId, { names }] of this.#known) {
      if (bytes <= this.#bytesMax || this.#known.size === 1) break
      bytes -= names.bytes
      this.#known.delete(projectId)
    }
  }
}

/**
 * Adds to names what the segments behind them say, up to the one that holds S `through`. `check` is asked before
 * each, and throws to give up; what was read stays. Throws `DamagedRecordError`.
 */
export function gatherNames(
  names: ProjectNames,
  segments: SegmentTables,
  projectId: number,
  through: number,
  check: () => void,
): void {
  if (names.through >= through) return
  const first = segments.firstSequenceOf(projectId, names.through + 1)
  for (const { firstSequence } of segments.summaries(projectId, first, through)) {
    if (firstSequence > through) break
    check()
    names.add(segments.segmentAt(projectId, firstSequence))
  }
}
