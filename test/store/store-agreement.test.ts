/**
 * Tests that the three environments of a store record each other's state. An environment that is older than the others
 * is refused with a list of the missing data, and no crash or restore creates a store that disagrees.
 *
 * @lane all
 */
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import { LogBlockWriter, ParsedEvents } from '../../src/rules/capture/log-block.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import {
  DataDir,
  ENVIRONMENT_NAMES,
  PART_NAMES,
  readProcessedPosition,
  requireStore,
} from '../../src/store/directory/data-dir.ts'
import { findDisagreement, judgeClaims } from '../../src/store/directory/store-agreement.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { stateKey } from '../../src/store/lmdb/keys.ts'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { logFolder } from '../../src/store/log/log-file.ts'
import { lookAtLog } from '../../src/store/log/log-inspection.ts'
import { createBackup, restoreBackup } from '../../src/store/maintenance/backup/backups.ts'
import {
  backupNames,
  encodeManifest,
  manifestPath,
  readManifest,
} from '../../src/store/maintenance/backup/manifest.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { Differences } from '../fixtures/differences.ts'
import { EventLedger, seededRandom } from '../fixtures/event-ledger.ts'
import { closeConnections } from '../fixtures/exact-client.ts'
import { turnToFormat2 } from '../fixtures/faults/old-store.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'
import { refusal } from '../fixtures/refusal.ts'

const EVERYTHING_MS = 3_600_000
const NOW_MS = Date.UTC(2026, 0, 31, 12)

t.teardown(closeConnections)
t.setTimeout(300_000)

/** Creates a store with an organization in its own folder, and closes it. */
async function newStore(path: string): Promise<void> {
  const dir = await DataDir.open(path)
  const store = new ProjectStore(path)
  store.bootstrap({ projectKey: PROJECT_KEY, personalKey: PERSONAL_KEY })
  await store.close()
  dir.release()
}

interface Life {
  /** Accepts blocks of one event each. */
  readonly blocks: number
  /** Accepts one more block, which is large and repeats itself, with this number of events. */
  readonly repeated?: number
  readonly isProcessed?: boolean
  readonly isTrimmed?: boolean
  readonly isFlushDeferred?: boolean
}

/** Runs what a daemon does between its start and its end. */
async function live(path: string, life: Life): Promise<void> {
  const {
    blocks,
    repeated = 0,
    isProcessed = true,
    isTrimmed = true,
    isFlushDeferred = false,
  } = life
  const dir = await DataDir.open(path)
  const settings = { ...threadSettings(path), isFlushDeferred }
  const appender = new LogAppender({ ...settings, processed: readProcessedPosition(path) })
  const processor = openProcessor(settings, (error) => {
    throw error
  })
  for (let index = 0; index < blocks; index++) appender.append([block()], 0)
  if (repeated > 0) appender.append([block(), block(repeated, 'x'.repeat(100_000))], 0)
  if (isProcessed) {
    const { processed } = processor.run(EVERYTHING_MS)
    if (isTrimmed) appender.append([], processed)
  }
  await processor.close()
  await appender.close()
  dir.release()
}

function block(events = 1, pad = ''): Buffer {
  const writer = new LogBlockWriter(Buffer.allocUnsafe(4096))
  const text = JSON.stringify({ event: 'opened', distinct_id: 'someone', properties: { pad } })
  const texts = Array.from({ length: events }, () => text)
  writer.add(
    { projectId: 1, flags: 0, arrivedAtMs: NOW_MS, sentAtMs: Number.NaN, address: '' },
    new ParsedEvents(
      texts,
      texts.map(() => null),
    ),
  )
  return writer.finish()
}

async function changeFlags(path: string): Promise<void> {
  const store = new ProjectStore(path)
  store.createProject({ name: 'Another' })
  await store.close()
}

async function open(path: string): Promise<void> {
  const dir = await DataDir.open(path)
  dir.release()
}

function nothing(): void {}

function backupOf(dataDir: string, folder: string) {
  return createBackup({ dataDir, folder, nowMs: NOW_MS, keep: null, onProgress: nothing })
}

/** Runs everything that must refuse a store with a reason and change nothing. */
async function checkRefused(t: Test, path: string, name: string, what: RegExp): Promise<void> {
  const files = dataFiles(path)
  const place = name === 'log' ? join(path, 'log') : join(path, name, 'data.mdb')
  const before = files.map((file) => [readFileSync(file), statSync(file).mtimeMs] as const)
  const error = await refusal(open(path))
  t.equal(error.exitCode, 78)
  t.ok(error.message.startsWith(place), error.message)
  t.match(error.message, what)
  t.match(error.message, /Restore the whole data directory from a backup\. Nothing was changed\.$/)
  for (const each of PART_NAMES) {
    t.throws(() => requireStore(path, each), { exitCode: 78, message: what })
  }
  const verified = await runCommand('verify', '--data-dir', path)
  t.equal(verified.exitCode, 3)
  t.ok(verified.out.startsWith(place), verified.out)
  t.match(verified.out, what)
  const differences = new Differences()
  for (const [index, file] of files.entries()) {
    const [bytes = Buffer.alloc(0), mtimeMs] = before[index] ?? []
    differences.ok(readFileSync(file).equals(bytes), `the bytes of ${file} are as before`)
    differences.equal(statSync(file).mtimeMs, mtimeMs, `the time of ${file} is as before`)
  }
  t.strictSame(differences.list(), [], 'no file is changed')
}

/** Returns every file that holds data. */
function dataFiles(path: string): readonly string[] {
  const environments = ENVIRONMENT_NAMES.map((name) => join(path, name, 'data.mdb'))
  return [...environments, ...readdirSync(join(path, 'log')).map((name) => join(path, 'log', name))]
}

/** Copies one environment, runs an action, and puts the copy back. */
async function turnBack(path: string, name: string, action: () => Promise<void>): Promise<void> {
  const copy = `${path}-copy`
  cpSync(join(path, name), copy, { recursive: true })
  await action()
  rmSync(join(path, name), { recursive: true })
  cpSync(copy, join(path, name), { recursive: true })
  rmSync(copy, { recursive: true })
}

t.test('opening a data directory counts the events that wait in the log', async (t) => {
  const path = join(t.testdir({ waiting: {} }), 'waiting')
  await newStore(path)
  const waiting = async (): Promise<number> => {
    const dir = await DataDir.open(path)
    dir.release()
    return dir.waitingEvents
  }
  t.equal(await waiting(), 0)
  await live(path, { blocks: 3, isTrimmed: false })
  t.equal(await waiting(), 0, 'processed events do not count, even if the log still has them')
  await live(path, { blocks: 4, isProcessed: false })
  t.equal(await waiting(), 4)
  await live(path, { blocks: 0, repeated: 40, isProcessed: false })
  t.equal(await waiting(), 45, 'the events of a deflated block count, too')
  await live(path, { blocks: 1 })
  t.equal(await waiting(), 0)
})

t.test('bytes that are no block count as no events', async (t) => {
  const path = join(t.testdir({ torn: {} }), 'torn')
  await newStore(path)
  await live(path, { blocks: 3, isProcessed: false })
  const [name = ''] = readdirSync(logFolder(path))
  const file = join(logFolder(path), name)
  const bytes = readFileSync(file)
  // The beginning of the last block is replaced by the text of an earlier use of the file.
  const start = bytes.lastIndexOf('TNL1')
  bytes.write('{"event":"old"}}', start)
  writeFileSync(file, bytes)
  t.equal(lookAtLog(path, () => 0, true).waitingEvents, 2)
})

t.test('an environment older than the others is named with the missing data', async (t) => {
  const agreed = {
    log: { last: 10, processed: 8, missing: null, damage: null, waitingEvents: 2 },
    witness: { logThrough: 10, flagsVersion: 3 },
    flagsVersion: 3,
  }
  t.equal(judgeClaims(agreed), null)
  t.equal(judgeClaims({ ...agreed, witness: { logThrough: 0, flagsVersion: 0 } }), null)
  t.match(judgeClaims({ ...agreed, log: { ...agreed.log, missing: { first: 9, last: 9 } } }), {
    environment: 'events',
    what: /up to block 8, .* no longer has the blocks from 9 to 9/,
  })
  t.match(judgeClaims({ ...agreed, witness: { logThrough: 12, flagsVersion: 3 } }), {
    environment: 'log',
    what: /ends with block 10, .* up to block 12 are stored; what was accepted after block 12 is missing/,
  })
  t.match(judgeClaims({ ...agreed, flagsVersion: 1 }), {
    environment: 'flags',
    what: /version 1, but version 3 existed; .* from version 2 on are missing/,
  })
})

t.test('older events are refused if the log no longer has the missing blocks', async (t) => {
  for (const [index, isTrimmed] of [true, false].entries()) {
    const path = join(t.testdir({ [`s${index}`]: {} }), `s${index}`)
    await newStore(path)
    await live(path, { blocks: 3 })
    await turnBack(path, 'events', async () => {
      await live(path, { blocks: 4, isTrimmed })
      // The log is not empty, and begins after the gap.
      if (isTrimmed) await live(path, { blocks: 2, isProcessed: false })
    })
    if (isTrimmed) await checkRefused(t, path, 'events', /up to block 3, .* the blocks from 4 to 7/)
    else {
      await live(path, { blocks: 0 })
      t.equal(readProcessedPosition(path), 7, 'blocks that the log still has are processed again')
    }
  }
})

t.test('older events are refused also if the log is empty', async (t) => {
  const path = join(t.testdir(), 'data')
  await newStore(path)
  await live(path, { blocks: 3 })
  await turnBack(path, 'events', () => live(path, { blocks: 4 }))
  await checkRefused(t, path, 'events', /from 4 to 7/)
})

t.test('an older log is refused, empty or not', async (t) => {
  for (const [index, isTrimmed] of [true, false].entries()) {
    const path = join(t.testdir({ [`s${index}`]: {} }), `s${index}`)
    await newStore(path)
    await live(path, { blocks: 3, isTrimmed })
    await turnBack(path, 'log', () => live(path, { blocks: 4 }))
    await checkRefused(t, path, 'log', /ends with block 3, .* up to block 7 are stored/)
  }
})

t.test('older flags are refused, also if no event arrived since', async (t) => {
  for (const [index, blocks] of [0, 2].entries()) {
    const path = join(t.testdir({ [`s${index}`]: {} }), `s${index}`)
    await newStore(path)
    await live(path, { blocks: 1 })
    await turnBack(path, 'flags', async () => {
      await changeFlags(path)
      await live(path, { blocks })
    })
    await checkRefused(t, path, 'flags', /version 1, but version 2 existed/)
  }
})

t.test('a log with deferred flushes may lose its end', async (t) => {
  const path = join(t.testdir(), 'data')
  await newStore(path)
  await live(path, { blocks: 3, isFlushDeferred: true })
  await turnBack(path, 'log', () => live(path, { blocks: 4, isFlushDeferred: true }))
  await live(path, { blocks: 2 })
  t.equal(readProcessedPosition(path), 9, 'no sequence number is used twice')
  t.same((await verifyStore(path, nothing)).findings, [])
  await turnBack(path, 'log', () => live(path, { blocks: 1 }))
  await checkRefused(t, path, 'log', /ends with block 9, .* up to block 10 are stored/)
})

t.test('a store of an earlier version opens, continues, and agrees from then on', async (t) => {
  const path = join(t.testdir(), 'data')
  await newStore(path)
  await live(path, { blocks: 3 })
  await forgetWitness(t, path)
  await open(path)
  t.equal(requireStore(path, 'events'), path)
  t.same((await verifyStore(path, nothing)).findings, [])
  await turnBack(path, 'events', () => live(path, { blocks: 2 }))
  await checkRefused(t, path, 'events', /from 4 to 5/)
})

t.test('a downgrade to an earlier version and a later upgrade work', async (t) => {
  const path = join(t.testdir(), 'data')
  await newStore(path)
  await live(path, { blocks: 3 })
  await live(path, { blocks: 4, isTrimmed: false })
  // All that the earlier version does to the log after processing. The recorded end stays.
  await turnToFormat2(path, { firstKept: 8, end: 7 })
  await live(path, { blocks: 2 })
  t.equal(readProcessedPosition(path), 9)
})

t.test('a store that is unreadable for a moment is not reported as damaged', async (t) => {
  const path = join(t.testdir(), 'data')
  await newStore(path)
  rmSync(join(path, 'flags'), { recursive: true })
  const error = await refusal(Promise.resolve().then(() => findDisagreement(path)))
  t.equal(error.exitCode, 1)
  t.match(error.message, /Cannot read .*flags.data\.mdb: /)
})

/** Removes from a store everything that an earlier version did not write. */
async function forgetWitness(t: Test, path: string): Promise<void> {
  const events = new Environment({ dataDir: path, name: 'events', tables: ['state'] })
  events.write(() => {
    for (const name of ['log_through', 'flags_version'] as const) {
      t.ok(events.table('state').removeSync(stateKey(name)), `${name} was there`)
    }
  })
  await events.close()
  await turnToFormat2(path, { end: null })
}

t.test('a store that does not agree is not backed up', async (t) => {
  const root = t.testdir({})
  const path = join(root, 'data')
  await newStore(path)
  await live(path, { blocks: 3 })
  await turnBack(path, 'log', () => live(path, { blocks: 4 }))
  const folder = join(root, 'backups')
  t.match(await refusal(backupOf(path, folder)), { exitCode: 78, message: /ends with block 3/ })
  t.same(backupNames(folder), [], 'it does not take the place of a good one')
})

t.test(
  'a backup with a log older than its events is restored to a store that agrees',
  async (t) => {
    const root = t.testdir({})
    const [path, folder, restored] = ['data', 'backups', 'restored'].map((name) =>
      join(root, name),
    ) as [string, string, string]
    await newStore(path)
    await live(path, { blocks: 3 })
    const before = readManifest(folder, (await backupOf(path, folder)).name)
    await live(path, { blocks: 4 })
    const { name } = await backupOf(path, folder)
    const after = readManifest(folder, name)
    // As if blocks were accepted and processed between the reads of the two environments.
    const environments = { ...after.environments, log: before.environments.log }
    writeFileSync(manifestPath(folder, name), encodeManifest({ ...after, environments }))
    const restore = { folder, name, dataDir: restored, isForced: false, onProgress: nothing }
    await restoreBackup(restore)
    t.equal(readProcessedPosition(restored), 7)
    t.same((await verifyStore(restored, nothing)).findings, [])
    await live(restored, { blocks: 1 })
    t.equal(readProcessedPosition(restored), 8, 'no sequence number is used twice')
    await turnBack(restored, 'log', () => live(restored, { blocks: 1 }))
    await checkRefused(t, restored, 'log', /ends with block 8/)
  },
)

t.test('verify next to a daemon under load finds nothing, and writes nothing', async (t) => {
  const path = join(t.testdir(), 'data')
  const daemon = await spawnDaemon({ dataDir: path })
  const ledger = new EventLedger(seededRandom(5))
  let isOver = false
  const client = ledger.drive(daemon.url, PROJECT_KEY, () => isOver)
  for (let round = 0; round < 15; round++) {
    t.same((await verifyStore(path, nothing)).findings, [])
    t.equal(requireStore(path, 'events'), path)
  }
  isOver = true
  await client
  await daemon.kill()
  const files = dataFiles(path)
  const before = files.map((file) => [
    readFileSync(file).toString('latin1'),
    statSync(file).mtimeMs,
  ])
  t.same((await verifyStore(path, nothing)).findings, [], 'nor after kill -9')
  const after = files.map((file) => [readFileSync(file).toString('latin1'), statSync(file).mtimeMs])
  t.strictSame(after, before)
})

t.test('after kill -9 under load, older events are refused', async (t) => {
  const path = join(t.testdir(), 'data')
  const first = await spawnDaemon({ dataDir: path })
  const ledger = new EventLedger(seededRandom(6))
  let endsAtMs = performance.now() + 300
  await ledger.drive(first.url, PROJECT_KEY, () => performance.now() > endsAtMs)
  await first.stop()
  const processed = readProcessedPosition(path)
  const isForgotten = () => lookAtLog(path, () => processed, false).missing !== null
  await turnBack(path, 'events', async () => {
    const second = await spawnDaemon({ dataDir: path })
    // On a busy machine the log may take longer to release processed blocks.
    do {
      endsAtMs = performance.now() + 500
      await ledger.drive(second.url, PROJECT_KEY, () => performance.now() > endsAtMs)
    } while (!isForgotten())
    await second.kill()
  })
  await checkRefused(t, path, 'events', /the log no longer has the blocks from \d+ to \d+/)
})
