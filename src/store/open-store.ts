/**
 * Opens the store of a data directory, for a daemon or for one command. A command can run while a daemon runs.
 *
 * The first start fills an empty directory with an organization, its owner, project 1 and its keys, and writes the keys
 * to `credentials.json` for the operator. The store keeps only a hash of the personal key, so the file is written to
 * the disk before the key becomes valid.
 */
import {
  chmodSync,
  chownSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, join as joinPath, resolve } from 'node:path'
import { type Clock, SYSTEM_CLOCK } from '../base/clock.ts'
import { flush, publishDraft, removeDraft, writeDraft } from '../base/durable-file.ts'
import { OperatorError, UsageError } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import { baseUrlOf } from '../config/base-url.ts'
import type { Settings } from '../config/settings.ts'
import type { LogOrigin } from '../ports/log.ts'
import { isDevelopmentKey } from '../rules/access/development-keys.ts'
import { FlagStore } from './catalog/flag-store.ts'
import { generatePersonalKey, generateProjectKey } from './catalog/key-store.ts'
import { OrganizationStore } from './catalog/organization-store.ts'
import { type FirstKeys, ProjectStore } from './catalog/project-store.ts'
import { readStoredFlags, type StoredFlags } from './catalog/stored-flags.ts'
import {
  DataDir,
  type PartName,
  readProcessedPosition,
  requireEnvironment,
  requireStore,
} from './directory/data-dir.ts'
import { lockForCommand } from './directory/data-dir-lock.ts'
import { EventReader } from './events/read/event-reader.ts'
import { DecisionSourceReader } from './identity/decision-sources.ts'
import { Environment } from './lmdb/environment.ts'
import { EVENTS_ENVIRONMENT } from './lmdb/keys.ts'
import { clearOrigin, loadOrigin, storeOrigin } from './lmdb/shared-position.ts'
import { LogReader } from './log/event-log.ts'

const CREDENTIALS_NAME = 'credentials.json'
/**
 * The suffix of the draft of `credentials.json` with a new address. The draft of the first start has another name,
 * because a later start publishes it if the first start was interrupted. A draft with a new address must never be
 * published in this way: after a power failure, it may be incomplete.
 */
const ADDRESS_SUFFIX = '.address'
/** The credentials and the address that the operator is shown once, after the first start. */
export interface FirstStart extends FirstKeys {
  readonly baseUrl: string
  /** The absolute path of the file `credentials.json`, which contains all these values. */
  readonly credentialsPath: string
}

/** A data directory that is ready for a daemon: created, filled and locked. It stays locked until it is released. */
export interface FilledDataDir {
  readonly dataDir: DataDir
  /** The credentials of the first start, or null if an earlier start filled the directory. */
  readonly first: FirstStart | null
}

/**
 * Gets the catalogue of a cluster for a data directory. If the cluster has a catalogue, the directory takes it over.
 * Otherwise `fill` is called, which returns whether it has created a catalogue in the directory. Resolves with true if
 * the catalogue that `fill` created became that of the cluster.
 */
export type JoinCatalogue = (fill: () => boolean, path: string) => Promise<boolean>

/**
 * Opens the data directory, and creates and fills it if necessary. A first start that was interrupted is completed.
 * Throws `OperatorError` if the directory is in use, damaged or on a network file system, and `ServiceError` if a
 * preset key is not a valid key.
 */
export async function openFilled(
  settings: Settings,
  clock: Clock = SYSTEM_CLOCK,
  join: JoinCatalogue = fillAlone,
): Promise<FilledDataDir> {
  return open(settings, clock, join, false)
}

/** Opens the data directory of `tenrec dev`, whose keys are public. */
export function openForDevelopment(settings: Settings, clock: Clock): Promise<FilledDataDir> {
  return open(settings, clock, fillAlone, true)
}

const fillAlone: JoinCatalogue = async (fill) => {
  fill()
  return true
}

async function open(
  settings: Settings,
  clock: Clock,
  join: JoinCatalogue,
  isForDevelopment: boolean,
): Promise<FilledDataDir> {
  if (!isForDevelopment) refusePublicKeys(settings)
  const dataDir = await DataDir.open(settings.dataDir, settings.isNetworkDiskAllowed)
  try {
    const store = new ProjectStore(dataDir.path, clock)
    try {
      let first: FirstStart | null = null
      const isKept = await join(() => {
        first = fill(store, dataDir.path, settings)
        return first !== null
      }, dataDir.path)
      if (!isForDevelopment) refuseDevelopmentStore(store, dataDir.path)
      if (isKept || first === null) return { dataDir, first }
      rmSync(joinPath(dataDir.path, CREDENTIALS_NAME), { force: true })
      return { dataDir, first: null }
    } finally {
      await store.close()
    }
  } catch (error) {
    dataDir.release()
    throw error
  }
}

/**
 * Creates and fills the data directory as `openFilled` does, and releases it again. Returns null if it was filled
 * before.
 */
export async function initialize(
  settings: Settings,
  clock: Clock = SYSTEM_CLOCK,
): Promise<FirstStart | null> {
  const { dataDir, first } = await openFilled(settings, clock)
  dataDir.release()
  return first
}

/**
 * Writes the address at which the daemon listens to the `credentials.json` of a data directory. All other values, the
 * owner and the permissions of the file stay the same. Does nothing if the operator has deleted the file, or if it does
 * not contain what a start has written. Throws the errors of the file system.
 */
export function updateBaseUrl(dataDir: string, baseUrl: string): void {
  // After a power failure, a draft with the key may be left.
  removeDraft(joinPath(dataDir, CREDENTIALS_NAME + ADDRESS_SUFFIX))
  const content = credentialsIn(dataDir)
  if (typeof content?.['base_url'] !== 'string' || content['base_url'] === baseUrl) return
  // The file may be a symbolic link, which must not be replaced by a file.
  const path = realpathSync(joinPath(dataDir, CREDENTIALS_NAME))
  const { mode, uid, gid } = statSync(path)
  const draft = writeDraft(path + ADDRESS_SUFFIX, textOf({ ...content, base_url: baseUrl }))
  try {
    chownSync(draft, uid, gid)
    chmodSync(draft, mode & 0o777)
    renameSync(draft, path)
  } catch (error) {
    removeDraft(path + ADDRESS_SUFFIX)
    throw error
  }
  flush(dirname(path))
}

/**
 * Throws `UsageError` if a preset key is one of the keys of `tenrec dev`, which are public. Anyone could use a daemon
 * with such a key.
 */
function refusePublicKeys({ bootstrapProjectKey, bootstrapPersonalKey }: Settings): void {
  const keys = { project: bootstrapProjectKey, personal: bootstrapPersonalKey }
  for (const [kind, key] of Object.entries(keys)) {
    if (key === null || !isDevelopmentKey(key)) continue
    throw new UsageError(
      `The preset ${kind} key is a key of \`tenrec dev\`, which is public. Choose another key.`,
    )
  }
}

/**
 * Throws `OperatorError` if `tenrec dev` created this data directory, or if it is a copy of such a directory. The keys
 * of such a store are public, so it must not be served to others.
 */
function refuseDevelopmentStore(store: ProjectStore, path: string): void {
  if (!store.hasDevelopmentKey) return
  throw new OperatorError(
    `${path} belongs to \`tenrec dev\`, whose keys are public. Use another data directory.`,
  )
}

function fill(store: ProjectStore, path: string, settings: Settings): FirstStart | null {
  const credentialsPath = joinPath(path, CREDENTIALS_NAME)
  if (store.organization() !== null) {
    publishDraft(credentialsPath)
    return null
  }
  const first: FirstStart = {
    baseUrl: baseUrlOf(settings, settings.port),
    projectId: 1,
    projectKey: settings.bootstrapProjectKey ?? generateProjectKey(),
    personalKey: settings.bootstrapPersonalKey ?? generatePersonalKey(),
    credentialsPath,
  }
  writeDraft(credentialsPath, credentialsText(first))
  store.bootstrap(first)
  publishDraft(credentialsPath)
  return first
}

/** Returns the contents of `credentials.json`, or null if the operator has deleted the file or it cannot be read. */
export function readCredentials(
  dataDir: string,
): { readonly baseUrl: string; readonly personalKey: string } | null {
  const { base_url: baseUrl, personal_key: personalKey } = credentialsIn(dataDir) ?? {}
  if (typeof baseUrl !== 'string' || typeof personalKey !== 'string') return null
  return { baseUrl, personalKey }
}

function credentialsIn(dataDir: string): Readonly<Record<string, unknown>> | null {
  try {
    const content: unknown = JSON.parse(readFileSync(joinPath(dataDir, CREDENTIALS_NAME), 'utf8'))
    return isObject(content) ? content : null
  } catch {
    return null
  }
}

function credentialsText(first: FirstStart): string {
  return textOf({
    base_url: first.baseUrl,
    project_id: first.projectId,
    project_key: first.projectKey,
    personal_key: first.personalKey,
  })
}

function textOf(content: object): string {
  return `${JSON.stringify(content, null, 2)}\n`
}

/** Describes which parts of the store a command needs, and how. */
export interface StoreRequest {
  readonly dataDir: string
  /** The parts that must exist and be sound. Other parts may be damaged. */
  readonly environments: readonly PartName[]
  /**
   * True if the command writes. It then locks the directory, so that no other command can write at the same time. A
   * daemon may still use the store.
   */
  readonly isWriting: boolean
  readonly clock?: Clock
}

/**
 * Opens the store, runs `action` with it, and closes it. Throws `OperatorError` if the store cannot be opened, and
 * whatever `action` throws.
 */
export async function openStore<T>(
  { dataDir, environments, isWriting, clock }: StoreRequest,
  action: (store: OpenStore) => T | Promise<T>,
): Promise<T> {
  for (const name of environments) requireStore(dataDir, name)
  const path = resolve(dataDir)
  const release = isWriting ? await lockForCommand(path) : () => {}
  const store = new OpenStore(path, clock)
  try {
    // Checks again, because a restore may have replaced the store before the directory was locked.
    if (isWriting) for (const name of environments) requireStore(path, name)
    return await action(store)
  } finally {
    await store.close()
    release()
  }
}

/**
 * Opens only the events, runs `action` with them, and closes them. It is used to export what is left of a damaged
 * store: nothing is written, and the other environments may be damaged or missing.
 */
export async function openEvents<T>(
  dataDir: string,
  action: (events: EventReader) => T | Promise<T>,
): Promise<T> {
  const store = new OpenStore(requireEnvironment(dataDir, 'events'))
  try {
    return await action(store.events)
  } finally {
    await store.close()
  }
}

/** Gives access to the parts of a store. A part is opened when it is first used. */
export class OpenStore {
  /** The absolute path of the data directory. */
  readonly path: string
  readonly #clock: Clock | undefined
  readonly #opened = new Map<string, { close(): Promise<void> }>()

  constructor(path: string, clock?: Clock) {
    this.path = path
    this.#clock = clock
  }

  /** The users, roles, projects, keys and the audit log. */
  get organization(): OrganizationStore {
    return this.#part('organization', () => new OrganizationStore(this.path, this.#clock))
  }

  /** The stored flags, and the changes that are scheduled for them. */
  get flags(): FlagStore {
    return this.#part('flags', () => new FlagStore(this.path))
  }

  /** The stored persons, groups and cohorts that flag decisions need. */
  get decisions(): DecisionSourceReader {
    return this.#part('decisions', () => new DecisionSourceReader(this.path))
  }

  /** The events, opened only for reading. */
  get events(): EventReader {
    return this.#part('events', () => new EventReader({ dataDir: this.path, isReadOnly: true }))
  }

  /** The log, opened only for reading. */
  get log(): LogReader {
    return this.#part('log', () => new LogReader({ dataDir: this.path }))
  }

  /** Returns all flags of all projects without changing anything. Throws `DamagedRecordError`. */
  readFlags(): Promise<StoredFlags> {
    return readStoredFlags(this.path)
  }

  async close(): Promise<void> {
    for (const part of this.#opened.values()) await part.close()
  }

  #part<T extends { close(): Promise<void> }>(name: string, open: () => T): T {
    // If the part exists, an earlier call with the same name, and therefore the same type, has created it.
    const part = (this.#opened.get(name) as T | undefined) ?? open()
    this.#opened.set(name, part)
    return part
  }
}

/**
 * Returns the position in the shared log up to which the store in a directory contains all events, or null if it
 * follows no shared log. Throws `DamagedRecordError`.
 */
export function readOrigin(dataDir: string): LogOrigin | null {
  const tables = ['shared_log']
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables })
  try {
    return loadOrigin(environment.table('shared_log'))
  } finally {
    // The promise need not be awaited: `close` closes the environment before it returns, and the promise only waits for
    // writes, of which there were none.
    void environment.close()
  }
}

/**
 * Stores the position in the shared log. If `origin` is null, removes the position: the directory then belongs to a
 * single machine. No process may be processing events in this store.
 */
export function writeOrigin(dataDir: string, origin: LogOrigin | null): void {
  const tables = ['shared_log']
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables })
  try {
    const table = environment.table('shared_log')
    environment.write(() => (origin === null ? clearOrigin(table) : storeOrigin(table, origin)))
  } finally {
    // The promise need not be awaited: `close` closes the environment before it returns, and the write has already
    // ended.
    void environment.close()
  }
}

/**
 * Assigns a partition of a cluster to a directory. If the directory already has a partition, only checks that it is the
 * same. The assignment is permanent, because blocks of another partition would be mistaken for the next blocks of this
 * one. Throws `OperatorError`.
 */
export function claimPartition(dataDir: string, partition: number): void {
  const origin = readOrigin(dataDir)
  // A directory without an origin has no events here: cluster/one-box.ts has already given an origin to the events of a
  // single machine.
  if (origin === null && readProcessedPosition(dataDir) > 0) {
    throw new TypeError('the events of a single machine must be converted first')
  }
  if (origin === null && partition !== 0) {
    writeOrigin(dataDir, { incarnation: '', sequence: 0, places: {}, partition })
  }
  const { partition: stored = 0 } = origin ?? { partition }
  if (stored === partition) return
  const how = `Start it with --partitions ${stored}, or use an empty directory.`
  throw new OperatorError(`${dataDir} stores partition ${stored}, not ${partition}. ${how}`)
}
