/**
 * Merges small segments (segment-merge.ts). Merges run one at a time, each in its own transaction, so a reader sees
 * either the old segments or the merged one. If a segment is damaged, it is reported once and stays as it is.
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

/** In the list, a segment that must not be merged has this number of rows. No real segment is so large. */
const UNMERGEABLE_ROWS = 2 ** 31

/** What a `SegmentCompactor` needs. */
export interface CompactorOptions {
  readonly environment: Environment<EventsTable>
  readonly segments: SegmentTables
  readonly encoder: SegmentEncoder
  readonly rowsTarget: number
  readonly onDamage: DamageListener
  /** Pauses merges that have failed. It identifies a merge by the first sequence number of the merged events. */
  readonly guard: StepGuard
}

interface ProjectSegments {
  readonly segments: SegmentSize[]
  /** The sequence number up to which the list contains the segments. */
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

  /** Must be called when a project has new segments. */
  note(project: OpenProject): void {
    this.#waiting.add(project)
  }

  get hasWork(): boolean {
    return this.#waiting.size > 0
  }

  /** Makes the next merge that is worthwhile, if there is one. Returns true if it has made a merge. */
  step(): boolean {
    for (const project of this.#waiting) {
      const list = this.#refresh(project)
      const plan = planMerge(list.segments, this.#options.rowsTarget)
      if (plan !== null) return this.#tryMerge(project, list, plan)
      this.#waiting.delete(project)
    }
    return false
  }

  /** Adds the segments that are new since the last call to the list of a project, and returns the list. */
  #refresh(project: OpenProject): ProjectSegments {
    const list = getOrAdd(this.#lists, project, (): ProjectSegments => ({ segments: [], rows: 0 }))
    const { segments, onDamage } = this.#options
    const { projectId, counters } = project
    const added = segments.summaries(projectId, list.rows + 1, counters.rows, onDamage)
    for (const { firstSequence, rows, isAway } of added) {
      const gapStart = list.rows + 1
      // A gap shows that a segment is damaged. The segments before the gap must not be merged with those after it.
      if (firstSequence !== gapStart) {
        list.segments.push({ firstSequence: gapStart, rows: UNMERGEABLE_ROWS })
      }
      // A segment whose columns were moved to the warehouse is never merged: it is full, and a merge would have to
      // fetch its columns.
      list.segments.push({ firstSequence, rows: isAway ? UNMERGEABLE_ROWS : rows })
      list.rows = firstSequence + rows - 1
    }
    return list
  }

  /**
   * Makes a merge. If this merge is paused because it has failed before, it is not made. Its first segment is then
   * excluded from merges, so that the segments after it can be merged.
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
        // A segment that is at least half full is not merged.
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

/**
 * Replaces several segments by one, and updates the counters of the project. Call it only within a write transaction.
 */
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
