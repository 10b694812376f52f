/**
 * The faults of an open store to which callers react: a damaged record, a thread that ended within a write transaction,
 * a lack of disk space, file descriptors or memory, a failed commit, and a failed maintenance step.
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

/** The index of the counters of all write transactions (see `openWrites`). */
export const ALL_WRITES = 0
/** The index of the counters of those write transactions that change what readers of the store see. */
export const CHANGING_WRITES = 2

/**
 * Counts a write transaction as open while `action` runs, and returns the result of `action`. Set `isRearranging` if
 * the transaction changes nothing that a reader can see. Only environment.ts, and event-log.ts for appends to the log,
 * call this function.
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
 * Sets the array of four counters (see `openWrites`) that the write transactions of this thread use. If the thread ends
 * within a write transaction, that transaction stays counted as open. From the counter, the caller then knows that the
 * environment is still locked.
 */
export function countWrites(counter: Int32Array): void {
  openWrites = counter
}

/** Returns whether this thread is within a write transaction. */
export function isWithinWrite(): boolean {
  return writeDepth > 0
}

/**
 * The tables whose keys consist only of numbers. Keys of other tables contain texts that clients sent, so they are not
 * shown.
 */
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
  /** The key, as hexadecimal digits. */
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
   * The table and the key, as a text that is safe to show to anyone. The key is left out if it may contain a text of a
   * client.
   */
  get place(): string {
    return NUMBERED_TABLES.has(this.table)
      ? `table ${this.table}, key ${this.key}`
      : `table ${this.table}`
  }
}

/** Receives the error of each record that was skipped because it is damaged or missing. */
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

/** Error codes of the file system, and the shortage that each of them stands for. */
const SHORTAGE_OF_CODE: ReadonlyMap<string, Shortage> = new Map([
  ['ENOSPC', 'disk'],
  ['EDQUOT', 'disk'],
  ['EMFILE', 'files'],
  ['ENFILE', 'files'],
  ['EIO', 'io'],
])
/** System calls that wait until data is on the disk. If one of them fails, it is unknown which data is there. */
const FLUSHES: ReadonlySet<string> = new Set(['fsync', 'fdatasync'])
/** System calls that change nothing. If one of them fails, it can be repeated. */
const READS: ReadonlySet<string> = new Set(
  'access fstat lstat open opendir read readlink realpath scandir stat statfs statx'.split(' '),
)
/**
 * The shortages that LMDB reports before it writes anything, by the text of the error. If the disk becomes full during
 * a write, the error is not one of these: see `isBeyondRepair`.
 */
const LMDB_SHORTAGES: readonly (readonly [RegExp, Shortage])[] = [
  [/^MDB_MAP_FULL/, 'disk'],
  [/^Too many open files( in system)?$/, 'files'],
  // These messages of Node.js say that a thread or another process could not be started, because the system has no free
  // file descriptor.
  [/^(Worker initialization failure: |spawn .*)E[MN]FILE$/, 'files'],
]

/**
 * Returns the shortage that an error of LMDB or of the file system stands for, or null. The failed call changed
 * nothing, so it can be repeated once the shortage is over. If the error itself is no shortage, its `cause` is
 * examined, and so on.
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
 * Returns whether the process must end because of this error: it is then unknown which data is durable. After any other
 * error, the environment is in the state from before the transaction.
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

/** Runs maintenance steps. It pauses a step that has failed, so that the same error does not occur again and again. */
export interface StepGuard {
  /**
   * Returns whether a step is paused. `first` tells merges apart: it is the first sequence number of the merged events,
   * or 0 for other steps.
   */
  isPaused(step: MaintenanceStep, projectId?: number, first?: number): boolean
  /** Runs a step. Records and rethrows its error. The caller must then close the store and open it again. */
  run<T>(step: MaintenanceStep, action: () => T, projectId?: number, first?: number): T
}

/** A `StepGuard` for callers that need none: it runs each step, rethrows errors, and pauses no step. */
export const NO_GUARD: StepGuard = {
  isPaused: () => false,
  run: (_step, action) => action(),
}
