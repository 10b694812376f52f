/**
 * Runs the tasks of a pool thread: one function carries out any call of the table. The entry file of the thread
 * (thread.ts) chooses which stores the thread opens.
 */
import { OperatorError, ServiceError } from '../../base/errors.ts'
import { loadPackage } from '../../base/load-package.ts'
import { createLogger } from '../../base/log.ts'
import { getOrAdd } from '../../base/maps.ts'
import { type RefusalReason, refusal } from '../../base/refusals.ts'
import type { LogAppender } from '../../ports/log.ts'
import {
  countWrites,
  DamagedRecordError,
  isShortage,
  isWithinWrite,
  type Shortage,
} from '../../store/faults.ts'
import { DamageCount, DamageReports } from '../front/damage-reports.ts'
import type { LogProcessor } from '../processor/log-processor.ts'
import {
  type Answered,
  type Call,
  type Failed,
  memoryOf,
  type Refused,
  type Task,
} from './call-kinds.ts'
import { makePage } from './pages.ts'
import type { ThreadSettings } from './tasks.ts'
import { type MemoryHolder, ThreadMemory } from './thread-memory.ts'
import type { ThreadStores, ThreadWiring } from './thread-stores.ts'

const piscina = loadPackage('piscina') as typeof import('piscina')

/** The reason with which a request is refused, for each kind of shortage. */
const SHORTAGES: Readonly<Record<Shortage, RefusalReason>> = {
  disk: 'changes_disk_full',
  files: 'files_full',
  io: 'disk_unread',
}

/** The calls of a thread by name, and its stores. */
interface Tools {
  readonly calls: Readonly<Record<string, unknown>>
  readonly stores: Pick<ThreadStores, 'close'> &
    Partial<Pick<ThreadStores, 'takeProposal' | 'rest'>> & {
      readonly abandon?: () => Promise<void>
    } & MemoryHolder
}

/** Returns the function that Piscina calls for each task of a thread. Call it once for each thread. */
export async function taskRunner(
  settings: ThreadSettings,
  wiring: ThreadWiring,
): Promise<(task: Task) => Promise<unknown>> {
  const log = createLogger({ level: settings.logLevel, format: settings.logFormat })
  const damage = new DamageReports(new DamageCount(settings.damageCount), log)
  const { calls, stores } = await openTools(settings, wiring, damage)
  if (settings.openWrites !== undefined) countWrites(settings.openWrites)
  // If a thread exits within a write transaction, closing its store would wait for this transaction forever, and so
  // would all later writes of the process. The process is therefore ended. No change that was acknowledged is lost.
  process.on('exit', () => {
    if (!isWithinWrite()) return
    log.fatal('A thread ended during a write transaction, so the process ends too.')
    process.kill(process.pid, 'SIGKILL')
  })
  const memory = settings.memory === undefined ? null : new ThreadMemory(settings.memory, stores)
  return async (task) => {
    if (task.call === 'close') return { result: await stores.close() }
    // The cast is safe: task names come from the same table, so the call exists on this kind of thread.
    const call = calls[task.call] as Call
    // In a cluster, a call that changes the catalogue first only proposes its change. If the previous call was refused,
    // its proposal is still here and is dropped.
    stores.takeProposal?.()
    memory?.begin()
    try {
      return await answer(call, task, stores as ThreadStores)
    } catch (error) {
      if (error instanceof ServiceError) return refused(error)
      const shortage = isShortage(error)
      if (shortage !== null) {
        await stores.abandon?.()
        if (call.threads !== 'writer' && call.threads !== 'processor') {
          return refused(refusal(SHORTAGES[shortage], { cause: error }))
        }
      }
      // After an error, a writing thread must end. On a reading thread, only the current read is refused.
      const isWriting = call.threads === 'writer' || call.threads === 'processor'
      if (!isWriting && error instanceof OperatorError) return failed(error)
      if (isWriting || !(error instanceof DamagedRecordError)) throw error
      damage.report(error)
      return refused(refusalOf(error))
    } finally {
      stores.rest?.()
      memory?.end()
    }
  }
}

/** Loads the calls for this kind of thread. Throws if `wiring` is for another kind. */
async function openTools(
  settings: ThreadSettings,
  wiring: ThreadWiring,
  damage: DamageReports,
): Promise<Tools> {
  if (settings.kind === 'writer' && 'appender' in wiring) {
    const { APPEND_CALLS } = await import('./appending/append-calls.ts')
    const opened = new Map<number, LogAppender>()
    const stores = {
      appenderOf: (partition: number) =>
        getOrAdd(opened, partition, () => wiring.appender(settings, partition)),
      appenders: () => opened.values(),
      close: async () => {
        for (const appender of opened.values()) await appender.close()
      },
    }
    return { calls: APPEND_CALLS, stores }
  }
  if (settings.kind === 'processor' && 'processor' in wiring) {
    const [{ PROCESS_CALLS }, { LiveRows }] = await Promise.all([
      import('./processing/process-calls.ts'),
      import('../processor/live-rows.ts'),
    ])
    let opened: LogProcessor | undefined
    let live: InstanceType<typeof LiveRows> | undefined
    const stores = {
      get processor() {
        opened ??= wiring.processor(settings, damage)
        return opened
      },
      get live() {
        live ??= new LiveRows(wiring.outbox())
        return live
      },
      abandon: async () => {
        const failed = opened
        opened = undefined
        await failed?.close()
      },
      close: async () => opened?.close(),
      get caches() {
        return opened?.caches ?? {}
      },
      release: () => opened?.release(),
    }
    return { calls: PROCESS_CALLS, stores }
  }
  if (!('reader' in wiring)) throw new TypeError(`not wired for ${settings.kind}`)
  const [{ CALLS }, { ThreadStores }] = await Promise.all([
    import('./call-table.ts'),
    import('./thread-stores.ts'),
  ])
  return { calls: CALLS, stores: new ThreadStores(settings, wiring, damage) }
}

/** Carries out a call. The memory of the answer is transferred instead of copied. */
async function answer(call: Call, task: Task, stores: ThreadStores): Promise<unknown> {
  const { result, memory } = await carryOut(call, task, stores)
  const proposal = stores.takeProposal?.()
  const answered: Answered = proposal ? { result, proposal } : { result }
  if (memory.length === 0) return answered
  return piscina.move({ [piscina.transferableSymbol]: memory, [piscina.valueSymbol]: answered })
}

async function carryOut(call: Call, task: Task, stores: ThreadStores) {
  if (call.kind === 'page') {
    const made = makePage(call, task, stores)
    return { result: made, memory: memoryOf(made?.page) }
  }
  const { canceled = new Int32Array(1), values } = task
  const result =
    call.kind === 'long'
      ? call.run({ stores, canceled }, ...values)
      : await call.run(stores, ...values)
  return { result, memory: call.memory(result) }
}

/**
 * Returns a refusal as plain data, because instances of classes cannot be sent between threads. `ThreadGroup` turns it
 * into a `ServiceError` again.
 */
function refused(error: ServiceError): Refused {
  return { refusal: error.toBody(), retryAfterSeconds: error.retryAfterSeconds }
}

/** Returns an `OperatorError` as plain data. `ThreadGroup` turns it into an `OperatorError` again. */
function failed({ message, exitCode }: OperatorError): Failed {
  return { failure: { message, exitCode } }
}

/**
 * Returns the refusal of a read that has met damaged data. The read cannot simply skip the damaged record, because its
 * answer would look complete.
 */
function refusalOf({ place }: DamagedRecordError): ServiceError {
  const detail = `This request needs a stored record that is damaged (${place}). List the damaged records with \`tenrec verify\`, and restore the store from a backup.`
  return new ServiceError('data_corrupted', detail)
}
