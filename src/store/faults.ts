/**
 * The faults of an open store that callers react to: a damaged record, a thread that ends within a write transaction, a
 * machine that runs out of disk space, open files or memory, a failed commit, and a failed maintenance step.
 */

/**
 * Counters of write transactions, shared by the threads that use the store. Two elements for each kind:
 *
 *             ALL_WRITES = 0              CHANGING_WRITES = 2
 *   index     0              1            2              3
 *   value     open now       ever begun   open now       ever begun
 *
 * `CHANGING_WRITES` counts only transactions after which a reader of the store can see a difference.
 */
let openWrites: Int32Array | undefined
let writeDepth = 0

/** The index at which all write transactions are counted. */
export const ALL_WRITES = 0
/** The index at which the write transactions that change data visible to readers are counted. */
export const CHANGING_WRITES = 2

/**
 * Counts a write transaction as open while `action` runs, and returns its result. Set `isRearranging` for a transaction
 * that changes nothing a reader can see. Only environment.ts calls this function.
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
    // A thread that ends within the transaction does not get here, so the transaction stays counted as open.
    writeDepth--
    if (openWrites !== undefined) for (const kind of kinds) Atomics.sub(openWrites, kind, 1)
  }
}

/**
 * Makes the write transactions of this thread count in `counter`, an array of 4 elements: see `openWrites`. A thread
 * that ends within a write transaction leaves the transaction counted as open and the environment locked.
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

  /** The table and, where the key contains no text of a client, the key. It is safe to show to anyone. */
  get place(): string {
    return NUMBERED_TABLES.has(this.table)
      ? `table ${this.table}, key ${this.key}`
      : `table ${this.table}`
  }
}

/** Receives the error of each record that is damaged or missing and was therefore skipped. */
export type DamageListener = (error: DamagedRecordError) => void

/** Returns the result of `read`, or null if it met a damaged record. The error then goes to `onDamage`. */
export function attempt<T>(read: () => T, onDamage: DamageListener): T | null {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof DamagedRecordError)) throw cause
    onDamage(cause)
    return null
  }
}

/** A damage listener for callers that must not skip a record: it throws the error. */
export function refuseDamage(error: DamagedRecordError): never {
  throw error
}

/** A shortage of the machine: no disk space, no file descriptors, or a read that failed. */
export type Shortage = 'disk' | 'files' | 'io'

/** The shortage that an error of the file system stands for, by its code. */
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
 * The shortages that LMDB reports before it writes anything, by the text of the error. A full disk that LMDB meets
 * while it writes is not one of them: see `isBeyondRepair`.
 */
const LMDB_SHORTAGES: readonly (readonly [RegExp, Shortage])[] = [
  [/^MDB_MAP_FULL/, 'disk'],
  [/^Too many open files( in system)?$/, 'files'],
  // A thread or a process could not be started.
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
 * and EROFS while it writes pages (lmdb-js then writes its message beyond an allocation), MDB_PANIC and MDB_CORRUPTED.
 */
const BROKEN_CODES: ReadonlySet<unknown> = new Set([5, 28, 30, -30_795, -30_796])

/**
 * Returns whether the process must end after this error, because it is unknown which data is durable. After any other
 * error the environment is in the state before the transaction.
 */
export function isBeyondRepair(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof CommitFailedError) return true
    if ('code' in cause && BROKEN_CODES.has(cause.code)) return true
  }
  return false
}

/**
 * The steps of maintenance, which run while the store is idle. Stored files refer to them by their index in this list.
 */
export const MAINTENANCE_STEPS = ['merge', 'erase', 'index', 'names', 'fold'] as const
/** One of `MAINTENANCE_STEPS`. */
export type MaintenanceStep = (typeof MAINTENANCE_STEPS)[number]

/** Runs maintenance steps, and pauses those that failed. */
export interface StepGuard {
  /** Returns whether a step is paused. `first` is the first sequence number of a merge, or 0 for other steps. */
  isPaused(step: MaintenanceStep, projectId?: number, first?: number): boolean
  /** Runs a step. Records and rethrows its error. The caller must then close the store and open it again. */
  run<T>(step: MaintenanceStep, action: () => T, projectId?: number, first?: number): T
}

/** A guard without a record: it rethrows errors and pauses nothing. */
export const NO_GUARD: StepGuard = {
  isPaused: () => false,
  run: (_step, action) => action(),
}
