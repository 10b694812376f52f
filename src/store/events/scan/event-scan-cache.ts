/**
 * Caches segments, with the columns decoded from them, for the scans of one thread. The size of the cache is limited. A
 * running scan never evicts segments that it has used itself. So even if a project is larger than the cache, each scan
 * finds some of its segments cached.
 */
import type { BlockShare } from '../../../base/shared-blocks.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { type SegmentTables, segmentIndexAfter } from '../format/segment-tables.ts'
import type { ColumnMemory } from './column-memory.ts'
import { ScanSegment } from './event-scan-segment.ts'

/** Caches segments for the scans of one thread. */
export class ScanCache {
  readonly #tables: SegmentTables
  readonly #memory: ColumnMemory
  readonly #share: BlockShare
  readonly #segments = new Map<string, ScanSegment>()
  /**
   * The lists of summaries that `beginScan` has already used to evict replaced segments. A merge creates a new list.
   * New segments are appended to the existing list, so they need no new check.
   */
  readonly #checked = new WeakSet<readonly SegmentSummary[]>()
  #bytes = 0
  #scan = 0

  constructor(tables: SegmentTables, memory: ColumnMemory, share: BlockShare) {
    this.#tables = tables
    this.#memory = memory
    this.#share = share
  }

  /** The estimated number of bytes of all cached segments, and of the shared columns of all threads. */
  get bytes(): number {
    return this.#bytes + this.#memory.usedBytes
  }

  /** The estimated number of bytes that only this thread uses: texts, and the columns of small segments. */
  get ownBytes(): number {
    return this.#bytes
  }

  /** The largest number of bytes that `ownBytes` may have now. */
  get bytesMax(): number {
    const { bytesMax, ownBytesMax, shared } = this.#share
    return Math.max(ownBytesMax, (bytesMax - this.#memory.usedBytes) / shared.threads)
  }

  get segmentCount(): number {
    return this.#segments.size
  }

  /**
   * Must be called before the first segment of each scan, with the summaries of all segments of the project. Evicts
   * segments that merges have replaced, and other segments if there are too many. It takes about 0.1 us for each
   * segment, once after each merge.
   */
  beginScan(projectId: number, summaries: readonly SegmentSummary[]): void {
    this.#scan++
    this.#makeRoom(0)
    if (this.#checked.has(summaries)) return
    this.#checked.add(summaries)
    for (const [name, { summary, bytes }] of this.#segments) {
      if (summary.projectId !== projectId) continue
      const { firstSequence, rows } = summary
      const now = summaries[segmentIndexAfter(summaries, firstSequence - 1)]
      if (now?.firstSequence === firstSequence && now.rows === rows) continue
      this.#segments.delete(name)
      this.#bytes -= bytes
    }
  }

  /**
   * Calls `use` with a segment, which then stays cached if there is room. Throws the errors of `use`, and
   * `DamagedRecordError`.
   */
  use<T>(summary: SegmentSummary, use: (segment: ScanSegment) => T): T {
    const name = `${summary.projectId} ${summary.firstSequence}`
    const segment = this.#take(name, summary)
    try {
      return use(segment)
    } finally {
      segment.close()
      this.#keep(name, segment)
    }
  }

  #take(name: string, summary: SegmentSummary): ScanSegment {
    const known = this.#segments.get(name)
    if (known !== undefined) {
      this.#segments.delete(name)
      this.#bytes -= known.bytes
      if (known.isCurrent(summary)) return known
    }
    const sealed = this.#tables.headerAt(summary.projectId, summary.firstSequence)
    return new ScanSegment(this.#tables, this.#memory, summary, sealed)
  }

  #keep(name: string, segment: ScanSegment): void {
    if (!this.#makeRoom(segment.bytes)) {
      // Try again without the view, which contains decompressed groups of columns. The rest is worth caching: it
      // contains the offsets of long texts, which would otherwise have to be found again.
      segment.releaseView()
      if (!this.#makeRoom(segment.bytes)) return
    }
    segment.lastScan = this.#scan
    this.#segments.set(name, segment)
    this.#bytes += segment.bytes
  }

  /**
   * Evicts segments that were last used by earlier scans, the oldest first, until there is room. Returns false if there
   * is too little room even then.
   */
  #makeRoom(bytes: number): boolean {
    // The limit is higher while shared columns use less memory than they may.
    const { bytesMax } = this
    for (const [oldName, old] of this.#segments) {
      if (this.#bytes + bytes <= bytesMax || old.lastScan === this.#scan) break
      this.#segments.delete(oldName)
      this.#bytes -= old.bytes
    }
    return this.#bytes + bytes <= bytesMax
  }
}
