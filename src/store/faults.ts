/**
 * What can go wrong with an open store, for those who have to react: a record that is damaged, a
 * thread that ends within a write transaction, and a shortage that passes.
 */

/**
 * How many write transactions are open, of threads that share it, and how many there ever were; then the same of those
 * that change what anybody reads.
 */
let openWrites: Int32Array | undefined
let writeDepth = 0

/** Where transactions are counted. */
export const ALL_WRITES = 0
/** The same of those that change what anybody reads. */
export const CHANGING_WRITES = 2

/**
 * Counts a write transaction as open while `action` runs. `isRearranging`: it changes nothing that anybody reads. For
 * environment.ts.
 */
export function counted<T>(action: () => T, isRearranging: boolean): T {
  writeDepth++
  const kinds = isRearranging ? [ALL_WRITES] : [ALL_WRITES, CHANGING_WRITES]
  if (openWrites !== undefined) {
    for (const kind of kinds) {
      Atomics.add(openWrites, kind, 1)
      Atomics.add(openWrites, kind + 1, 1)
    }
  }
  try {
    return action()
  } finally {
    // Not reached by a thread that ends within the transaction.
    writeDepth--
    if (openWrites !== undefined) for (const kind of kinds) Atomics.sub(openWrites, kind, 1)
  }
}

/**
 * From now on the write transactions of this thread are counted in `counter`, which has 4 elements: at `ALL_WRITES`
 * while they are open, behind it for good; those that change what anybody reads at `CHANGING_WRITES`, too. A thread
 * that ends within one leaves it open, and the environment locked.
 */
export function countWrites(counter: Int32Array): void {
  openWrites = counter
}

/** Whether this thread is within a write transaction. */
export function isWithinWrite(): boolean {
  return writeDepth > 0
}

/** Tables whose keys are numbers only: keys of others hold texts of clients. */
const NUMBERED_TABLES: ReadonlySet<string> = new Set([
  ...['segment_headers', 'segment_groups', 'uuid_runs', 'uuid_chunks', 'projects', 'kept_names'],
  ...['distinct_texts', 'persons', 'person_changes', 'person_owners', 'warnings'],
])

/** A stored value whose checksum does not fit, or that is missing: it is refused, never served. */
export class DamagedRecordError extends Error {
  override readonly name = 'DamagedRecordError'
  readonly table: string
  /** The key in hexadecimal digits. */
  readonly key: string

  constructor(table: string, key: Uint8Array, what = 'the checksum does not fit') {
    const digits = Buffer.from(key).toString('hex')
    super(`table ${table}, key ${digits}: ${what}; restore from a backup or export what is left`)
    this.table = table
    this.key = digits
  }

  /** Which record it is, for those who may not see what clients have sent. */
  get place(): string {
    return NUMBERED_TABLES.has(this.table)
      ? `table ${this.table}, key ${this.key}`
      : `table ${this.table}`
  }
}

/** Told of a record that is damaged or missing, and left out. */
export type DamageListener = (error: DamagedRecordError) => void

/** What `read` answers; null when it met damage that `onDamage` was told of. */
export function attempt<T>(read: () => T, onDamage: DamageListener): T | null {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof DamagedRecordError)) throw cause
    onDamage(cause)
    return null
  }
}

/** The listener of those who pass over nothing. */
export function refuseDamage(error: DamagedRecordError): never {
  throw error
}

/** What is missing: space on the disk, file descriptors, or a read that the disk did not carry out. */
export type Shortage = 'disk' | 'files' | 'io'

/**
 * Errors of the file system by their code. Errors lose every property but their message on the way between
 * threads, so the code is looked for at the beginning of the message as well, where Node puts it.
 */
const SHORTAGE_OF_CODE: ReadonlyMap<string, Shortage> = new Map([
  ['ENOSPC', 'disk'],
  ['EDQUOT', 'disk'],
  ['EMFILE', 'files'],
  ['ENFILE', 'files'],
  ['EIO', 'io'],
])
const CODE_IN_MESSAGE = /^([A-Z]+): .*?, (\w+)/
/** Calls after whose failure it is unknown what is on the disk. */
const FLUSHES: ReadonlySet<string> = new Set(['fsync', 'fdatasync'])
/** A read that failed changed nothing; a failed write or flush may have. */
const READS: ReadonlySet<string> = new Set([
  ...['access', 'lstat', 'open', 'opendir', 'read', 'readlink', 'realpath', 'scandir', 'stat'],
  ...['fstat', 'statfs', 'statx'],
])
/**
 * Errors of LMDB by their text, which alone survives the way between threads: before the commit of a
 * transaction, and in the write of its pages, which happens before anything of it counts. The same number
 * from a flush or from a meta page comes without the second half of the first text and is no shortage.
 */
const LMDB_SHORTAGES: readonly (readonly [RegExp, Shortage])[] = [
  [/^(No space left on device|Disk quota exceeded): Attempting to write page/, 'disk'],
  [/^MDB_MAP_FULL/, 'disk'],
  [/^(Too many open files|Too many open files in system)$/, 'files'],
]

/**
 * The shortage that an error of `lmdb` or of the file system tells of, or null. What failed has changed
 * nothing, so it can be tried again when the shortage has passed. Also looks at the causes of an error.
 *
 * A failed flush is never a shortage, whatever its code: what is on the disk is then unknown.
 */
export function isShortage(error: unknown): Shortage | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const shortage = shortageOf(cause)
    if (shortage !== null) return shortage
  }
  return null
}

function shortageOf(error: Error & { code?: unknown; syscall?: unknown }): Shortage | null {
  const [, codeInMessage, callInMessage] = CODE_IN_MESSAGE.exec(error.message) ?? []
  const code = typeof error.code === 'string' ? error.code : codeInMessage
  const call = typeof error.syscall === 'string' ? error.syscall : callInMessage
  const shortage = code === undefined ? undefined : SHORTAGE_OF_CODE.get(code)
  if (shortage !== undefined) {
    if (call !== undefined && FLUSHES.has(call)) return null
    return shortage === 'io' && (call === undefined || !READS.has(call)) ? null : shortage
  }
  return LMDB_SHORTAGES.find(([text]) => text.test(error.message))?.[1] ?? null
}

/** A transaction could not be committed: what of it is on the disk is not known. */
export class CommitFailedError extends Error {
  override readonly name = 'CommitFailedError'

  constructor(cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    super(`a transaction could not be committed: ${reason}`, { cause })
  }
}

/**
 * Numbers of errors of LMDB behind which the environment, or the memory around it, cannot be trusted: input and
 * output failed while it wrote, or it says so itself (MDB_PANIC, MDB_CORRUPTED).
 */
const BROKEN_CODES: ReadonlySet<unknown> = new Set([5, 28, 30, -30_795, -30_796])

/**
 * Whether a process that has met this error must end, because it does not know what is durable. Everything else
 * leaves the environment as it was before the transaction.
 */
export function isBeyondRepair(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof CommitFailedError) return true
    if ('code' in cause && BROKEN_CODES.has(cause.code)) return true
  }
  return false
}

/** The steps of maintenance: what is done when there is time. Their places in this list are stored. */
export const MAINTENANCE_STEPS = ['merge', 'erase', 'index', 'names', 'fold'] as const
/** One of `MAINTENANCE_STEPS`. */
export type MaintenanceStep = (typeof MAINTENANCE_STEPS)[number]

/** Runs steps of maintenance, and knows which have failed and are to be left out for a while. */
export interface StepGuard {
  /** Whether a step has failed and is not to be tried now. `first`: the first sequence of a merge, else 0. */
  isPaused(step: MaintenanceStep, projectId?: number, first?: number): boolean
  /** Runs a step. What it throws is noted and thrown on: the store must then be opened anew. */
  run<T>(step: MaintenanceStep, action: () => T, projectId?: number, first?: number): T
}

/** The guard of those who keep no record: what fails is thrown, nothing is paused. */
export const NO_GUARD: StepGuard = {
  isPaused: () => false,
  run: (_step, action) => action(),
}
