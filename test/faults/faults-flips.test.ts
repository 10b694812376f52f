/**
 * Tests single flipped bits in a data file: everywhere in the two meta pages and in the headers of pages, and at
 * regular distances in the rest. For each bit, either `verify` finds the fault, or no readable data changes. A daemon
 * on such a store answers, or ends with a line that names the file.
 *
 * FLIP_DENSITY=8 tests eight times as many positions. With a value of at least 1499, every single byte is tested, which
 * takes half an hour.
 *
 * @lane all
 */
import { spawn } from 'node:child_process'
import { closeSync, cpSync, openSync, readFileSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { PART_NAMES, readProcessedPosition } from '../../src/store/directory/data-dir.ts'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { logFolder, logNumbers, logPath } from '../../src/store/log/log-file.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { environmentDigest, logDigest } from '../fixtures/environment-digest.ts'
import { untilStored } from '../fixtures/event-pages.ts'
import { closeConnections, postJson } from '../fixtures/exact-client.ts'
import { block } from '../fixtures/faults/named-log.ts'

const PAGE_BYTES = 4096
const META_BYTES = 192
const HEADER_BYTES = 24
const EVENTS = 60
const DENSITY = Number(process.env['FLIP_DENSITY'] ?? 1)
/** Distances between tested positions. None divides the size of a page. */
const META_STRIDE = Math.max(1, Math.round(3 / DENSITY))
const HEADER_STRIDE = Math.max(1, Math.round(7 / DENSITY))
const OTHER_STRIDE = Math.max(1, Math.round(1499 / DENSITY))
const DAEMONS = 6
/** Flags, ends of the node table, the first node, the page number. */
const TRUSTED = [18, 20, 22, 0, 25, 8]
const SERVE_MS = 15_000
const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

t.teardown(closeConnections)
t.setTimeout(Math.max(240_000, DENSITY * 240_000))

const store = join(t.testdir(), 'data')

t.before(async () => {
  const daemon = await spawnDaemon({ dataDir: store })
  const batch = Array.from({ length: EVENTS }, (_, index) => ({
    event: index % 3 === 0 ? '$identify' : 'opened',
    distinct_id: `person ${index % 7}`,
    properties: { index, $groups: { company: `c${index % 3}` } },
    ...(index % 3 === 0 ? { $set: { email: `a${index}@example.com` } } : {}),
  }))
  await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, EVENTS)
  await daemon.stop()
  const log = new LogAppender({ dataDir: store, processed: readProcessedPosition(store) })
  for (const bytes of [10, 9000, 400, 50_000]) log.append([block('waits', bytes)], 0)
  await log.close()
})

/** For the log, the file with the most written bytes. */
function fileOf(dataDir: string, name: string): string {
  if (name !== 'log') return join(dataDir, name, 'data.mdb')
  const files = logNumbers(logFolder(dataDir)).map((number) => logPath(logFolder(dataDir), number))
  return files.reduce((most, file) => (bytesOf(file) > bytesOf(most) ? file : most))
}

/** Returns the written part of a file. */
function bytesOf(file: string): number {
  return readFileSync(file).findLastIndex((byte) => byte !== 0) + 1
}

function digestOf(dataDir: string, name: string): Promise<string> {
  return name === 'log' ? logDigest(dataDir) : environmentDigest(dataDir, name)
}

function flip(file: string, position: number): void {
  const descriptor = openSync(file, 'r+')
  const byte = Buffer.alloc(1)
  readSync(descriptor, byte, 0, 1, position)
  byte[0] = (byte[0] ?? 0) ^ (1 << (position % 8))
  writeSync(descriptor, byte, 0, 1, position)
  closeSync(descriptor)
}

/** Positions in a data file of a given size. */
function places(bytes: number): readonly number[] {
  const chosen = new Set<number>()
  for (let offset = 0; offset < META_BYTES; offset += META_STRIDE) {
    chosen.add(offset).add(PAGE_BYTES + offset)
  }
  for (let index = 0; index < (bytes / PAGE_BYTES) * HEADER_BYTES; index += HEADER_STRIDE) {
    chosen.add(Math.floor(index / HEADER_BYTES) * PAGE_BYTES + (index % HEADER_BYTES))
  }
  for (let position = 0; position < bytes; position += OTHER_STRIDE) chosen.add(position)
  return [...chosen].filter((position) => position < bytes)
}

/** Returns the damage that a check of the store reports, or null. */
async function complaint(dataDir: string): Promise<string | null> {
  try {
    const [finding] = (await verifyStore(dataDir, () => undefined)).findings
    return finding === undefined ? null : finding.file
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

for (const name of PART_NAMES) {
  t.test(`a flipped bit of ${name} is found by verify, or changes nothing`, async (t) => {
    const file = fileOf(store, name)
    const original = await digestOf(store, name)
    const counts = { found: 0, harmless: 0 }
    const missed: string[] = []
    const unnamed: string[] = []
    for (const position of places(bytesOf(file))) {
      flip(file, position)
      const said = await complaint(store)
      if (said !== null) counts.found++
      else if ((await digestOf(store, name)) === original) counts.harmless++
      else missed.push(`byte ${position}`)
      if (said?.includes(name === 'log' ? logFolder(store) : file) === false)
        unnamed.push(`byte ${position}: ${said}`)
      flip(file, position)
    }
    t.same(missed, [], `${counts.found} found, ${counts.harmless} harmless`)
    t.same(unnamed, [], 'the file is named each time')
    t.equal(await complaint(store), null)
    t.ok(counts.found > 40)
  })
}

/** Returns `null` if the daemon serves, else its exit and output. */
function serveOn(dataDir: string): Promise<{ code: number | null; said: string } | null> {
  const words = [MAIN, 'serve', '--data-dir', dataDir, '--port', '0', '--log-format', 'json']
  const env = { PATH: process.env['PATH'] ?? '' }
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'pipe'], env })
  let said = ''
  return new Promise((resolve) => {
    const keep = (chunk: Buffer): void => {
      said += chunk.toString()
    }
    const take = (chunk: Buffer): void => {
      keep(chunk)
      const url = /"url":"([^"]+)"/.exec(said)?.[1]
      if (!said.includes('"msg":"ready"') || url === undefined) return
      child.stdout.removeAllListeners('data')
      child.stdout.on('data', keep)
      void useAll(url).then(() => child.kill('SIGTERM'))
    }
    child.stdout.on('data', take)
    child.stderr.on('data', keep)
    const timer = setTimeout(() => child.kill('SIGKILL'), SERVE_MS * 4)
    child.on('close', (code) => {
      clearTimeout(timer)
      resolve(code === 0 ? null : { code, said })
    })
  })
}

/** Sends requests that read most of a store. Any answer is accepted. */
async function useAll(url: string): Promise<void> {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const signal = AbortSignal.timeout(SERVE_MS)
  const body = JSON.stringify({ api_key: PROJECT_KEY, distinct_id: 'person 1', event: 'again' })
  const asked = [
    ...['events/', 'persons/', 'feature_flags/', 'persons/trends/?entity_id=opened'].map((path) =>
      fetch(`${url}/api/projects/1/${path}`, { headers, signal }),
    ),
    fetch(`${url}/flags/?v=2`, { method: 'POST', body, signal }),
    fetch(`${url}/capture/`, { method: 'POST', body, signal }),
  ]
  await Promise.allSettled(asked)
  await new Promise((resolve) => setTimeout(resolve, 400))
}

function checkEnding(
  t: Test,
  where: string,
  named: string,
  ending: { code: number | null; said: string } | null,
): void {
  if (ending === null) {
    t.pass(`${where}: it serves`)
    return
  }
  const { code, said } = ending
  t.ok(code === 1 || code === 3 || code === 78, `${where}: the daemon ends with ${code}`)
  t.match(said, named, `${where}: the message names the file`)
}

t.test('a daemon on a store with a flipped bit serves, or ends and names the file', async (t) => {
  for (let index = 0; index < DAEMONS * DENSITY; index++) {
    const dataDir = join(t.testdir({ [`s${index}`]: {} }), `s${index}`)
    cpSync(store, dataDir, { recursive: true })
    const name = PART_NAMES[index % PART_NAMES.length] ?? 'events'
    const file = fileOf(dataDir, name)
    // The header of an arbitrary page, which LMDB trusts most.
    const page = 2 + ((index * 5) % (Math.ceil(bytesOf(file) / PAGE_BYTES) - 2))
    const position = page * PAGE_BYTES + (TRUSTED[index % TRUSTED.length] ?? 0)
    flip(file, position)
    const named = name === 'log' ? file : 'data.mdb'
    checkEnding(t, `${name}, byte ${position}`, named, await serveOn(dataDir))
  }
})
