/**
 * The segments that scans of one thread use again and again, with the columns that were decoded of them. Bounded by
 * bytes. What a running scan has used is not given up for what it uses next: a project that is larger than the
 * cache then finds part of itself there every time, and not nothing.
 */
import type { BlockShare } from '../../../base/shared-blocks.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { placeBehind, type SegmentTables } from '../format/segment-tables.ts'
import type { ColumnMemory } from './column-memory.ts'
import { ScanSegment } from './event-scan-segment.ts'

/** Keeps segments for the scans of one thread. */
export class ScanCache {
  readonly #tables: SegmentTables
  readonly #memory: ColumnMemory
  readonly #share: BlockShare
  readonly #segments = new Map<string, ScanSegment>()
  /** Lists of summaries without a merge since the cache was compared with them; further segments may come. */
  readonly #checked = new WeakSet<readonly SegmentSummary[]>()
  #bytes = 0
  #scan = 0

  constructor(tables: SegmentTables, memory: ColumnMemory, share: BlockShare) {
    this.#tables = tables
    this.#memory = memory
    this.#share = share
  }

  /** An estimate of the memory that all segments take, and the columns of all threads. */
  get bytes(): number {
    return this.#bytes + this.#memory.usedBytes
  }

  /** The same of what is the thread's own: texts, and the columns of small segments. */
  get ownBytes(): number {
    return this.#bytes
  }

  /** What that may take now. */
  get bytesMax(): number {
    const { bytesMax, ownBytesMax, shared } = this.#share
    return Math.max(ownBytesMax, (bytesMax - this.#memory.usedBytes) / shared.threads)
  }

  /** How many segments are kept. */
  get segmentCount(): number {
    return this.#segments.size
  }

  /**
   * Call it before the first segment of each scan, with the summaries of all segments of the project. Gives
   * up what merges have replaced: about 0.1 us a segment, once after each merge; and what is more than it may keep.
   */
  beginScan(projectId: number, summaries: readonly SegmentSummary[]): void {
    this.#scan++
    this.#makeRoom(0)
    if (this.#checked.has(summaries)) return
    this.#checked.add(summaries)
    for (const [name, { summary, bytes }] of this.#segments) {
      if (summary.projectId !== projectId) continue
      const { firstSequence, rows } = summary
      const now = summaries[placeBehind(summaries, firstSequence - 1)]
      if (now?.firstSequence === firstSequence && now.rows === rows) continue
      this.#segments.delete(name)
      this.#bytes -= bytes
    }
  }

  /**
   * Runs `use` on a segment. Throws what `use` throws, and `DamagedRecordError`.
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
      // What is left is small beside long texts, and spares looking for each of them again.
      segment.releaseView()
      if (!this.#makeRoom(segment.bytes)) return
    }
    segment.lastScan = this.#scan
    this.#segments.set(name, segment)
    this.#bytes += segment.bytes
  }

  /** Gives up what earlier scans have used, the oldest first, until there is room. False: there is none. */
  #makeRoom(bytes: number): boolean {
    // What columns leave is for texts.
    const { bytesMax } = this
    for (const [oldName, old] of this.#segments) {
      if (this.#bytes + bytes <= bytesMax || old.lastScan === this.#scan) break
      this.#segments.delete(oldName)
      this.#bytes -= old.bytes
    }
    return this.#bytes + bytes <= bytesMax
  }
}
