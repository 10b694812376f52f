/**
 * Jobs that erase events. Table `deletion_jobs`: project, number -> JSON of `DeletionJob`, sealed; a job that
 * is done stays as the receipt. They are carried out by event-erasure.ts.
 */
import type { DeletionJob } from '../../../rules/events/erasure-job.ts'
import type { Table } from '../../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, pairKey } from '../../lmdb/keys.ts'
import { getJson, parseRecord, putJson } from '../../lmdb/records.ts'

const JOBS = 'deletion_jobs'

/** A job that is not done. */
export interface OpenJob {
  readonly projectId: number
  readonly number: number
  readonly job: DeletionJob
}

/** Stores a job. Only in a write transaction. */
export function storeJob(table: Table, projectId: number, number: number, job: DeletionJob): void {
  putJson(table, pairKey(projectId, number), job)
}

/** The jobs of a project, newest first, done or not. Throws `DamagedRecordError`. */
export function* loadJobs(table: Table, projectId: number): Generator<OpenJob> {
  const start = pairKey(projectId, NUMBER_MAX)
  const range = { start, end: pairKey(projectId, 0), reverse: true }
  for (const { key, value } of table.getRange(range)) yield decodeJob(key, value)
}

/** One job, or null. Throws `DamagedRecordError`. */
export function loadJob(table: Table, projectId: number, number: number): DeletionJob | null {
  if (!Number.isInteger(number) || number < 1 || number > NUMBER_MAX) return null
  return getJson<DeletionJob>(table, JOBS, pairKey(projectId, number))
}

function decodeJob(key: Uint8Array, value: Buffer): OpenJob {
  const job = parseRecord<DeletionJob>(JOBS, key, value)
  return { projectId: numberInKey(key, 0), number: numberInKey(key, 4), job }
}

/** The jobs of all projects that are not done, oldest first. Throws `DamagedRecordError`. */
export function loadOpenJobs(table: Table): OpenJob[] {
  const open: OpenJob[] = []
  for (const { key, value } of table.getRange({})) {
    const job = decodeJob(key, value)
    if (job.job.doneAt === null) open.push(job)
  }
  return open
}
