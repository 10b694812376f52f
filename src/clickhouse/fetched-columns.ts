/**
 * Fetches columns from ClickHouse that were removed from the store (store/events/format/away-columns.ts). If segments
 * are read in order, it reads ahead: each fetch covers four times as many rows as the fetch before.
 */
import type { ColumnSource, ColumnTexts, SegmentPlace } from '../ports/warehouse.ts'
import { findColumnsIn } from '../store/events/read/segment-texts.ts'
import { BlockingClient } from './blocking-client.ts'
import { columnQuery } from './copy-schema.ts'
import { AHEAD_BYTES_MAX, AHEAD_ROWS_MAX } from './limits.ts'
import { RowReader } from './row-reader.ts'

const AHEAD_FACTOR = 4

interface FetchedRange {
  readonly from: number
  readonly to: number
  readonly sequences: Float64Array
  readonly texts: readonly string[]
  readonly bytes: number
}

/** Answers a statement synchronously. */
export interface WaitingAsker {
  ask(sql: string): Buffer
}

/**
 * Lets this thread read columns that were removed from the store and are only in ClickHouse. The connection to
 * ClickHouse is opened when the first such column is needed.
 */
export function openColumns(address: string): void {
  findColumnsIn(new FetchedColumns(new BlockingClient(address)))
}

/** Finds columns that were removed from the store and are only in ClickHouse, for one thread. */
export class FetchedColumns implements ColumnSource {
  readonly #door: WaitingAsker
  readonly #ranges = new Map<string, FetchedRange>()
  #bytes = 0

  constructor(door: WaitingAsker) {
    this.#door = door
  }

  column(segment: SegmentPlace, key: string | null, isAnew: boolean): ColumnTexts {
    const { projectId, firstSequence, rows } = segment
    const name = key === null ? `${projectId}` : `${projectId} ${key}`
    const last = firstSequence + rows - 1
    let range = this.#ranges.get(name)
    if (isAnew || range === undefined || firstSequence < range.from || last > range.to) {
      const before = range
      this.#forget(name)
      const isNext = !isAnew && before?.to === firstSequence - 1
      const ahead = isNext ? (before.to - before.from + 1) * AHEAD_FACTOR : rows
      const to = Math.max(last, firstSequence + Math.min(ahead, AHEAD_ROWS_MAX) - 1)
      range = this.#read(projectId, key, firstSequence, to)
      this.#keep(name, range)
    }
    return textsInRange(range, firstSequence, last)
  }

  #read(projectId: number, key: string | null, from: number, to: number): FetchedRange {
    const answer = this.#door.ask(columnQuery(projectId, key, from, to))
    const { sequences, texts } = readColumn(answer)
    return { from, to, sequences, texts, bytes: answer.length * 2 }
  }

  #forget(name: string): void {
    this.#bytes -= this.#ranges.get(name)?.bytes ?? 0
    this.#ranges.delete(name)
  }

  #keep(name: string, range: FetchedRange): void {
    for (const oldest of this.#ranges.keys()) {
      if (this.#bytes + range.bytes <= AHEAD_BYTES_MAX) break
      this.#forget(oldest)
    }
    if (range.bytes > AHEAD_BYTES_MAX) return
    this.#ranges.set(name, range)
    this.#bytes += range.bytes
  }
}

/** Reads an answer whose rows have a sequence number and a text, in order. A row that occurs twice is read once. */
function readColumn(answer: Buffer) {
  const sequences: number[] = []
  const texts: string[] = []
  const reader = new RowReader(answer)
  while (!reader.isAtEnd) {
    const sequence = reader.long()
    const text = reader.text()
    if (sequence === sequences.at(-1)) continue
    sequences.push(sequence)
    texts.push(text)
  }
  return { sequences: Float64Array.from(sequences), texts }
}

function textsInRange(
  { sequences, texts }: FetchedRange,
  first: number,
  last: number,
): ColumnTexts {
  const start = placeOf(sequences, first)
  const end = placeOf(sequences, last + 1)
  const rows = Uint16Array.from(sequences.subarray(start, end), (sequence) => sequence - first)
  return { rows, texts: texts.slice(start, end) }
}

/** Returns the index of the first element that is not smaller than `sequence`. */
function placeOf(sequences: Float64Array, sequence: number): number {
  let [low, high] = [0, sequences.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sequences[middle] ?? 0) < sequence) low = middle + 1
    else high = middle
  }
  return low
}
