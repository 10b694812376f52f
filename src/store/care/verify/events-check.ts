/**
 * What must hold between the records of environment `events`: segments cover every event exactly once
 * and have all their groups, distinct_ids and their texts mirror each other, and the counters count what
 * is there. Works on one pass over all entries, with little memory: sets are compared by the sum of the
 * hashes of their members.
 */
import { createHash } from 'node:crypto'
import { numberInKey } from '../../lmdb/keys.ts'
import { decodeSummary } from '../../warehouse/format/segment-format.ts'

/** Told of what does not fit; `where` names the record. */
export type FaultListener = (where: string, what: string) => void

interface ProjectFigures {
  segments: number
  /** S behind the last segment so far. */
  nextSequence: number
  /** First S of a segment -> groups that are still to come. */
  groupsMissing: Map<number, number>
  distinctIds: number
  distinctTexts: number
  idsHash: bigint
  textsHash: bigint
}

/** Collects while the tables are read, then compares. */
export class EventsCheck {
  readonly #projects = new Map<number, ProjectFigures>()
  readonly #fault: FaultListener
  readonly #counters: { projectId: number; rows: number; distinctIds: number; segments: number }[] =
    []

  constructor(fault: FaultListener) {
    this.#fault = fault
  }

  /** Takes one entry; `bytes` is the value without its checksum, which fits. */
  take(table: string, key: Buffer, bytes: Buffer): void {
    switch (table) {
      case 'projects':
        this.#counters.push({
          projectId: numberInKey(key, 0),
          rows: bytes.readUInt32LE(4),
          distinctIds: bytes.readUInt32LE(8),
          segments: bytes.readUInt32LE(16),
        })
        break
      case 'segment_headers':
        this.#takeHeader(key, bytes)
        break
      case 'segment_groups':
        this.#takeGroup(key)
        break
      case 'distinct_ids': {
        const figures = this.#figures(numberInKey(key, 0))
        figures.distinctIds++
        figures.idsHash += memberHash(bytes.readUInt32LE(), key.subarray(4))
        break
      }
      case 'distinct_texts': {
        const figures = this.#figures(numberInKey(key, 0))
        figures.distinctTexts++
        figures.textsHash += memberHash(numberInKey(key, 4), bytes)
        break
      }
      default:
        break
    }
  }

  /** Compares what was collected. Call when every table has been read. */
  finish(): void {
    for (const { projectId, rows, distinctIds, segments } of this.#counters) {
      const figures = this.#figures(projectId)
      const where = `project ${projectId}`
      if (figures.nextSequence !== rows + 1) {
        this.#fault(where, `has ${rows} events, its segments hold ${figures.nextSequence - 1}`)
      }
      if (figures.segments !== segments) {
        this.#fault(where, `has ${segments} segments, ${figures.segments} are there`)
      }
      if (figures.distinctIds !== distinctIds) {
        this.#fault(where, `has ${distinctIds} distinct_ids, ${figures.distinctIds} are there`)
      }
    }
    for (const [projectId, figures] of this.#projects) this.#compare(projectId, figures)
  }

  #compare(projectId: number, figures: ProjectFigures): void {
    const where = `project ${projectId}`
    if (!this.#counters.some((counters) => counters.projectId === projectId)) {
      this.#fault(where, 'has records, but no counters')
    }
    const isMirrored =
      figures.distinctIds === figures.distinctTexts && figures.idsHash === figures.textsHash
    if (!isMirrored) this.#fault(where, 'distinct_ids and their texts do not mirror each other')
    for (const [first, missing] of figures.groupsMissing) {
      if (missing === 0) continue
      const what =
        missing > 0 ? `lacks ${missing} of its groups` : 'has groups that it does not name'
      this.#fault(`${where}, segment ${first}`, what)
    }
  }

  #takeHeader(key: Buffer, bytes: Buffer): void {
    const projectId = numberInKey(key, 0)
    const figures = this.#figures(projectId)
    const summary = decodeSummary(projectId, numberInKey(key, 4), bytes)
    const { firstSequence, rows, groups } = summary
    if (firstSequence !== figures.nextSequence) {
      this.#fault(
        `project ${projectId}, segment ${firstSequence}`,
        `begins at event ${firstSequence}, the one before ends at ${figures.nextSequence - 1}`,
      )
    }
    figures.segments++
    figures.nextSequence = firstSequence + rows
    figures.groupsMissing.set(
      firstSequence,
      (figures.groupsMissing.get(firstSequence) ?? 0) + groups,
    )
  }

  #takeGroup(key: Buffer): void {
    const { groupsMissing } = this.#figures(numberInKey(key, 0))
    const first = numberInKey(key, 4)
    groupsMissing.set(first, (groupsMissing.get(first) ?? 0) - 1)
  }

  #figures(projectId: number): ProjectFigures {
    let figures = this.#projects.get(projectId)
    if (figures === undefined) {
      figures = {
        segments: 0,
        nextSequence: 1,
        groupsMissing: new Map(),
        distinctIds: 0,
        distinctTexts: 0,
        idsHash: 0n,
        textsHash: 0n,
      }
      this.#projects.set(projectId, figures)
    }
    return figures
  }
}

function memberHash(number: number, text: Uint8Array): bigint {
  const hash = createHash('sha1').update(text).update(String(number)).digest()
  return hash.readBigUInt64LE()
}
