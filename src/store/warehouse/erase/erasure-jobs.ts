import type { DeletionJob } from '../../../rules/events/erasure-job.ts'
import { seal, unseal } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, pairKey } from '../../lmdb/keys.ts'

const JOBS = 'deletion_jobs'

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

/** The jobs of a project, newest first, done or not. Throws `DamagedRecordError`. */
export function* loadJobs(table: Table, projectId: number): Generator<OpenJob> {
  const start = pairKey(projectId, NUMBER_MAX)
  const range = { start, end: pairKey(projectId, 0), reverse: true }
  for (const { key, value } of table.getRange(range)) yield decodeJob(key, value)
}

/** One job, or null. Throws `DamagedRecordError`. */
export function loadJob(table: Table, projectId: number, number: number): DeletionJob | null {
  if (!Number.isInteger(number) || number < 1 || number > NUMBER_MAX) return null
  const key = pairKey(projectId, number)
  const value = table.get(key)
  return value === undefined ? null : decodeJob(key, value).job
}

function decodeJob(key: Uint8Array, value: Buffer): OpenJob {
  // Written by `storeJob`, and unchanged since: the checksum says so.
  const job = JSON.parse(unseal(JOBS, key, value).toString('utf8')) as DeletionJob
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
