/**
 * The log of ingestion warnings. It keeps a limited number of lines for each project. Warnings that arrive within an
 * hour and have the same type and key share a line, which counts them. The key is the `distinct_id` or the `field` in
 * the details of the warning. The time of a line is the arrival of the event, so that processing the same log again
 * produces the same lines.
 *
 * Table `warnings`: project u32, line u32 (from 1, ascending) -> MessagePack of `StoredLine`.
 */

import { getOrAdd } from '../../base/maps.ts'
import type { IngestionWarning } from '../../rules/capture/types.ts'
import type { WarningView } from '../../rules/events/event-queries.ts'
import { unpack } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { keysOf, numberInKey, pairKey } from '../lmdb/keys.ts'
import { entriesOf, putRecord } from '../lmdb/records.ts'
import { WARNING_LINES_MAX } from './limits.ts'

const SAMPLE_MS = 60 * 60 * 1000
/** The number of bytes that a line takes in memory, without its texts. */
const LINE_MEMORY_BYTES = 300

type StoredLine = readonly [
  type: string,
  sampleKey: string,
  arrivedAtMs: number,
  detailsJson: string,
  count: number,
]

interface Line {
  readonly number: number
  readonly type: string
  readonly sampleKey: string
  readonly arrivedAtMs: number
  readonly detailsJson: string
  count: number
}

/** The lines of one project, including those that are not stored yet. */
interface ProjectLines {
  /** For each type and key, the newest line. The map is ordered by the age of the lines, oldest first. */
  readonly samples: Map<string, Line>
  readonly changed: Set<Line>
  first: number
  last: number
}

/** Writes warnings. Only the thread that writes to the store uses it. */
export class WarningLog {
  readonly #table: Table
  readonly #linesMax: number
  readonly #projects = new Map<number, ProjectLines>()

  /** The estimated number of bytes of memory of the warnings that were added since the last `store`. */
  gatheredBytes = 0

  constructor(table: Table, linesMax = WARNING_LINES_MAX) {
    this.#table = table
    this.#linesMax = linesMax
  }

  /** Adds a warning. The next `store` writes it. */
  add(projectId: number, arrivedAtMs: number, warning: IngestionWarning): void {
    const lines = this.#project(projectId)
    const sampleKey = sampleKeyOf(warning)
    const sample = `${warning.type} ${sampleKey}`
    const known = lines.samples.get(sample)
    if (known !== undefined && Math.abs(arrivedAtMs - known.arrivedAtMs) < SAMPLE_MS) {
      known.count++
      lines.changed.add(known)
      return
    }
    const line: Line = {
      number: ++lines.last,
      type: warning.type,
      sampleKey,
      arrivedAtMs,
      detailsJson: JSON.stringify(warning.details),
      count: 1,
    }
    lines.samples.delete(sample)
    lines.samples.set(sample, line)
    lines.changed.add(line)
    this.gatheredBytes += LINE_MEMORY_BYTES + (sample.length + line.detailsJson.length) * 2
    // The next `store` removes the lines that exceed the limit. They are removed from `samples` here, so that later
    // warnings are not counted in them.
    for (const [key, oldest] of lines.samples) {
      if (oldest.number > lines.last - this.#linesMax) break
      lines.samples.delete(key)
    }
  }

  /** Writes the changes to the table. Call it only within a write transaction. */
  store(): void {
    for (const [projectId, lines] of this.#projects) {
      const firstKept = lines.last - this.#linesMax + 1
      for (const line of lines.changed) {
        if (line.number < firstKept) continue
        const { type, sampleKey, arrivedAtMs, detailsJson, count } = line
        const stored: StoredLine = [type, sampleKey, arrivedAtMs, detailsJson, count]
        putRecord(this.#table, pairKey(projectId, line.number), stored)
      }
      for (; lines.first < firstKept; lines.first++) {
        void this.#table.remove(pairKey(projectId, lines.first))
      }
      lines.changed.clear()
    }
    this.gatheredBytes = 0
  }

  #project(projectId: number): ProjectLines {
    return getOrAdd(this.#projects, projectId, () => {
      const lines: ProjectLines = { samples: new Map(), changed: new Set(), first: 1, last: 0 }
      for (const line of readLines(this.#table, projectId, this.#linesMax).reverse()) {
        const sample = `${line.type} ${line.sampleKey}`
        lines.samples.delete(sample)
        lines.samples.set(sample, line)
        if (lines.last === 0) lines.first = line.number
        lines.last = line.number
      }
      return lines
    })
  }
}

function sampleKeyOf(warning: IngestionWarning): string {
  const { details } = warning
  for (const name of ['distinct_id', 'field']) {
    const value = Object.hasOwn(details, name) ? details[name] : undefined
    if (typeof value === 'string') return value
  }
  return ''
}

/** Returns the lines of a project, newest first. */
function readLines(table: Table, projectId: number, limit: number): Line[] {
  const { start: end, end: start } = keysOf(projectId)
  const lines: Line[] = []
  for (const { key, value } of entriesOf(table, { start, end, reverse: true, limit })) {
    // The cast is right: `store` wrote the record, and its checksum matches.
    const stored = unpack(value) as StoredLine
    const [type, sampleKey, arrivedAtMs, detailsJson, count] = stored
    lines.push({ number: numberInKey(key, 4), type, sampleKey, arrivedAtMs, detailsJson, count })
  }
  return lines
}

/** Returns the newest warnings of a project, newest first. Throws `DamagedRecordError`. */
export function listWarningLines(
  table: Table,
  projectId: number,
  limit: number,
): readonly WarningView[] {
  return readLines(table, projectId, limit).map((line) => ({
    type: line.type,
    timestamp: new Date(line.arrivedAtMs).toISOString(),
    details: JSON.parse(line.detailsJson) as Readonly<Record<string, unknown>>,
    count: line.count,
  }))
}
