/**
 * Jobs that delete the events of deleted persons. Table `deletion_jobs`: project, number -> JSON of
 * `DeletionJob`, sealed. A job goes through the segments in order and blanks the rows that belonged to
 * the person; after each segment its progress is stored with the rewritten segment in one transaction.
 */
import { DamagedRecordError, seal, unseal } from './codec.ts'
import type { Environment, Table } from './environment.ts'
import { numberInKey, pairKey } from './keys.ts'
import type { OpenProject } from './open-project.ts'
import { SegmentBuilder } from './segment-builder.ts'
import { replaceSegments } from './segment-compactor.ts'
import type { SegmentEncoder } from './segment-encoder.ts'
import { QUALITY_SMALL, type SegmentSummary } from './segment-format.ts'
import { appendSegment } from './segment-merge.ts'
import type { SegmentTables, SegmentView } from './segment-view.ts'

const JOBS = 'deletion_jobs'

/** The deletion of one person's events. */
export interface DeletionJob {
  readonly uuid: string
  readonly requestedBy: string
  readonly requestedAt: string
  readonly doneAt: string | null
  /** D with the S between which its events are deleted: behind `after`, up to `through`. */
  readonly ids: readonly (readonly [distinctId: number, after: number, through: number])[]
  /** S up to which everything is done. */
  readonly progress: number
  readonly deletedRows: number
}

/** A job that is not done. */
export interface OpenJob {
  readonly projectId: number
  readonly number: number
  readonly job: DeletionJob
}

/** Stores a job. Only in a write transaction. */
export function storeJob(table: Table, projectId: number, number: number, job: DeletionJob): void {
  const key = pairKey(projectId, number)
  void table.put(key, seal(key, Buffer.from(JSON.stringify(job))))
}

/** The jobs of all projects that are not done. Throws `DamagedRecordError`. */
function loadOpenJobs(table: Table): OpenJob[] {
  const open: OpenJob[] = []
  for (const { key, value } of table.getRange({})) {
    // Written by `storeJob`, and unchanged since: the checksum says so.
    const job = JSON.parse(unseal(JOBS, key, value).toString('utf8')) as DeletionJob
    if (job.doneAt !== null) continue
    open.push({ projectId: numberInKey(key, 0), number: numberInKey(key, 4), job })
  }
  return open
}

/** What the deletion of events works with. */
export interface EventDeletionOptions {
  readonly environment: Environment
  readonly segments: SegmentTables
  /** Table `projects`. */
  readonly projects: Table
  readonly jobs: Table
  readonly encoder: SegmentEncoder
  readonly projectOf: (projectId: number) => OpenProject
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly onDamage: (error: DamagedRecordError) => void
}

/** A job on its way through the segments. */
interface RunningJob extends OpenJob {
  readonly spans: ReadonlyMap<number, readonly [after: number, through: number]>
  readonly lastSequence: number
  progress: number
  deletedRows: number
}

/** Carries out deletion jobs, one segment at a time. */
export class EventDeletion {
  readonly #options: EventDeletionOptions
  readonly #waiting: OpenJob[]
  #running: RunningJob | null = null

  constructor(options: EventDeletionOptions) {
    this.#options = options
    this.#waiting = loadOpenJobs(options.jobs)
  }

  /** Takes on jobs that are stored. */
  add(jobs: readonly OpenJob[]): void {
    this.#waiting.push(...jobs)
  }

  get hasWork(): boolean {
    return this.#running !== null || this.#waiting.length > 0
  }

  /** Looks at one segment; true when it was rewritten. Up to some 50 ms. */
  step(): boolean {
    const next = this.#running === null ? this.#waiting.shift() : undefined
    if (next !== undefined) this.#running = running(next)
    const job = this.#running
    if (job === null) return false
    const summary = this.#nextSegment(job)
    if (summary === null) {
      this.#finish(job)
      return false
    }
    job.progress = summary.firstSequence + summary.rows - 1
    try {
      return this.#deleteFrom(job, summary)
    } catch (cause) {
      if (!(cause instanceof DamagedRecordError)) throw cause
      this.#options.onDamage(cause)
      return false
    }
  }

  #nextSegment({ projectId, progress, lastSequence }: RunningJob): SegmentSummary | null {
    if (progress >= lastSequence) return null
    const { segments, onDamage } = this.#options
    const first = segments.firstSequenceOf(projectId, progress + 1)
    for (const summary of segments.summaries(projectId, first, onDamage)) {
      if (summary.firstSequence > lastSequence) return null
      if (summary.firstSequence + summary.rows - 1 > progress) return summary
    }
    return null
  }

  #deleteFrom(job: RunningJob, { firstSequence }: SegmentSummary): boolean {
    const { environment, segments, projects, encoder, projectOf, jobs } = this.#options
    const { projectId, number } = job
    const view = segments.segmentAt(projectId, firstSequence)
    if (view === null) return false
    const deleted = rowsOf(job, view)
    const count = deleted.reduce((sum, each) => sum + each, 0)
    if (count === 0) return false
    const project = projectOf(projectId)
    const builder = new SegmentBuilder((distinctId) => project.textOf(distinctId))
    appendSegment(builder, view, deleted)
    const rewritten = encoder.encode(projectId, firstSequence, builder, QUALITY_SMALL)
    job.deletedRows += count
    environment.write(() => {
      replaceSegments(segments, projects, project, [view], rewritten)
      storeJob(jobs, projectId, number, stateOf(job))
    })
    return true
  }

  #finish(job: RunningJob): void {
    const { environment, jobs, now } = this.#options
    const doneAt = new Date(now()).toISOString()
    const done = { ...stateOf(job), doneAt, ids: [] }
    environment.write(() => storeJob(jobs, job.projectId, job.number, done))
    this.#running = null
  }
}

function running(open: OpenJob): RunningJob {
  const { ids, progress, deletedRows } = open.job
  return {
    ...open,
    spans: new Map(ids.map(([id, after, through]) => [id, [after, through] as const])),
    lastSequence: ids.reduce((last, [, , through]) => Math.max(last, through), 0),
    progress,
    deletedRows,
  }
}

function stateOf({ job, progress, deletedRows }: RunningJob): DeletionJob {
  return { ...job, progress, deletedRows }
}

function rowsOf({ spans }: RunningJob, view: SegmentView): Uint8Array {
  const { distinctIds } = view
  const { firstSequence } = view.summary
  const deleted = new Uint8Array(distinctIds.length)
  for (let row = 0; row < distinctIds.length; row++) {
    const span = spans.get(distinctIds[row] ?? 0)
    if (span === undefined) continue
    const sequence = firstSequence + row
    if (sequence > span[0] && sequence <= span[1]) deleted[row] = 1
  }
  return deleted
}
