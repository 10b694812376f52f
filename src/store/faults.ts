/**
 * The faults of an open store that callers react to: a damaged record, a thread that ends within a write transaction, a
 * machine that runs out of disk space, open files or memory, a failed commit, and a failed maintenance step.
 */

/**
 * Counters of write transactions, shared by the threads that use the store. There are two elements for each kind of
 * transaction:
 *
 *             ALL_WRITES = 0              CHANGING_WRITES = 2
 *   index     0              1            2              3
 *   value     open now       ever begun   open now       ever begun
 *
 * `CHANGING_WRITES` counts only transactions after which a reader of the store can see a difference.
 */
let openWrites: Int32Array | undefined
let writeDepth = 0

/** The index of the counters of all write transactions. */
export const ALL_WRITES = 0
/** The index of the counters of those write transactions that change data which readers can see. */
export const CHANGING_WRITES = 2

/**
 * Counts a write transaction as open while `action` runs, and returns the result of `action`. Set `isRearranging` if
 * the transaction changes nothing that a reader can see. Only environment.ts calls this function.
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
    // If the thread ends within the transaction, this line is not reached. The transaction then stays counted as open.
    writeDepth--
    if (openWrites !== undefined) for (const kind of kinds) Atomics.sub(openWrites, kind, 1)
  }
}

/**
 * Sets the array of four counters (see `openWrites`) that the write transactions of this thread use. If a thread ends
 * within a write transaction, the transaction stays counted as open and the environment stays locked.
 */
export function countWrites(counter: Int32Array): void {
  openWrites = counter
}

/** Returns whether this thread is within a write transaction. */
export function isWithinWrite(): boolean {
  return writeDepth > 0
}

/** Tables whose keys are only numbers. Keys of other tables contain texts that clients sent. */
const NUMBERED_TABLES: ReadonlySet<string> = new Set([
  'segment_headers',
  'segment_groups',
  'uuid_runs',
  'uuid_chunks',
  'projects',
  'kept_names',
  'distinct_texts',
  'persons',
  'person_changes',
  'person_owners',
  'warnings',
])

/** A stored value is missing or its checksum does not match. Such a record is refused and never returned. */
export class DamagedRecordError extends Error {
  override readonly name = 'DamagedRecordError'
  readonly table: string
  /** The key in hexadecimal digits. */
  readonly key: string

  constructor(table: string, key: Uint8Array, what = 'the checksum does not match') {
    const digits = Buffer.from(key).toString('hex')
    super(
      `Table ${table}, key ${digits}: ${what}. Restore the store from a backup, or export what is left.`,
    )
    this.table = table
    this.key = digits
  }

  /**
   * The table and the key. The key is left out if it may contain a text of a client, so the result is safe to show to
   * anyone.
   */
  get place(): string {
    return NUMBERED_TABLES.has(this.table)
      ? `table ${this.table}, key ${this.key}`
      : `table ${this.table}`
  }
}

/** Receives the error of each record that is damaged or missing and was therefore skipped. */
export type DamageListener = (error: DamagedRecordError) => void

/** Returns the result of `read`. If `read` finds a damaged record, passes the error to `onDamage` and returns null. */
export function attempt<T>(read: () => T, onDamage: DamageListener): T | null {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof DamagedRecordError)) throw cause
    onDamage(cause)
    return null
  }
}

/** A damage listener for callers that cannot continue without the record: it throws the error. */
export function refuseDamage(error: DamagedRecordError): never {
  throw error
}

/** A resource that the machine lacks: disk space or file descriptors. `io` means that a read failed. */
export type Shortage = 'disk' | 'files' | 'io'

/** The shortage that each error code of the file system stands for. */
const SHORTAGE_OF_CODE: ReadonlyMap<string, Shortage> = new Map([
  ['ENOSPC', 'disk'],
  ['EDQUOT', 'disk'],
  ['EMFILE', 'files'],
  ['ENFILE', 'files'],
  ['EIO', 'io'],
])
/** System calls after whose failure it is unknown which data is on the disk. */
const FLUSHES: ReadonlySet<string> = new Set(['fsync', 'fdatasync'])
/** System calls that change nothing, so that a failed one can be repeated. */
const READS: ReadonlySet<string> = new Set(
  'access fstat lstat open opendir read readlink realpath scandir stat statfs statx'.split(' '),
)
/**
 * The shortages that LMDB reports before it writes anything, by the text of the error. The error of a disk that becomes
 * full during a write is not included: see `isBeyondRepair`.
 */
const LMDB_SHORTAGES: readonly (readonly [RegExp, Shortage])[] = [
  [/^MDB_MAP_FULL/, 'disk'],
  [/^Too many open files( in system)?$/, 'files'],
  // The process could not start a thread or another process.
  [/^(Worker initialization failure: |spawn .*)E[MN]FILE$/, 'files'],
]

/**
 * Returns the shortage that an error of LMDB or of the file system stands for, or null. The failed call changed
 * nothing, so it can be repeated once the shortage is over. The causes of the error are examined as well.
 *
 * A failed flush is never a shortage, whatever its code, because it leaves unknown which data is on the disk.
 */
export function isShortage(error: unknown): Shortage | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const shortage = shortageOf(cause)
    if (shortage !== null) return shortage
  }
  return null
}

function shortageOf(error: Error & { code?: unknown; syscall?: unknown }): Shortage | null {
  const { code, syscall } = error
  const call = typeof syscall === 'string' ? syscall : undefined
  const shortage = typeof code === 'string' ? SHORTAGE_OF_CODE.get(code) : undefined
  if (shortage !== undefined) {
    if (call !== undefined && FLUSHES.has(call)) return null
    return shortage === 'io' && (call === undefined || !READS.has(call)) ? null : shortage
  }
  return LMDB_SHORTAGES.find(([text]) => text.test(error.message))?.[1] ?? null
}

/** A transaction could not be committed. It is unknown which of its pages are on the disk. */
export class CommitFailedError extends Error {
  override readonly name = 'CommitFailedError'

  constructor(cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    super(`A transaction could not be committed: ${reason}.`, { cause })
  }
}

/**
 * Error numbers of LMDB after which neither the environment nor the memory of the process can be trusted: EIO, ENOSPC
 * and EROFS during a write of pages (lmdb-js then writes its message past the end of a buffer), MDB_PANIC and
 * MDB_CORRUPTED.
 */
const BROKEN_CODES: ReadonlySet<unknown> = new Set([5, 28, 30, -30_795, -30_796])

/**
 * Returns whether the process must end after this error, because it is unknown which data is durable. After any other
 * error, the environment is in the state before the transaction.
 */
export function isBeyondRepair(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof CommitFailedError) return true
    if ('code' in cause && BROKEN_CODES.has(cause.code)) return true
  }
  return false
}

/**
 * The steps of maintenance, which run while the store is idle. Stored files refer to a step by its index in this list,
 * so the order must not change.
 */
export const MAINTENANCE_STEPS = ['merge', 'erase', 'index', 'names', 'fold'] as const
/** One of `MAINTENANCE_STEPS`. */
export type MaintenanceStep = (typeof MAINTENANCE_STEPS)[number]

/** Runs maintenance steps, and pauses steps that have failed. */
export interface StepGuard {
  /** Returns whether a step is paused. `first` is the first sequence number of a merge, or 0 for other steps. */
  isPaused(step: MaintenanceStep, projectId?: number, first?: number): boolean
  /** Runs a step. Records and rethrows its error. The caller must then close the store and open it again. */
  run<T>(step: MaintenanceStep, action: () => T, projectId?: number, first?: number): T
}

/** A guard that records nothing: it rethrows errors and pauses no step. */
export const NO_GUARD: StepGuard = {
  isPaused: () => false,
  run: (_step, action) => action(),
}
