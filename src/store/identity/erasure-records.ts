/**
 * Stores the records about erasures of events. All are JSON with a checksum:
 *
 *   deletion_jobs     project, number -> `DeletionJob`; a completed job stays as the receipt
 *   copied_erasures   project, number -> `ErasureTarget`; only if ClickHouse has copies of the events
 *   retention_rules   project u32     -> `RetentionRules`; a project without a record keeps everything
 *
 * Jobs are run by events/write/event-erasure.ts. A record in `copied_erasures` exists while the store has erased the
 * events of a job but ClickHouse still has them. Such a record cannot be computed again from the log. All other records
 * here can.
 */
import { NO_RETENTION, type RetentionRules } from '../../rules/events/erasure.ts'
import {
  type DeletionJob,
  type ErasureTarget,
  isToCarryOut,
  withoutNeedlessIds,
} from '../../rules/events/erasure-job.ts'
import type { Table } from '../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, numberKey, pairKey } from '../lmdb/keys.ts'
import { getJson, jsonOf, putJson } from '../lmdb/records.ts'

/** An erasure job, with its project and its number in the project. */
export interface OpenJob {
  readonly projectId: number
  readonly number: number
  readonly job: DeletionJob
}

/** Stores a new job. Call it only within a write transaction. */
export function storeJob(table: Table, { projectId, number, job }: OpenJob): void {
  putJson(table, pairKey(projectId, number), job)
}

/**
 * Stores the progress of a job. If the job was completed in the meantime, it stays complete. Returns whether the job is
 * complete. Call it only within a write transaction.
 */
export function storeProgress(table: Table, { projectId, number, job }: OpenJob): boolean {
  const key = pairKey(projectId, number)
  const doneAt = getJson<DeletionJob>(table, key)?.doneAt ?? null
  putJson(table, key, withoutNeedlessIds({ ...job, doneAt }))
  return doneAt !== null
}

/** Records that the events of a job must be erased from ClickHouse. Call it only within a write transaction. */
export function storeCopied(table: Table, { projectId, number, job }: OpenJob): void {
  const { ids, rules, oldestThrough, through } = job
  const target: ErasureTarget = { ids, rules, oldestThrough, through }
  putJson(table, pairKey(projectId, number), target)
}

/**
 * Returns which events of a job must still be erased from ClickHouse, or null if there are none. Throws
 * `DamagedRecordError`.
 */
export function loadCopied(table: Table, projectId: number, number: number): ErasureTarget | null {
  return getJson<ErasureTarget>(table, pairKey(projectId, number))
}

/** Collects the jobs of one project that were completed since the last commit, in the processing thread. */
export class DoneJobs {
  readonly #projectId: number
  readonly #table: Table
  #done: (readonly [number: number, doneAt: string])[] = []

  constructor(projectId: number, table: Table) {
    this.#projectId = projectId
    this.#table = table
  }

  /** Records that a job is complete, with the time `doneAt`. */
  add(number: number, doneAt: string): void {
    this.#done.push([number, doneAt])
  }

  /**
   * Marks the collected jobs as complete in the store. A job that was already complete keeps its earlier time. Call it
   * only within a write transaction, after new jobs are stored.
   */
  store(): void {
    for (const [number, doneAt] of this.#done) {
      const key = pairKey(this.#projectId, number)
      const job = getJson<DeletionJob>(this.#table, key)
      if (job === null || job.doneAt !== null) continue
      putJson(this.#table, key, withoutNeedlessIds({ ...job, doneAt }))
    }
    this.#done = []
  }
}

/** Returns a job, complete or not. Returns null if there is none. Throws `DamagedRecordError`. */
export function loadJob(table: Table, projectId: number, number: number): DeletionJob | null {
  return getJson<DeletionJob>(table, pairKey(projectId, number))
}

/** Returns all jobs of a project, complete or not, newest first. Throws `DamagedRecordError`. */
export function loadJobs(table: Table, projectId: number): Generator<OpenJob> {
  const start = pairKey(projectId, NUMBER_MAX)
  return jobsIn(table, { start, end: pairKey(projectId, 0), reverse: true })
}

/**
 * Returns the jobs of all projects that are not complete, or whose events this store has not erased yet. They are
 * ordered by project and then by age, oldest first. Throws `DamagedRecordError`.
 */
export function loadOpenJobs(table: Table): OpenJob[] {
  return [...jobsIn(table)].filter(({ job }) => job.doneAt === null || isToCarryOut(job))
}

/**
 * Returns the total number of events that all erasures of a project have removed so far. Reads all jobs of the project.
 * Throws `DamagedRecordError`.
 */
export function erasedRows(table: Table, projectId: number): number {
  let rows = 0
  for (const { job } of loadJobs(table, projectId)) rows += job.deletedRows
  return rows
}

function* jobsIn(table: Table, range?: Parameters<typeof jsonOf>[1]): Generator<OpenJob> {
  for (const { key, value: job } of jsonOf<DeletionJob>(table, range)) {
    yield { projectId: numberInKey(key, 0), number: numberInKey(key, 4), job }
  }
}

/** The retention rules of one project, as the processing thread sees and changes them. */
export class ProjectRetention {
  readonly #projectId: number
  readonly #table: Table
  #changed: RetentionRules | null = null

  constructor(projectId: number, table: Table) {
    this.#projectId = projectId
    this.#table = table
  }

  set(rules: RetentionRules): void {
    this.#changed = rules
  }

  /** Stores changed rules. Call it only within a write transaction. */
  store(): void {
    if (this.#changed !== null) putJson(this.#table, numberKey(this.#projectId), this.#changed)
    this.#changed = null
  }
}

/** Returns the rules of a project. Throws `DamagedRecordError`. */
export function loadRetention(table: Table, projectId: number): RetentionRules {
  return getJson<RetentionRules>(table, numberKey(projectId)) ?? NO_RETENTION
}

/** Returns the projects whose retention rules remove events. Throws `DamagedRecordError`. */
export function retainedProjects(table: Table): readonly number[] {
  const projects: number[] = []
  for (const { key, value } of jsonOf<RetentionRules>(table)) {
    const { days, bytesMax, events } = value
    const hasRule = days !== null || bytesMax !== null || events.some((rule) => rule.days !== null)
    if (hasRule) projects.push(numberInKey(key, 0))
  }
  return projects
}
