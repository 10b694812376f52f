/**
 * The ways to open the store of a data directory: for a daemon, filled at the first start, and for
 * one command, beside a running daemon or without one.
 *
 * The first start fills an empty directory with organization, owner, project 1 and its keys, and
 * writes the keys to `credentials.json` for the operator. The store keeps only a hash of the
 * personal key, so the file is on the disk before the key is valid.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join as joinPath, resolve } from 'node:path'
import { type Clock, SYSTEM_CLOCK } from '../base/clock.ts'
import { publishDraft, writeDraft, writeDurably } from '../base/durable-file.ts'
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
import { DecisionSourceReader } from './identity/decision-sources.ts'
import { Environment } from './lmdb/environment.ts'
import { EVENTS_ENVIRONMENT } from './lmdb/keys.ts'
import { clearOrigin, loadOrigin, storeOrigin } from './lmdb/shared-position.ts'
import { LogReader } from './log/event-log.ts'
import { EventReader } from './warehouse/read/event-reader.ts'

const CREDENTIALS_NAME = 'credentials.json'
/** What the operator is told once. */
export interface FirstStart extends FirstKeys {
  readonly baseUrl: string
  /** Absolute path of the file that holds all this. */
  readonly credentialsPath: string
}

/** A data directory that has what a daemon needs, and is locked until it is released. */
export interface FilledDataDir {
  readonly dataDir: DataDir
  /** Null when it was filled before. */
  readonly first: FirstStart | null
}

/**
 * In a cluster: finds out whether there is a catalogue already and takes it over, or calls `fill`, which tells
 * whether it made one. Answers whether what it made is the one of the cluster.
 */
export type JoinCatalogue = (fill: () => boolean, path: string) => Promise<boolean>

/**
 * Opens the data directory, and creates it and what belongs into it; a start that was cut short is
 * completed. Throws `OperatorError` when the directory is in use, damaged or on a network file
 * system, and `ServiceError` for preset keys that are no keys.
 */
export async function openFilled(
  settings: Settings,
  clock: Clock = SYSTEM_CLOCK,
  join: JoinCatalogue = fillAlone,
): Promise<FilledDataDir> {
  return open(settings, clock, join, false)
}

/** The same for `tenrec dev`, whose keys everybody knows. */
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
      if (!isForDevelopment) refuseThrowAway(store, dataDir.path)
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

/** As `openFilled`, and releases it. Null when it was filled before. */
export async function initialise(
  settings: Settings,
  clock: Clock = SYSTEM_CLOCK,
): Promise<FirstStart | null> {
  const { dataDir, first } = await openFilled(settings, clock)
  dataDir.release()
  return first
}

/**
 * Writes the address at which the daemon really listens, once it is known. Answers what is now
 * true.
 */
export function correctBaseUrl(first: FirstStart, baseUrl: string): FirstStart {
  if (first.baseUrl === baseUrl) return first
  const corrected = { ...first, baseUrl }
  writeDurably(first.credentialsPath, credentialsText(corrected))
  return corrected
}

/** Keys that everybody knows open a daemon to everybody. Throws `UsageError`. */
function refusePublicKeys({ bootstrapProjectKey, bootstrapPersonalKey }: Settings): void {
  const keys = { project: bootstrapProjectKey, personal: bootstrapPersonalKey }
  for (const [kind, key] of Object.entries(keys)) {
    if (key === null || !isDevelopmentKey(key)) continue
    throw new UsageError(
      `the preset ${kind} key is that of 'tenrec dev', which everybody knows: choose another`,
    )
  }
}

/** A copy or a leftover of a directory of `tenrec dev` must not be served to others. Throws `OperatorError`. */
function refuseThrowAway(store: ProjectStore, path: string): void {
  if (!store.hasDevelopmentKey) return
  throw new OperatorError(
    `${path} belongs to 'tenrec dev', whose keys everybody knows: use another data directory`,
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

/** What `credentials.json` says; null when the operator has deleted it, or it cannot be read. */
export function readCredentials(
  dataDir: string,
): { readonly baseUrl: string; readonly personalKey: string } | null {
  let content: unknown
  try {
    content = JSON.parse(readFileSync(joinPath(dataDir, CREDENTIALS_NAME), 'utf8'))
  } catch {
    return null
  }
  if (!isObject(content)) return null
  const { base_url: baseUrl, personal_key: personalKey } = content
  if (typeof baseUrl !== 'string' || typeof personalKey !== 'string') return null
  return { baseUrl, personalKey }
}

function credentialsText(first: FirstStart): string {
  const content = {
    base_url: first.baseUrl,
    project_id: first.projectId,
    project_key: first.projectKey,
    personal_key: first.personalKey,
  }
  return `${JSON.stringify(content, null, 2)}\n`
}

/** What a command works with. */
export interface StoreRequest {
  readonly dataDir: string
  /** The parts that have to be fit for use. */
  readonly environments: readonly PartName[]
  /** Nobody but a daemon has the directory meanwhile. */
  readonly isWriting: boolean
  readonly clock?: Clock
}

/**
 * Runs `action` with the store and closes it. Throws `OperatorError` for a store that cannot be
 * opened, and what `action` throws.
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
    // Before the lock a restore may have replaced it.
    if (isWriting) for (const name of environments) requireStore(path, name)
    return await action(store)
  } finally {
    await store.close()
    release()
  }
}

/**
 * The same for the events alone, to get out what is left of a store: nothing is written, and the
 * other environments may be damaged or gone.
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

/** The parts of a store, each opened when it is first asked for. */
export class OpenStore {
  /** Absolute. */
  readonly path: string
  readonly #clock: Clock | undefined
  readonly #opened = new Map<string, { close(): Promise<void> }>()

  constructor(path: string, clock?: Clock) {
    this.path = path
    this.#clock = clock
  }

  /** Users, roles, projects, keys and the audit log. */
  get organization(): OrganizationStore {
    return this.#part('organization', () => new OrganizationStore(this.path, this.#clock))
  }

  get flags(): FlagStore {
    return this.#part('flags', () => new FlagStore(this.path))
  }

  /** What is stored about those for whom flags are decided. */
  get decisions(): DecisionSourceReader {
    return this.#part('decisions', () => new DecisionSourceReader(this.path))
  }

  /** For reading only. */
  get events(): EventReader {
    return this.#part('events', () => new EventReader({ dataDir: this.path, isReadOnly: true }))
  }

  /** For reading only. */
  get log(): LogReader {
    return this.#part('log', () => new LogReader({ dataDir: this.path }))
  }

  /** All flags of all projects, read without changing anything. Throws `DamagedRecordError`. */
  readFlags(): Promise<StoredFlags> {
    return readStoredFlags(this.path)
  }

  async close(): Promise<void> {
    for (const part of this.#opened.values()) await part.close()
  }

  #part<T extends { close(): Promise<void> }>(name: string, open: () => T): T {
    // What stands under a name was made by the same call.
    const part = (this.#opened.get(name) as T | undefined) ?? open()
    this.#opened.set(name, part)
    return part
  }
}

/** How far a directory has followed a log that several machines share; null: not at all. Throws `DamagedRecordError`. */
export function readOrigin(dataDir: string): LogOrigin | null {
  const tables = ['shared_log']
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables })
  try {
    return loadOrigin(environment.table('shared_log'))
  } finally {
    // Closing ends at once; what it returns only tells of writes, and there were none.
    void environment.close()
  }
}

/** Sets it; null: the directory is that of one box. Nobody may have the store open to process. */
export function writeOrigin(dataDir: string, origin: LogOrigin | null): void {
  const tables = ['shared_log']
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables })
  try {
    const table = environment.table('shared_log')
    environment.write(() => (origin === null ? clearOrigin(table) : storeOrigin(table, origin)))
  } finally {
    // As above; the write has ended.
    void environment.close()
  }
}

/**
 * Lets a directory store a partition of a cluster, or makes sure that it does: for ever, as blocks of another would be
 * taken for those that follow. Throws `OperatorError`.
 */
export function claimPartition(dataDir: string, partition: number): void {
  const origin = readOrigin(dataDir)
  // cluster/one-box.ts was there before.
  if (origin === null && readProcessedPosition(dataDir) > 0) {
    throw new TypeError('these events are of one box')
  }
  if (origin === null && partition !== 0) {
    writeOrigin(dataDir, { incarnation: '', sequence: 0, places: {}, partition })
  }
  const { partition: stored = 0 } = origin ?? { partition }
  if (stored === partition) return
  const how = `start it with --partitions ${stored}, or take an empty directory`
  throw new OperatorError(`${dataDir} stores partition ${stored}, not ${partition}: ${how}`)
}
