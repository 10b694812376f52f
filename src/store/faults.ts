/**
 * What can go wrong with an open store, for those who have to react: a record that is damaged, and
 * a thread that ends within a write transaction.
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
