/**
 * Tests a store with its log in LMDB (format 2). The start, `tenrec migrate` and a restore transfer unprocessed blocks
 * with their numbers, wherever they are interrupted, or refuse and change nothing.
 *
 * @lane quick alone
 */
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import { LogBlockWriter, ParsedEvents } from '../../src/rules/capture/log-block.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import {
  DataDir,
  FORMAT_VERSION,
  readFormat,
  readProcessedPosition,
  requireStore,
} from '../../src/store/directory/data-dir.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { LogAppender, LogReader } from '../../src/store/log/event-log.ts'
import { createBackup, restoreBackup } from '../../src/store/maintenance/backup/backups.ts'
import {
  encodeManifest,
  manifestPath,
  readManifest,
} from '../../src/store/maintenance/backup/manifest.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import { betweenSteps } from '../fixtures/faults/log-steps.ts'
import { turnToFormat2 } from '../fixtures/faults/old-store.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'
import { refusal } from '../fixtures/refusal.ts'

const NOW_MS = Date.UTC(2026, 0, 31, 12)
const EVERYTHING_MS = 3_600_000

t.setTimeout(300_000)

function nothing(): void {}

function block(name: string): Buffer {
  const writer = new LogBlockWriter(Buffer.allocUnsafe(4096))
  const header = { projectId: 1, flags: 0, arrivedAtMs: NOW_MS, sentAtMs: Number.NaN, address: '' }
  const text = JSON.stringify({ event: name, distinct_id: 'someone' })
  writer.add(header, new ParsedEvents([text], [null]))
  return writer.finish()
}

/** `accept` adds events while the processor exists, which records their number. */
async function processAll(path: string, accept: () => void = nothing): Promise<void> {
  const processor = openProcessor(threadSettings(path), (error) => {
    throw error
  })
  accept()
  processor.run(EVERYTHING_MS)
  await processor.close()
}

/** A store of format 2: blocks 1 to 3 are processed, 4 to 6 wait. */
async function oldStore(
  t: Test,
  options: Parameters<typeof turnToFormat2>[1] = {},
): Promise<string> {
  const path = join(t.testdir(), 'data')
  const dir = await DataDir.open(path)
  const projects = new ProjectStore(path)
  projects.bootstrap({ projectKey: PROJECT_KEY, personalKey: PERSONAL_KEY })
  await projects.close()
  const log = new LogAppender({ dataDir: path, processed: 0 })
  await processAll(path, () => {
    for (const name of ['e1', 'e2', 'e3']) log.append([block(name)], 0)
  })
  for (const name of ['e4', 'e5', 'e6']) log.append([block(name)], 0)
  await log.close()
  dir.release()
  await turnToFormat2(path, options)
  return path
}

/** Checks that all six events are stored once, in order, and that the numbers continue. */
async function checkTaken(t: Test, path: string): Promise<void> {
  const dir = await DataDir.open(path)
  t.equal(readFormat(path), FORMAT_VERSION)
  t.notOk(existsSync(join(path, 'log', 'data.mdb')))
  await processAll(path)
  const events = new EventReader({ dataDir: path, isReadOnly: true })
  t.equal(events.statistics().position, 6)
  await events.close()
  const log = new LogAppender({ dataDir: path, processed: readProcessedPosition(path) })
  t.equal(log.append([block('e7')], 6), 7)
  await log.close()
  dir.release()
  t.same((await verifyStore(path, nothing)).findings, [])
  const { out } = await runCommand('export', '--project', '1', '--data-dir', path)
  const names = out
    .split('\n')
    .filter(Boolean)
    .map((line) => (JSON.parse(line) as { event: string }).event)
  t.strictSame(names, ['e1', 'e2', 'e3', 'e4', 'e5', 'e6'])
}

t.test('a start transfers unprocessed blocks', async (t) => {
  await checkTaken(t, await oldStore(t))
})

t.test('a trimmed log, and one without a recorded end, are transferred, too', async (t) => {
  await checkTaken(t, await oldStore(t, { firstKept: 4 }))
  await checkTaken(t, await oldStore(t, { end: null }))
})

t.test('a log without waiting blocks is transferred', async (t) => {
  const path = await oldStore(t, { firstKept: 7, end: 3 })
  const dir = await DataDir.open(path)
  dir.release()
  const log = new LogAppender({ dataDir: path, processed: readProcessedPosition(path) })
  t.equal(log.append([block('next')], 0), 4)
  await log.close()
})

t.test('`tenrec migrate` does the same, and reports its steps', async (t) => {
  const path = await oldStore(t)
  const refused = await runCommand('verify', '--data-dir', path)
  t.equal(refused.exitCode, 78, 'commands do not change a store')
  t.match(
    refused.err,
    /has the format 2, but this version of Tenrec supports format 7\. Run `tenrec migrate --dry-run`/,
  )
  t.match(
    (await runCommand('migrate', '--dry-run', '--data-dir', path)).out,
    /^2 to 3: Copies.*\n3 to 4: .*\n4 to 5: /,
  )
  t.equal(readFormat(path), 2)
  t.equal((await runCommand('migrate', '--data-dir', path)).exitCode, 0)
  t.equal(requireStore(path, 'log'), path)
  await checkTaken(t, path)
})

t.test(
  'a transfer killed at any step is completed by the next start or the old version',
  async (t) => {
    const path = await oldStore(t)
    const states: string[] = []
    const copy = (): void => {
      const state = `${path}-${states.length}`
      cpSync(path, state, {
        recursive: true,
        filter: (name) => !/lock/.test(name.slice(path.length)),
      })
      states.push(state)
    }
    const old = readFileSync(join(path, 'log', 'data.mdb'))
    await betweenSteps(copy, async () => {
      const dir = await DataDir.open(path)
      dir.release()
    })
    t.ok(states.length > 20, `${states.length} states were tested`)
    for (const state of states) {
      if (readFormat(state) === 2) {
        const isThere = readFileSync(join(state, 'log', 'data.mdb')).equals(old)
        if (!isThere) t.fail(`${state}: the old version cannot go on`)
      }
      const dir = await DataDir.open(state)
      await processAll(state)
      dir.release()
      if (readProcessedPosition(state) !== 6) t.fail(`${state}: a block is lost`)
      if (readFormat(state) !== FORMAT_VERSION) t.fail(`${state} has another format`)
      rmSync(state, { recursive: true })
    }
    await checkTaken(t, path)
  },
)

t.test('a log that lacks blocks or cannot be read is refused and stays', async (t) => {
  const path = await oldStore(t, { firstKept: 5 })
  const before = readFileSync(join(path, 'log', 'data.mdb'))
  t.match(await refusal(DataDir.open(path)), {
    exitCode: 78,
    message: /data\.mdb lacks the blocks from 4 to 6\. Restore .* Nothing was changed/,
  })
  t.equal(readFormat(path), 2)
  t.ok(readFileSync(join(path, 'log', 'data.mdb')).equals(before))
  const half = await oldStore(t, { end: null, lost: 5 })
  t.match(await refusal(DataDir.open(half)), { message: /lacks the blocks from 5 to 6\. Restore/ })
  const older = await oldStore(t, { firstKept: 7, end: 1 })
  t.match(await refusal(DataDir.open(older)), { message: /lacks the blocks from 2 to 3\. Restore/ })
  const damaged = await oldStore(t)
  truncateSync(join(damaged, 'log', 'data.mdb'), 5000)
  t.match(await refusal(DataDir.open(damaged)), { exitCode: 78, message: /data\.mdb is damaged/ })
  const gone = await oldStore(t)
  rmSync(join(gone, 'log', 'data.mdb'))
  t.match(await refusal(DataDir.open(gone)), { exitCode: 78, message: /log is missing or empty/ })
})

t.test('a block that was damaged in LMDB is transferred unchanged', async (t) => {
  const path = await oldStore(t)
  const file = join(path, 'log', 'data.mdb')
  const bytes = readFileSync(file)
  for (let place = bytes.indexOf('"e5"'); place >= 0; place = bytes.indexOf('"e5"', place + 1)) {
    bytes[place + 1] = 0x58
  }
  writeFileSync(file, bytes)
  const dir = await DataDir.open(path)
  const reader = new LogReader({ dataDir: path })
  t.ok(reader.block(5)?.includes('"X5"'), 'it becomes a dead letter, as it would have before')
  await reader.close()
  await processAll(path)
  dir.release()
  t.equal(readProcessedPosition(path), 6)
})

t.test('a backup of format 2 is restored', async (t) => {
  const path = await oldStore(t)
  const dir = await DataDir.open(path)
  dir.release()
  const folder = `${path}-backups`
  const { name } = await createBackup({
    dataDir: path,
    folder,
    nowMs: NOW_MS,
    keep: null,
    onProgress: nothing,
  })
  const manifest = readManifest(folder, name)
  t.strictSame(
    manifest.environments.log.map((table) => [table.name, table.entries]),
    [['blocks', 3]],
  )
  // An older program wrote the same table, and next to it the end of the log.
  const state = { name: 'state', entries: 0, bytes: 0, chunks: [] }
  const environments = { ...manifest.environments, log: [...manifest.environments.log, state] }
  const older = { ...manifest, storeFormat: 2, environments }
  writeFileSync(manifestPath(folder, name), encodeManifest(older))
  const restored = `${path}-restored`
  await restoreBackup({ folder, name, dataDir: restored, isForced: false, onProgress: nothing })
  t.ok(readdirSync(join(restored, 'log')).every((file) => file.endsWith('.log')))
  await checkTaken(t, restored)
})
