/**
 * Finds segments whose columns may be removed from the store, because ClickHouse has a complete copy. It fetches the
 * rows of a segment from ClickHouse, converts them to columns, and compares these byte by byte with the stored columns.
 * If they differ, the events of the segment are sent again, and compared again later.
 */
import type { ColumnTexts, CopiedSegment } from '../ports/warehouse.ts'
import type { SegmentTexts, StoredSegments } from '../store/events/read/segment-texts.ts'
import type { ClickHouse } from './clickhouse.ts'
import { rowsQuery } from './copy-schema.ts'
import { COMPARE_AGAIN_MS } from './limits.ts'
import { RowReader } from './row-reader.ts'

const DAY_MS = 86_400_000

/** What the comparison of segments with their copies needs. */
export interface CopyCheckOptions {
  readonly clickhouse: ClickHouse
  readonly store: StoredSegments
  /**
   * The number of days for which the store keeps the columns of an event after it arrived. Only segments whose events
   * are all older are compared with their copies.
   */
  readonly keepDays: number
  /** Sends the events of a segment again. */
  readonly resend: (segment: SegmentTexts) => Promise<void>
}

/** Compares segments with their copies, one after the other. */
export class CopyCheck {
  readonly #options: CopyCheckOptions
  readonly #laterMs = new Map<string, number>()

  constructor(options: CopyCheckOptions) {
    this.#options = options
  }

  /**
   * Compares old segments with their copies until it finds one whose copy is complete, and returns it. Returns null if
   * there is none now. `confirmed` contains, for each project, the sequence number up to which ClickHouse has confirmed
   * the events. Throws `WarehouseError` and `DamagedRecordError`.
   */
  async next(nowMs: number, confirmed: ReadonlyMap<number, number>): Promise<CopiedSegment | null> {
    const { store, keepDays } = this.#options
    const arrivedMs = nowMs - keepDays * DAY_MS
    for (const [projectId, last] of store.projects()) {
      for (const first of store.oldSegments(projectId, last, arrivedMs)) {
        const name = `${projectId} ${first}`
        if (nowMs < (this.#laterMs.get(name) ?? 0)) continue
        const segment = store.segmentOf(projectId, first)
        const { rows } = segment.view.summary
        if (first + rows - 1 > (confirmed.get(projectId) ?? 0)) continue
        this.#laterMs.set(name, nowMs + COMPARE_AGAIN_MS)
        if (!segment.mayGiveAway) continue
        const { copied } = segment
        const columns = await this.#columnsOf(projectId, first, rows)
        // The segment may have changed while ClickHouse was asked, so its header is compared again.
        const same = store.segmentOf(projectId, first)
        if (Buffer.compare(same.copied.header, copied.header) !== 0) continue
        if (same.isWhole(columns)) return copied
        await this.#options.resend(same)
      }
    }
    return null
  }

  async #columnsOf(
    projectId: number,
    first: number,
    rows: number,
  ): Promise<ReadonlyMap<string | null, ColumnTexts>> {
    const answer = await this.#options.clickhouse.ask(rowsQuery(projectId, first, first + rows - 1))
    const reader = new RowReader(answer)
    const found = new Map<string | null, { rows: number[]; texts: string[] }>()
    const add = (key: string | null, row: number, text: string): void => {
      const column = found.get(key)
      if (column === undefined) found.set(key, { rows: [row], texts: [text] })
      else {
        column.rows.push(row)
        column.texts.push(text)
      }
    }
    for (let before = 0; !reader.isAtEnd; ) {
      const sequence = reader.long()
      const [keys, texts] = [reader.texts(), reader.texts()]
      const elements = reader.text()
      if (sequence === before) continue
      before = sequence
      for (const [at, key] of keys.entries()) add(key, sequence - first, texts[at] ?? '')
      if (elements !== '') add(null, sequence - first, elements)
    }
    const columns = [...found].map(([key, { rows, texts }]) => {
      return [key, { rows: Uint16Array.from(rows), texts }] as const
    })
    return new Map(columns)
  }
}
