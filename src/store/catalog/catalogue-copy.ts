/**
 * The environment `flags` of a machine that shares its catalogue with other machines (port: ports/change-log.ts). A
 * thread runs a change in a transaction, records its writes and rolls the transaction back. The recorded writes, a
 * *write set*, are sent to the change log, which gives them a position. Every machine then applies the write set
 * unchanged and stores its position (table `state`, key `place`) in the same transaction.
 *
 * Console sessions, login codes and counts of flag decisions are local to each machine and are never part of a write
 * set, so users can log in while no broker is reachable.
 */
import { OperatorError } from '../../base/errors.ts'
import { refusal } from '../../base/refusals.ts'
import type {
  CatalogueCopy,
  ChangePlace,
  PlacedChanges,
  Proposal,
  WholeCopy,
  WriteSet,
} from '../../ports/change-log.ts'
import { pack, unpack } from '../lmdb/codec.ts'
import { captureWrites, Environment } from '../lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, FLAGS_TABLES } from '../lmdb/keys.ts'
import { getRecord, putRecord } from '../lmdb/records.ts'
import { CATALOGUE_PART_BYTES_MAX } from './limits.ts'

const STATE = 'state'
const PLACE_KEY = Buffer.from('place', 'latin1')
const LOCAL_TABLES: ReadonlySet<string> = new Set(['console_sessions', 'login_codes', 'flag_usage'])
const LOCAL_STATE: readonly Buffer[] = [PLACE_KEY, Buffer.from('console_session', 'latin1')]
const ORGANIZATION_KEY = Buffer.from('organization', 'latin1')
const WAREHOUSE_KEY = Buffer.from('warehouse', 'latin1')
const NOTHING: WriteSet = []
const FOREIGN =
  'The cluster has the catalogue of another organization. Start with an empty data directory, or choose other brokers.'

let proposed: Proposal | null = null

/**
 * Returns the writes of the last transaction that this thread ran and rolled back. Returns null if there are none, or
 * if an earlier call has already returned them.
 */
export function takeProposal(): Proposal | null {
  const taken = proposed
  proposed = null
  return taken
}

/**
 * Until the returned function is called, the transactions of this thread that change the shared catalogue are rolled
 * back instead of committed, and `takeProposal` returns their writes. Call `proposeWrites` before stores are opened.
 */
export function proposeWrites(dataDir: string): () => void {
  captureWrites({
    path: dataDir,
    name: FLAGS_ENVIRONMENT,
    mayCommit: (environment, writes) => {
      const local = writes.filter(isLocal)
      if (local.length === writes.length) return true
      const place = placeIn(environment)
      if (place === null) throw refusal('control_not_replicated')
      if (takeProposal() !== null) throw new TypeError('a call has made two changes')
      const changes = encode(writes.filter((write) => !isLocal(write)))
      proposed = { place, changes, local: encode(local) }
      return false
    },
  })
  return () => captureWrites(null)
}

/**
 * Returns the position in the change log of the last write set that was applied to the catalogue of a data directory.
 * Returns null if the catalogue is not shared.
 */
export function readChangePlace(dataDir: string): ChangePlace | null {
  const copy = new StoredCatalogue(dataDir)
  try {
    return copy.place()
  } finally {
    // `close` closes the environment before it returns. The promise that `close` returns only waits for writes, and
    // there were none, so it is not awaited.
    void copy.close()
  }
}

/** Ends the sharing of the catalogue in a data directory. The directory then belongs to a single machine. */
export async function leaveShared(dataDir: string): Promise<void> {
  const copy = new StoredCatalogue(dataDir)
  copy.leave()
  await copy.close()
}

/**
 * The copy of the shared catalogue in a data directory. A daemon may have the same directory open at the same time.
 * Close the copy before the thread ends.
 */
export class StoredCatalogue implements CatalogueCopy {
  /**
   * True if the catalogue was just created. `replace` may then overwrite it with the catalogue of another organization.
   */
  isNew = false
  readonly #environment: Environment

  constructor(dataDir: string) {
    this.#environment = new Environment({
      dataDir,
      name: FLAGS_ENVIRONMENT,
      tables: FLAGS_TABLES,
      isUncaptured: true,
    })
  }

  /** Returns the position of the copy, or null if the catalogue is not shared. Throws `DamagedRecordError`. */
  place(): ChangePlace | null {
    this.#environment.refresh()
    return placeIn(this.#environment)
  }

  /**
   * Applies a write set, unless this copy already contains it. Throws `RangeError` if it is not the next one after the
   * position of this copy, and `OperatorError` if it writes to a table that this version lacks.
   */
  apply({ place, changes, local }: PlacedChanges): void {
    this.#environment.write(() => {
      const known = placeIn(this.#environment)
      const { incarnation, sequence, number } = place
      if (known?.incarnation === incarnation && known.sequence >= sequence) return
      if (known?.incarnation !== incarnation || known.number + 1 !== number) {
        throw new RangeError(`write set ${number} does not follow ${known?.number ?? 'nothing'}`)
      }
      this.#put(decode(changes))
      this.#put(local === null ? NOTHING : decode(local))
      putRecord(this.#environment.table(STATE), PLACE_KEY, place)
    })
  }

  /**
   * Replaces the shared part of the catalogue. Throws `OperatorError` if the catalogue of this machine belongs to
   * another organization and is neither new nor shared, or if the whole copy has a table that this version lacks.
   */
  replace({ place, parts }: WholeCopy): void {
    this.#environment.write(() => {
      const organization = this.#organizationId()
      const isShared = placeIn(this.#environment) !== null
      const isOwn = !this.isNew && !isShared && organization !== undefined
      for (const name of FLAGS_TABLES) {
        const table = this.#environment.table(name)
        const keys = [...table.getKeys({})].map((key) => Buffer.from(key))
        const shared = keys.filter((key) => !isLocal({ table: name, key }))
        for (const key of shared) table.removeSync(key)
      }
      for (const part of parts) this.#put(decode(part))
      if (isOwn && this.#organizationId() !== organization) throw new OperatorError(FOREIGN)
      putRecord(this.#environment.table(STATE), PLACE_KEY, place)
    })
  }

  /** Returns the whole catalogue. If the catalogue was never shared, its position is 0. */
  whole(): WholeCopy {
    this.#environment.refresh()
    const pin = this.#environment.pin()
    try {
      const place = placeIn(this.#environment) ?? { incarnation: '', sequence: 0, number: 0 }
      const parts: Uint8Array[] = []
      let writes: { table: string; key: Buffer; value: Buffer }[] = []
      let bytes = 0
      const finish = (): void => {
        parts.push(encode(writes))
        writes = []
        bytes = 0
      }
      for (const table of FLAGS_TABLES) {
        for (const entry of pin.entries(table)) {
          const [key, value] = [Buffer.from(entry.key), Buffer.from(entry.value)]
          if (isLocal({ table, key })) continue
          writes.push({ table, key, value })
          bytes += key.length + value.length
          if (bytes > CATALOGUE_PART_BYTES_MAX) finish()
        }
      }
      if (writes.length > 0) finish()
      return { place, parts }
    } finally {
      pin.release()
    }
  }

  /** Ends the sharing: deletes the position and the name of the cluster's warehouse, and nothing else. */
  leave(): void {
    this.#environment.write(() => {
      this.#environment.table(STATE).removeSync(PLACE_KEY)
      this.#environment.table(STATE).removeSync(WAREHOUSE_KEY)
    })
  }

  close(): Promise<void> {
    return this.#environment.close()
  }

  #organizationId(): unknown {
    // The cast is right: `DirectoryEnvironment.putOrganization` wrote the record.
    const record = getRecord(this.#environment.table(STATE), ORGANIZATION_KEY)
    return (record as { readonly id: string } | undefined)?.id
  }

  #put(writes: WriteSet): void {
    for (const { table, key, value } of writes) {
      const target = this.#environment.find(table)
      // If this version lacks the table, no further changes can be applied until the machine is upgraded.
      if (target === undefined) {
        throw new OperatorError(
          `A newer version of Tenrec has written to the table ${table}. Upgrade this machine.`,
        )
      }
      if (value === null) target.removeSync(Buffer.from(key))
      else target.putSync(Buffer.from(key), Buffer.from(value))
    }
  }
}

function placeIn(environment: Environment): ChangePlace | null {
  // The cast is right: `apply` and `replace` wrote the position, and its checksum matches.
  return (getRecord(environment.table(STATE), PLACE_KEY) as ChangePlace | undefined) ?? null
}

function isLocal({ table, key }: { readonly table: string; readonly key: Uint8Array }): boolean {
  if (LOCAL_TABLES.has(table)) return true
  return table === STATE && LOCAL_STATE.some((known) => known.equals(key))
}

function encode(writes: WriteSet): Uint8Array {
  return new Uint8Array(pack(writes.map(({ table, key, value }) => [table, key, value])))
}

/** Decodes the result of `encode`. Only machines of this cluster send write sets, so the contents are not checked. */
function decode(bytes: Uint8Array): WriteSet {
  const rows = unpack(bytes) as readonly (readonly [string, Uint8Array, Uint8Array | null])[]
  return rows.map(([table, key, value]) => ({ table, key, value }))
}
