/**
 * The environment `flags` of a machine that shares its catalogue with others (port: ports/change-log.ts). What the
 * stores of a thread write is captured and taken back, until it comes as a write set that has its place; then it
 * is applied as it is, in one transaction with the place: table `state`, under `place`.
 *
 * Sessions of the console, codes of login links and counts of what flags were decided to be belong to their
 * machine and are never in a set: people can log in while no broker answers.
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
  'the cluster has the catalogue of another organization: begin with an empty data directory, or choose other brokers'

let proposed: Proposal | null = null

/** What the transaction of this thread that was taken back last would have written; once. */
export function takeProposal(): Proposal | null {
  const taken = proposed
  proposed = null
  return taken
}

/**
 * From now on this thread proposes what it would write to the catalogue, until what it answers is called. Call it
 * before stores are opened.
 */
export function proposeWrites(dataDir: string): () => void {
  captureWrites({
    ...{ path: dataDir, name: FLAGS_ENVIRONMENT },
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

/** Where the copy in a data directory stands. */
export function readChangePlace(dataDir: string): ChangePlace | null {
  const copy = new StoredCatalogue(dataDir)
  try {
    return copy.place()
  } finally {
    // Closing ends at once; what it returns only tells of writes, and there were none.
    void copy.close()
  }
}

/** From now on the catalogue is that of one box. */
export async function leaveShared(dataDir: string): Promise<void> {
  const copy = new StoredCatalogue(dataDir)
  copy.leave()
  await copy.close()
}

/** The copy in a data directory, which a daemon may have open. Close it before the thread ends. */
export class StoredCatalogue implements CatalogueCopy {
  /** A catalogue that was never shared may be replaced by that of another organization. */
  isNew = false
  readonly #environment: Environment

  constructor(dataDir: string) {
    this.#environment = new Environment({
      ...{ dataDir, name: FLAGS_ENVIRONMENT, tables: FLAGS_TABLES },
      isUncaptured: true,
    })
  }

  /** Throws `DamagedRecordError`. */
  place(): ChangePlace | null {
    this.#environment.refresh()
    return placeIn(this.#environment)
  }

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

  /** Throws `OperatorError` when it would lose a catalogue of another organization. */
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

  /** A store that was never shared has the place 0. */
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

  /** It is a copy of nothing any more; what it holds stays, but for the warehouse of the cluster. */
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
    // Written by `DirectoryEnvironment.putOrganization`.
    const record = getRecord(this.#environment.table(STATE), ORGANIZATION_KEY)
    return (record as { readonly id: string } | undefined)?.id
  }

  #put(writes: WriteSet): void {
    for (const { table, key, value } of writes) {
      const target = this.#environment.table(table)
      if (value === null) target.removeSync(Buffer.from(key))
      else target.putSync(Buffer.from(key), Buffer.from(value))
    }
  }
}

function placeIn(environment: Environment): ChangePlace | null {
  // Written by `apply` and `replace`; the checksum says that it is unchanged.
  return (getRecord(environment.table(STATE), PLACE_KEY) as ChangePlace | undefined) ?? null
}

function isLocal({ table, key }: { readonly table: string; readonly key: Uint8Array }): boolean {
  if (LOCAL_TABLES.has(table)) return true
  return table === STATE && LOCAL_STATE.some((known) => known.equals(key))
}

function encode(writes: WriteSet): Uint8Array {
  return new Uint8Array(pack(writes.map(({ table, key, value }) => [table, key, value])))
}

/** The reverse; a message with another content does not come from a machine of this cluster. */
function decode(bytes: Uint8Array): WriteSet {
  const rows = unpack(bytes) as readonly (readonly [string, Uint8Array, Uint8Array | null])[]
  return rows.map(([table, key, value]) => ({ table, key, value }))
}
