/**
 * Digests of the content of a store, so that stores can be compared. They are computed from the events as `tenrec
 * export` writes them, in order, and from the persons as the API lists them. The order and the time of arrival are left
 * out, because they belong to a store and not to an event.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { type Daemon, PERSONAL_KEY } from '../daemon.ts'
import { repositoryFolder } from '../machine.ts'

/** The values that two stores must have in common. */
export interface Digest {
  readonly count: number
  /** The first 16 hex digits of the SHA-256. */
  readonly hash: string
}

/** Returns whether an event is included, given its name and its distinct_id. */
export type EventTest = (name: string, distinctId: string) => boolean

/** A person as the API shows it, with the members that the digest contains. */
export interface ListedPerson {
  readonly uuid: string
  readonly distinct_ids: readonly string[]
  readonly properties: Readonly<Record<string, unknown>>
  readonly created_at: string
}

const PAGE_PERSONS = 1000
const TEXT = '"((?:[^"\\\\]|\\\\.)*)"'
const LINE = new RegExp(`^\\{"id":\\d+,(.*?"event":${TEXT},"distinct_id":${TEXT},.*)$`, 's')

/** Returns the digests of the events in an exported file, one for each test. */
export function digestFile(path: string, tests: readonly EventTest[]): Promise<readonly Digest[]> {
  return digestLines(createReadStream(path, { highWaterMark: 1024 * 1024 }), tests)
}

/** Exports the events of a store to a temporary file, and returns their digests. */
export async function digestStore(
  dataDir: string,
  tests: readonly EventTest[],
): Promise<readonly Digest[]> {
  const words = [join(repositoryFolder(), 'dist', 'main.js'), 'export', '--data-dir', dataDir]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'ignore'] })
  const kill = (): void => void child.kill('SIGKILL')
  process.once('exit', kill)
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const digests = await digestLines(child.stdout, tests)
  const code = await ended
  process.removeListener('exit', kill)
  if (code !== 0) throw new Error(`tenrec export ended with ${code}`)
  return digests
}

async function digestLines(
  input: Readable,
  tests: readonly EventTest[],
): Promise<readonly Digest[]> {
  const hashes = tests.map(() => ({ hash: createHash('sha256'), count: 0 }))
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    const [, rest = '', name = '', distinctId = ''] = LINE.exec(line) ?? []
    if (rest === '') throw new Error(`the export has an unexpected line: ${line.slice(0, 200)}`)
    const text = rest.replace(/"created_at":"[^"]*",/, '')
    for (const [index, of] of hashes.entries()) {
      if (tests[index]?.(name, distinctId) !== true) continue
      of.hash.update(text).update('\n')
      of.count++
    }
  }
  return hashes.map(({ hash, count }) => ({ count, hash: hash.digest('hex').slice(0, 16) }))
}

/** Returns all persons of the first project, ordered by uuid. */
export async function listPersons(daemon: Daemon): Promise<readonly ListedPerson[]> {
  const persons: ListedPerson[] = []
  let next: string | null = `${daemon.url}/api/projects/1/persons/?limit=${PAGE_PERSONS}`
  while (next !== null) {
    const response: Response = await fetch(next, {
      headers: { authorization: `Bearer ${PERSONAL_KEY}` },
    })
    if (!response.ok) throw new Error(`the list of persons answered ${response.status}`)
    // docs/COMPATIBILITY.md defines this format. If the format were different, the digest would be different.
    const page = (await response.json()) as {
      readonly next: string | null
      readonly results: readonly ListedPerson[]
    }
    persons.push(...page.results)
    next = page.next
  }
  return persons.sort((a, b) => (a.uuid < b.uuid ? -1 : 1))
}

/** Returns the digest of the uuids, ids, properties and creation times of persons. */
export function digestPersons(persons: readonly ListedPerson[]): Digest {
  const hash = createHash('sha256')
  for (const { uuid, distinct_ids, properties, created_at } of persons) {
    const sorted = Object.entries(properties).sort(([a], [b]) => (a < b ? -1 : 1))
    hash.update(`${JSON.stringify([uuid, [...distinct_ids].sort(), sorted, created_at])}\n`)
  }
  return { count: persons.length, hash: hash.digest('hex').slice(0, 16) }
}

/** Throws an error that names both sides unless two digests are equal. */
export function expectSameDigest(what: string, found: Digest, wanted: Digest): void {
  if (found.count === wanted.count && found.hash === wanted.hash) return
  const [left, right] = [found, wanted].map(({ count, hash }) => `${count} (${hash})`)
  throw new Error(`${what}: ${left} instead of ${right}`)
}

/** Returns the number of bytes of all files in a folder. */
export function folderBytes(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => statSync(join(folder, name)))
    .reduce((sum, stat) => sum + (stat.isFile() ? stat.size : 0), 0)
}
