/**
 * What is stored about erasing events. Table `deletion_jobs`: project, number -> JSON of `DeletionJob`,
 * sealed; a job that is done stays as the receipt. They are carried out by warehouse/erase. Table `copied_erasures`,
 * where there are copies: the same key -> JSON of `ErasureTarget`, from when the store has erased until the copies are,
 * whatever the log says meanwhile. It is no function of the log, unlike all else here. Table
 * `retention_rules`: project u32 -> JSON of `RetentionRules`, sealed; a project without a record keeps everything.
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

/** A job that is not done. */
export interface OpenJob {
  readonly projectId: number
  readonly number: number
  readonly job: DeletionJob
}

/** Stores a new job. Only in a write transaction. */
export function storeJob(table: Table, { projectId, number, job }: OpenJob): void {
  putJson(table, pairKey(projectId, number), job)
}

/**
 * Stores how far a job has come; whether it is done is left as it is, and answered. Only in a write
 * transaction.
 */
export function storeProgress(table: Table, { projectId, number, job }: OpenJob): boolean {
  const key = pairKey(projectId, number)
  const doneAt = getJson<DeletionJob>(table, key)?.doneAt ?? null
  putJson(table, key, withoutNeedlessIds({ ...job, doneAt }))
  return doneAt !== null
}

/** Notes that copies of what a job means are to be erased. Only in a write transaction. */
export function storeCopied(table: Table, { projectId, number, job }: OpenJob): void {
  const { ids, rules, oldestThrough, through } = job
  const target: ErasureTarget = { ids, rules, oldestThrough, through }
  putJson(table, pairKey(projectId, number), target)
}

/** What that job means; null: no copies of it are to be erased. Throws `DamagedRecordError`. */
export function loadCopied(table: Table, projectId: number, number: number): ErasureTarget | null {
  return getJson<ErasureTarget>(table, pairKey(projectId, number))
}

/** Jobs of one project that are done since the last commit, in the processing thread. */
export class DoneJobs {
  readonly #projectId: number
  readonly #table: Table
  #done: (readonly [number: number, doneAt: string])[] = []

  constructor(projectId: number, table: Table) {
    this.#projectId = projectId
    this.#table = table
  }

  /** Notes that a job is done, by its number. */
  add(number: number, doneAt: string): void {
    this.#done.push([number, doneAt])
  }

  /** Stores it, unless a job was done before. Only in a write transaction, and behind new jobs. */
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

/** One job, done or not; null: there is none. Throws `DamagedRecordError`. */
export function loadJob(table: Table, projectId: number, number: number): DeletionJob | null {
  return getJson<DeletionJob>(table, pairKey(projectId, number))
}

/** The jobs of a project, newest first, done or not. Throws `DamagedRecordError`. */
export function loadJobs(table: Table, projectId: number): Generator<OpenJob> {
  const start = pairKey(projectId, NUMBER_MAX)
  return jobsIn(table, { start, end: pairKey(projectId, 0), reverse: true })
}

/** The jobs of all projects that are not over, oldest first. Throws `DamagedRecordError`. */
export function loadOpenJobs(table: Table): OpenJob[] {
  return [...jobsIn(table)].filter(({ job }) => job.doneAt === null || isToCarryOut(job))
}

/** Events that all erasures of a project have removed so far. Cost: all its jobs. Throws `DamagedRecordError`. */
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

/** The rules of one project in the processing thread. */
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

  /** Stores what was changed. Only in a write transaction. */
  store(): void {
    if (this.#changed !== null) putJson(this.#table, numberKey(this.#projectId), this.#changed)
    this.#changed = null
  }
}

/** The rules of a project. Throws `DamagedRecordError`. */
export function loadRetention(table: Table, projectId: number): RetentionRules {
  return getJson<RetentionRules>(table, numberKey(projectId)) ?? NO_RETENTION
}

/** The projects whose rules let something go. Throws `DamagedRecordError`. */
export function retainedProjects(table: Table): readonly number[] {
  const projects: number[] = []
  for (const { key, value } of jsonOf<RetentionRules>(table)) {
    const { days, bytesMax, events } = value
    const hasRule = days !== null || bytesMax !== null || events.some((rule) => rule.days !== null)
    if (hasRule) projects.push(numberInKey(key, 0))
  }
  return projects
}
