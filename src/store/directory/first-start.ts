/**
 * The first start: fills an empty data directory with organization, owner, project 1 and its keys, and
 * writes the keys to `credentials.json` for the operator. The store keeps only a hash of the personal
 * key, so the file is on the disk before the key is valid.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { publishDraft, writeDraft, writeDurably } from '../../base/durable-file.ts'
import { isObject } from '../../base/json.ts'
import { baseUrlOf } from '../../config/base-url.ts'
import type { Settings } from '../../config/settings.ts'
import { generatePersonalKey, generateProjectKey } from '../catalog/key-store.ts'
import { type FirstKeys, ProjectStore } from '../catalog/project-store.ts'
import { DataDir } from './data-dir.ts'
import { requireLocalFileSystem } from './file-system.ts'

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
 * Opens the data directory, and creates it and what belongs into it; a start that was cut short is
 * completed. Throws `OperatorError` when the directory is in use, damaged or on a network file system, and
 * `ServiceError` for preset keys that are no keys.
 */
export async function openFilled(
  settings: Settings,
  clock: Clock = SYSTEM_CLOCK,
): Promise<FilledDataDir> {
  if (!settings.isNetworkDiskAllowed) requireLocalFileSystem(settings.dataDir)
  const dataDir = await DataDir.open(settings.dataDir)
  try {
    const store = new ProjectStore(dataDir.path, clock)
    try {
      return { dataDir, first: fill(store, dataDir.path, settings) }
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

/** Writes the address at which the daemon really listens, once it is known. Answers what is now true. */
export function correctBaseUrl(first: FirstStart, baseUrl: string): FirstStart {
  if (first.baseUrl === baseUrl) return first
  const corrected = { ...first, baseUrl }
  writeDurably(first.credentialsPath, credentialsText(corrected))
  return corrected
}

function fill(store: ProjectStore, path: string, settings: Settings): FirstStart | null {
  const credentialsPath = join(path, CREDENTIALS_NAME)
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
    content = JSON.parse(readFileSync(join(dataDir, CREDENTIALS_NAME), 'utf8'))
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
