/**
 * Merges small segments (segment-merge.ts). Merges run one at a time, each in its own transaction, so a reader sees
 * either the old segments or the merged segment. A damaged segment is reported once and left unchanged.
 */
import { getOrAdd } from '../../../base/maps.ts'
import { attempt, type DamageListener, type StepGuard } from '../../faults.ts'
import type { Environment, Table } from '../../lmdb/environment.ts'
import { type EventsTable, groupKey, pairKey } from '../../lmdb/keys.ts'
import { storeCounters } from '../format/event-projects.ts'
import { SEGMENT_BYTES_TARGET, SegmentBuilder } from '../format/segment-builder.ts'
import type { EncodedSegment, SegmentEncoder } from '../format/segment-encoder.ts'
import { QUALITY_SMALL } from '../format/segment-format.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import type { SegmentView } from '../format/segment-view.ts'
import type { OpenProject } from './open-project.ts'
import { appendSegment, type MergePlan, planMerge, type SegmentSize } from './segment-merge.ts'

/** The size that the list gives to a segment that must not be merged. It is larger than any segment. */
const UNMERGEABLE_ROWS = 2 ** 31

/** The options of the compactor. */
export interface CompactorOptions {
  readonly environment: Environment<EventsTable>
  readonly segments: SegmentTables
  readonly encoder: SegmentEncoder
  readonly rowsTarget: number
  readonly onDamage: DamageListener
  /** Pauses merges that failed. A merge is identified by the first sequence number of its segments. */
  readonly guard: StepGuard
}

interface ProjectSegments {
  readonly segments: SegmentSize[]
  /** The sequence number of the newest event that the list includes. */
  rows: number
}

/** Merges the segments of projects that have new ones. */
export class SegmentCompactor {
  readonly #options: CompactorOptions
  readonly #waiting = new Set<OpenProject>()
  readonly #lists = new Map<OpenProject, ProjectSegments>()

  constructor(options: CompactorOptions) {
    this.#options = options
  }

  /** Records that a project has new segments. */
  note(project: OpenProject): void {
    this.#waiting.add(project)
  }

  get hasWork(): boolean {
    return this.#waiting.size > 0
  }

  /** Checks one project and does at most one merge. Returns true if it merged. */
  step(): boolean {
    for (const project of this.#waiting) {
      const list = this.#refresh(project)
      const plan = planMerge(list.segments, this.#options.rowsTarget)
      if (plan !== null) return this.#tryMerge(project, list, plan)
      this.#waiting.delete(project)
    }
    return false
  }

  /** Returns the segments of the project, including those added since the last call. */
  #refresh(project: OpenProject): ProjectSegments {
    const list = getOrAdd(this.#lists, project, (): ProjectSegments => ({ segments: [], rows: 0 }))
    const { segments, onDamage } = this.#options
    const { projectId, counters } = project
    const added = segments.summaries(projectId, list.rows + 1, counters.rows, onDamage)
    for (const { firstSequence, rows, isAway } of added) {
      const gapStart = list.rows + 1
      // A gap means that a segment is damaged. The segments before and after the gap must not be merged.
      if (firstSequence !== gapStart) {
        list.segments.push({ firstSequence: gapStart, rows: UNMERGEABLE_ROWS })
      }
      // If columns of a segment were moved to the warehouse, exclude it from merges: it is full, and a merge would have
      // to fetch its columns.
      list.segments.push({ firstSequence, rows: isAway ? UNMERGEABLE_ROWS : rows })
      list.rows = firstSequence + rows - 1
    }
    return list
  }

  /**
   * Runs a merge, unless it is paused after a failure. If it is paused, its first segment is excluded, so that the
   * segments after it can be merged.
   */
  #tryMerge(project: OpenProject, list: ProjectSegments, plan: MergePlan): boolean {
    const { guard } = this.#options
    const { projectId } = project
    const { firstSequence } = list.segments[plan.start] ?? { firstSequence: 0 }
    if (guard.isPaused('merge', projectId, firstSequence)) {
      list.segments[plan.start] = { firstSequence, rows: UNMERGEABLE_ROWS }
      return false
    }
    return guard.run('merge', () => this.#merge(project, list, plan), projectId, firstSequence)
  }

  #merge(project: OpenProject, list: ProjectSegments, plan: MergePlan): boolean {
    const { environment, segments, encoder, onDamage } = this.#options
    const builder = new SegmentBuilder((distinctId) => project.textOf(distinctId))
    const sources: SegmentView[] = []
    let bytes = 0
    for (let index = plan.start; index < plan.end; index++) {
      const { firstSequence } = list.segments[index] ?? { firstSequence: 0 }
      const ownBytes = attempt(() => {
        const view = segments.segmentAt(project.projectId, firstSequence)
        const { valueBytes } = view
        // Do not merge a segment that is at least half full.
        if (valueBytes > SEGMENT_BYTES_TARGET / 2 || view.summary.isAway) return null
        if (bytes + valueBytes <= SEGMENT_BYTES_TARGET) {
          appendSegment(builder, view)
          sources.push(view)
        }
        return valueBytes
      }, onDamage)
      if (ownBytes === null) {
        list.segments[index] = { firstSequence, rows: UNMERGEABLE_ROWS }
        return false
      }
      if (bytes + ownBytes > SEGMENT_BYTES_TARGET) break
      bytes += ownBytes
    }
    builder.bytes = bytes
    const first = sources[0]?.summary.firstSequence ?? 0
    const merged = encoder.encode(project.projectId, first, builder, QUALITY_SMALL)
    const { projects } = environment.tables
    environment.rearrange(() => replaceSegments(segments, projects, project, sources, merged))
    const isLarge = bytes > SEGMENT_BYTES_TARGET / 2
    const size = { firstSequence: first, rows: isLarge ? UNMERGEABLE_ROWS : merged.rows }
    list.segments.splice(plan.start, sources.length, size)
    return true
  }
}

/** Replaces segments by one segment, and updates the counters. Call it only within a write transaction. */
export function replaceSegments(
  tables: SegmentTables,
  projects: Table,
  { projectId, counters }: OpenProject,
  sources: readonly SegmentView[],
  replacement: EncodedSegment,
): void {
  for (const source of sources) removeSegment(tables, source)
  storeSegment(tables, replacement)
  counters.segments -= sources.length - 1
  counters.generation++
  counters.bytes += replacement.bytes
  for (const source of sources) counters.bytes -= source.storedBytes
  storeCounters(projects, projectId, counters)
}

/** Stores the records of a segment. Call it only within a write transaction. */
export function storeSegment(tables: SegmentTables, segment: EncodedSegment): void {
  void tables.headers.put(segment.header.key, segment.header.value)
  for (const { key, value } of segment.groups) void tables.groups.put(key, value)
}

function removeSegment(tables: SegmentTables, view: SegmentView): void {
  const { projectId, firstSequence, groups } = view.summary
  void tables.headers.remove(pairKey(projectId, firstSequence))
  for (let group = 0; group < groups; group++) {
    void tables.groups.remove(groupKey(projectId, firstSequence, group))
  }
}
