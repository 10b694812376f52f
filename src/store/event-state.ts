/** Numbers about the whole environment `events`: table `state`. */
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { seal, unseal } from './codec.ts'
import { Environment, type Table } from './environment.ts'
import { EVENTS_ENVIRONMENT, stateKey } from './keys.ts'

const STATE = 'state'

/** A number of table `state`, or null. Throws `DamagedRecordError`. */
export function readNumber(table: Table, name: 'position' | 'seed'): number | null {
  const key = stateKey(name)
  const value = table.get(key)
  return value === undefined ? null : unseal(STATE, key, value).readDoubleLE()
}

/** Stores a number of table `state`. Only in a write transaction. */
export function storeNumber(table: Table, name: 'position' | 'seed', number: number): void {
  const key = stateKey(name)
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeDoubleLE(number)
  void table.put(key, seal(key, bytes))
}

/** The folder of the environment in a data directory. */
export function eventStoreFolder(dataDir: string): string {
  return join(dataDir, EVENTS_ENVIRONMENT)
}

/** The position up to which the log of a data directory is processed; 0 for a new one. */
export function readProcessedPosition(dataDir: string): number {
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: [STATE] })
  try {
    return readNumber(environment.table(STATE), 'position') ?? 0
  } finally {
    // Closing ends at once; what it returns only tells of writes, and there were none.
    void environment.close()
  }
}

/** The seed of the fingerprints of this store (uuid-fingerprint.ts); drawn and stored the first time. */
export function openSeed(environment: Environment, table: Table): number {
  const known = readNumber(table, 'seed')
  if (known !== null) return known
  const seed = randomInt(2 ** 32)
  environment.write(() => storeNumber(table, 'seed', seed))
  return seed
}
