/**
 * Reads the names of the events and properties of projects in a snapshot. They stay cached, so that later only new
 * segments are read.
 */
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
  /** The generation of the project when `erased` was read. Each merge and each erasure changes it. */
  readonly generation: number
  /** The number of events that erasures had removed at that time. */
  readonly erased: number
  readonly names: ProjectNames
}

/** Caches the names of projects for one thread. */
export class NameReader {
  readonly #tables: EventTables
  readonly #segments: SegmentTables
  readonly #referredNames: (projectId: number) => ReadonlySet<string>
  readonly #bytesMax: number
  readonly #known = new Map<number, KnownNames>()

  /**
   * `NameKeeperOptions` explains `referredNames`. `bytesMax` is the largest number of bytes that the cached names of
   * all projects may have.
   */
  constructor(
    tables: EventTables,
    referredNames: (projectId: number) => ReadonlySet<string>,
    bytesMax: number = NAMES_BYTES_MAX,
  ) {
    this.#tables = tables
    this.#referredNames = referredNames
    this.#bytesMax = bytesMax
    // No cache of segments is used here, because each segment is read only once.
    this.#segments = new SegmentTables(tables)
  }

  /**
   * Returns the names of a project. `check` is called before each new segment. To stop, it throws; the names that were
   * read until then stay cached. Throws `DamagedRecordError`. If nothing has changed, a call takes almost no time. The
   * first call reads the stored names, and then each segment with later events. A segment takes about 0.2 ms, or more
   * if it is small or was written by an older version. After an erasure, the stored names are not valid. Until they are
   * stored again, a new reader must read all segments.
   */
  names(projectId: number, check: () => void): ProjectNames {
    const counters = loadCounters(this.#tables.projects, projectId)
    const rows = counters?.rows ?? 0
    const { names } = this.#current(projectId, counters?.generation ?? 0, rows)
    gatherNames(names, this.#segments, projectId, rows, check)
    this.#makeRoom()
    return names
  }

  /** The approximate number of bytes of all cached names, and the largest number that they may have. */
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
    // Look at the stored names if they may save reading many segments. Look also if names were removed from the cached
    // object because there were too many: the stored record may still contain them.
    const { through, isCut } = known.names
    const isWorth = rows - through > SEGMENT_ROWS_TARGET || isCut
    if (isWorth) known = this.#orKept(projectId, known)
    this.#known.set(projectId, known)
    return known
  }

  /**
   * Returns the stored names of a project if they include more events than the cached ones. Otherwise returns the
   * cached names.
   */
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

  /** Evicts the names of the projects that were used least recently, if all names together have too many bytes. */
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
 * Adds the names in the segments after `names.through`, up to the segment that contains the sequence number `through`.
 * `check` is called before each segment. To stop, it throws; the names that were read until then stay in `names`.
 * Throws `DamagedRecordError`.
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
