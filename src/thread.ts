/**
 * What runs on a thread of the pool: one handler that dispatches by the kind of task. Stores are opened
 * at the first task that needs them and stay open; the pool sends each kind always to the same threads.
 */
import { workerData } from 'node:worker_threads'
import { move, transferableSymbol, valueSymbol } from 'piscina'
import { ServiceError } from './base/errors.ts'
import { createLogger } from './base/log.ts'
import { refusal } from './base/refusals.ts'
import { rowText } from './base/rows-writer.ts'
import { DamageCount, DamageReports } from './engine/front/damage-reports.ts'
import { LogProcessor } from './engine/processor/log-processor.ts'
import { type AnalyticTask, runAnalytics } from './engine/threads/analytic-tasks.ts'
import { CHECK_MS_MAX, LANE_LIMITS } from './engine/threads/check-queue.ts'
import { readErasures } from './engine/threads/erasure-tasks.ts'
import { FlagTasks } from './engine/threads/flag-tasks.ts'
import { OrganizationWorker } from './engine/threads/organization-tasks.ts'
import { isPageKind, makePage, pageBuffers, type PageName, type PageResults, type PageTask } from './engine/threads/page-tasks.ts'
import { makeTablePiece, tableBuffers, type TableResult } from './engine/threads/table-tasks.ts'
import type { AppendResult, AppendTask, CheckResult, CheckTask, FactTask, RowTask, Task, TaskResults, ThreadSettings } from './engine/threads/tasks.ts'
import type { AnalyticAnswer } from './rules/analytics/analytics.ts'
import { acceptCapture } from './rules/capture/accept.ts'
import { SlowBodyError } from './rules/capture/decode.ts'
import { LogBlockWriter } from './rules/capture/log-block.ts'
import { Scanner } from './rules/capture/scanner/scanner.ts'
import { personBody, withWireTimes } from './rules/persons/person-answer.ts'
import { ProjectDirectory } from './store/catalog/project-store.ts'
import { countWrites, DamagedRecordError, isWithinWrite } from './store/faults.ts'
import { LogAppender } from './store/log/event-log.ts'
import { EventReader } from './store/warehouse/read/event-reader.ts'
import { readProcessedPosition } from './store/warehouse/write/event-state.ts'

/** Bytes of the memory of a scanner that is kept for the next body. */
const SCANNER_BYTES_KEPT = 16 * 1024 * 1024

// pool.ts gives every thread these.
const settings = workerData as ThreadSettings
const log = createLogger({ level: settings.logLevel, format: settings.logFormat })
const damage = new DamageReports(new DamageCount(settings.damageCount), log)
if (settings.openWrites !== undefined) countWrites(settings.openWrites)
process.on('exit', endWithProcess)

let appender: LogAppender | undefined
let processor: LogProcessor | undefined
let reader: EventReader | undefined
let directory: ProjectDirectory | undefined
let scanner: Scanner | undefined
let flagTasks: FlagTasks | undefined
let organization: OrganizationWorker | undefined

/** Runs one task. Refusals that a client may see come back as values; anything else rejects. */
export default async function runTask(task: Task): Promise<unknown> {
  try {
    return moved(task, { result: await dispatch(task) })
  } catch (error) {
    if (error instanceof ServiceError) return { refusal: error.toBody() }
    // Those who write must stop; a read is refused, and others go on.
    const isWriting = task.kind === 'append' || task.kind === 'process'
    if (isWriting || !(error instanceof DamagedRecordError)) throw error
    damage.report(error)
    return { refusal: refusalOf(error).toBody() }
  }
}

/** Lets the memory in an answer change hands instead of being copied. */
function moved(task: Task, answer: { readonly result: unknown }): unknown {
  const buffers = buffersOf(task, answer.result)
  if (buffers.length === 0) return answer
  return move({ [transferableSymbol]: buffers, [valueSymbol]: answer })
}

function isPageTask(task: Task): task is PageTask {
  return isPageKind(task.kind)
}

function buffersOf({ kind }: Task, result: unknown): readonly ArrayBuffer[] {
  // Each is what the handler of its kind returned.
  if (isPageKind(kind)) return pageBuffers(result as PageResults[PageName])
  if (kind === 'append') return (result as AppendResult).buffers
  if (kind === 'analytics') return [(result as AnalyticAnswer).rows.buffer]
  if (kind === 'personTable') return tableBuffers(result as TableResult)
  if (kind === 'check') {
    const checked = result as CheckResult
    // A body that comes back is the only view of its memory.
    if (checked.kind === 'deferred') return [checked.body.buffer as ArrayBuffer]
    return checked.kind === 'accepted' ? [checked.block.buffer] : []
  }
  return result instanceof Uint8Array ? [result.buffer as ArrayBuffer] : []
}

function dispatch(task: Task): TaskResults[Task['kind']] | Promise<TaskResults[Task['kind']]> {
  if (isPageTask(task)) return makePage(task, { reader: openReader, flags: openFlagTasks })
  switch (task.kind) {
    case 'append':
      return append(task)
    case 'process':
      processor ??= new LogProcessor(settings, (error) => damage.report(error))
      return processor.run(task.budgetMs, task.isDiskShort)
    case 'check':
      return check(task)
    case 'listDropped':
      return openReader().listDropped(...task.values)
    case 'countDropped':
      return openReader().countDropped(...task.values)
    case 'analytics':
      return analyse(task)
    case 'changeFlag':
      return openFlagTasks().change(task)
    case 'organization':
      organization ??= new OrganizationWorker(settings.dataDir)
      return organization.run(task)
    case 'blastRadius':
      return openFlagTasks().blastRadius(task)
    case 'close':
      return close()
    case 'personTable':
      return makeTablePiece(task, openReader())
    case 'getEvent': {
      const event = openReader().getEvent(...task.values)
      return event && rowText('json', event)
    }
    case 'findGroup':
    case 'findPerson':
    case 'getAction':
    case 'getPerson':
    case 'groupTypes':
    case 'knownCohorts':
      return readPersons(task)
    case 'runningErasures':
    case 'getErasure':
    case 'estimateErasure':
    case 'getRetention':
    case 'planRetention':
    case 'retainedProjects':
      return readErasures(task, openReader().erasures())
  }
}

function readPersons(
  task: FactTask | Exclude<RowTask, { readonly kind: 'getEvent' }>,
): TaskResults[typeof task.kind] {
  const persons = openReader().persons()
  switch (task.kind) {
    case 'getPerson': {
      const [projectId, reference, format, firstId] = task.values
      const person = persons.person(projectId, reference, firstId)
      return person && rowText(format, personBody(person))
    }
    case 'findGroup': {
      const [projectId, typeIndex, key, format] = task.values
      const group = persons.group(projectId, typeIndex, key)
      return group && rowText(format, withWireTimes(group))
    }
    case 'getAction': {
      const [projectId, id, format] = task.values
      const action = persons.action(projectId, id)
      return action && rowText(format, withWireTimes(action))
    }
    case 'findPerson': {
      const record = persons.record(...task.values)
      return record && { uuid: record.uuid }
    }
    case 'groupTypes':
      return persons.groupTypes(...task.values)
    case 'knownCohorts':
      return persons.cohorts(...task.values, Number.MAX_SAFE_INTEGER, 0).results
  }
}

/**
 * A thread that exits within a write transaction would wait for itself when its store is closed, and all
 * later writes for it. So the process ends with it; what was not committed was not answered.
 */
function endWithProcess(): void {
  if (!isWithinWrite()) return
  log.fatal('a thread ended within a write transaction; the process ends with it')
  process.kill(process.pid, 'SIGKILL')
}

/** An answer that lacks what cannot be read would be taken for the whole. */
function refusalOf({ place }: DamagedRecordError): ServiceError {
  const detail = `a stored record that this needs is damaged (${place}): 'tenrec verify' lists all that is, restore the store from a backup`
  return new ServiceError('data_corrupted', detail)
}

function append(task: AppendTask): AppendResult {
  appender ??= new LogAppender({
    ...settings,
    processed: readProcessedPosition(settings.dataDir),
  })
  const startedAt = performance.now()
  const blocks = task.blocks.map(({ buffer, bytes }) => Buffer.from(buffer, 0, bytes))
  const last = appender.append(blocks, task.trimThrough)
  return {
    last,
    commitMs: performance.now() - startedAt,
    buffers: task.blocks.map((block) => block.buffer),
  }
}

function check({ lane, request }: CheckTask): CheckResult {
  directory ??= new ProjectDirectory(settings.dataDir)
  // What gets to the slow lane was no body for the scanner, whose memory would lie beside the parsed one.
  if (lane !== 'slow') scanner ??= new Scanner()
  directory.refreshIfChanged()
  const limits = LANE_LIMITS[lane]
  const tools = {
    ...limits,
    scanner: lane === 'slow' ? null : (scanner ?? null),
    directory,
    decodedBytesMax: Math.min(limits.decodedBytesMax, settings.decodedBytesMax),
    checkTime: timeLimit(CHECK_MS_MAX),
  }
  // The events are a copy of what the body holds, plus a table.
  const block = new LogBlockWriter(Buffer.allocUnsafeSlow(request.body.length + 65_536))
  try {
    const { projectId, eventCount } = acceptCapture(request, tools, block)
    const bytes = block.finish()
    // The writer allocated this memory, so it is an ArrayBuffer of its own.
    return {
      kind: 'accepted',
      block: { buffer: bytes.buffer as ArrayBuffer, bytes: bytes.length },
      projectId,
      eventCount,
    }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const isTooLargeHere = lane === 'express' && error.code === 'request_too_large'
    if (error instanceof SlowBodyError || isTooLargeHere) {
      return { kind: 'deferred', body: request.body }
    }
    const { retryAfterSeconds } = error
    return { kind: 'refused', error: error.toBody(), retryAfterSeconds }
  } finally {
    forgetLargeScanner()
  }
}

/** A scanner keeps the memory of the largest body it has seen, and each thread has one. */
function forgetLargeScanner(): void {
  if (scanner !== undefined && scanner.memoryBytes > SCANNER_BYTES_KEPT) scanner = undefined
}

/** Throws ServiceError `server_error` when it is called later than in `milliseconds`. */
function timeLimit(milliseconds: number): () => void {
  const endMs = performance.now() + milliseconds
  return () => {
    if (performance.now() < endMs) return
    throw refusal('check_slow')
  }
}

function analyse(task: AnalyticTask): AnalyticAnswer {
  if (settings.analytics === undefined) throw new TypeError('not a thread for analytics')
  return runAnalytics(openReader(), task, settings.analytics)
}

function openReader(): EventReader {
  reader ??= new EventReader({
    dataDir: settings.dataDir,
    onDamage: (error) => damage.report(error),
    scanCacheBytesMax: settings.analytics?.cacheBytesMax ?? 0,
  })
  return reader
}

function openFlagTasks(): FlagTasks {
  flagTasks ??= new FlagTasks(settings.dataDir)
  return flagTasks
}

async function close(): Promise<undefined> {
  await flagTasks?.close()
  await organization?.close()
  await appender?.close()
  await processor?.close()
  await reader?.close()
  await directory?.close()
}
