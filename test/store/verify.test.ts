/**
 * Tests `verify`: it finds and names any damage that changes data a reader can see.
 *
 * @lane all
 */
import {
  closeSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import { DataDir, ENVIRONMENT_NAMES } from '../../src/store/directory/data-dir.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { inspectLmdbFile } from '../../src/store/lmdb/lmdb-file.ts'
import { newestState, walkLmdbFile } from '../../src/store/lmdb/lmdb-walk.ts'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { logFolder, logNumbers, logPath } from '../../src/store/log/log-file.ts'
import { createBackup } from '../../src/store/maintenance/backup/backups.ts'
import {
  encodeManifest,
  manifestPath,
  readManifest,
} from '../../src/store/maintenance/backup/manifest.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { Differences } from '../fixtures/differences.ts'
import { environmentDigest, logDigest } from '../fixtures/environment-digest.ts'
import { seededRandom } from '../fixtures/event-ledger.ts'
import { untilVisible } from '../fixtures/event-pages.ts'
import { closeConnections, postJson } from '../fixtures/exact-client.ts'
import { withChanges } from '../fixtures/faults/log-steps.ts'
import { block } from '../fixtures/faults/named-log.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'

const FLIPS = 150
const EVENTS = 300
const EVERYTHING_MS = 3_600_000
const MARKER = '01890a5d-ac96-774b-bcce-b302099a8057'

t.teardown(closeConnections)
t.setTimeout(300_000)

/** Creates a store with persons, groups, segments and keys by a real daemon. */
async function filledStore(dataDir: string): Promise<void> {
  const daemon = await spawnDaemon({ dataDir })
  for (let round = 0; round < 3; round++) {
    const batch = Array.from({ length: EVENTS }, (_, index) => ({
      event: index % 3 === 0 ? '$identify' : 'opened',
      distinct_id: `someone ${index % 40}`,
      properties: { index, round, text: 'x'.repeat(index), $groups: { company: `c${index % 5}` } },
      ...(index % 3 === 0 ? { $set: { email: `a${index}@example.com`, index } } : {}),
    }))
    await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  }
  await postJson(`${daemon.url}/capture/`, {
    api_key: PROJECT_KEY,
    uuid: MARKER,
    event: 'marker',
    distinct_id: 'marker',
  })
  await untilVisible({ url: daemon.url, personalKey: PERSONAL_KEY }, MARKER)
  await daemon.stop()
}

function flipBit(file: string, position: number, bit: number): void {
  const descriptor = openSync(file, 'r+')
  const byte = Buffer.alloc(1)
  readSync(descriptor, byte, 0, 1, position)
  byte[0] = (byte[0] ?? 0) ^ (1 << bit)
  writeSync(descriptor, byte, 0, 1, position)
  closeSync(descriptor)
}

t.test('a sound store passes, and a flipped bit is found or harmless', async (t) => {
  const path = t.testdir()
  await filledStore(path)
  const report = await verifyStore(path, () => undefined)
  t.same(report.findings, [])
  t.ok(report.entries > 50)
  const random = seededRandom(Number(process.env['VERIFY_SEED'] ?? 11))
  for (const name of ENVIRONMENT_NAMES) {
    const file = join(path, name, 'data.mdb')
    const original = await environmentDigest(path, name)
    const bytes = statSync(file).size
    let found = 0
    let harmless = 0
    const missed: string[] = []
    for (let round = 0; round < FLIPS; round++) {
      const position = Math.floor(random() * bytes)
      const bit = Math.floor(random() * 8)
      flipBit(file, position, bit)
      if (await isFound(path)) found++
      else if ((await environmentDigest(path, name)) === original) harmless++
      else missed.push(`bit ${bit} of byte ${position}`)
      flipBit(file, position, bit)
    }
    t.same(missed, [], `${name}: ${found} found, ${harmless} harmless`)
    t.equal(await environmentDigest(path, name), original)
  }
})

t.test('a restore from a manifest that mixes up two tables reports the damage', async (t) => {
  const root = t.testdir()
  const [dataDir, folder, restored] = [join(root, 'data'), join(root, 'backups'), join(root, 'new')]
  await filledStore(dataDir)
  const { name } = await createBackup({
    dataDir,
    folder,
    nowMs: 0,
    keep: null,
    onProgress: () => undefined,
  })
  const words = ['restore', folder, '--data-dir', restored, '--force']
  const sound = await runCommand(...words)
  t.match(sound, { exitCode: 0 })
  t.notMatch(sound.out, 'sound')
  const manifest = readManifest(folder, name)
  const { environments } = manifest
  for (const [one, other] of [
    ['persons', 'groups'],
    ['person_owners', 'person_created'],
    ['distinct_ids', 'distinct_texts'],
  ]) {
    const events = environments.events.map((table) => {
      if (table.name === one) return { ...table, name: other ?? '' }
      return table.name === other ? { ...table, name: one ?? '' } : table
    })
    const text = encodeManifest({ ...manifest, environments: { ...environments, events } })
    writeFileSync(manifestPath(folder, name), text)
    const mixed = await runCommand(...words)
    t.match(mixed, { exitCode: 3, out: 'The store is damaged' }, `${one} and ${other}`)
  }
})

t.test('a flipped bit of the log is found or harmless', async (t) => {
  const path = t.testdir()
  const log = await storeWithWaiting(path, [5000, 20, 70_000, 300])
  await log.close()
  const file = logPath(logFolder(path), logNumbers(logFolder(path))[0] ?? 0)
  const original = await logDigest(path)
  t.same((await verifyStore(path, () => undefined)).findings, [])
  const bytes = readFileSync(file).findLastIndex((byte) => byte !== 0)
  const random = seededRandom(Number(process.env['VERIFY_SEED'] ?? 11))
  const counts = { found: 0, harmless: 0 }
  for (let round = 0; round < FLIPS; round++) {
    // Half of them in the heads of the first frames.
    const position = Math.floor(random() * (round % 2 === 0 ? bytes : 8 * 4096))
    const bit = Math.floor(random() * 8)
    flipBit(file, position, bit)
    if (await isFound(path)) counts.found++
    else if ((await logDigest(path)) === original) counts.harmless++
    else t.fail(`bit ${bit} of byte ${position}`)
    flipBit(file, position, bit)
  }
  t.ok(counts.found > FLIPS / 4, JSON.stringify(counts))
  t.equal(await logDigest(path), original)
})

/** A store with unprocessed blocks of the given sizes in its log. */
async function storeWithWaiting(path: string, padBytes: readonly number[]): Promise<LogAppender> {
  const dir = await DataDir.open(path)
  dir.release()
  const log = new LogAppender({ dataDir: path, processed: 0 })
  for (const bytes of padBytes) log.append([block('waits', bytes)], 0)
  return log
}

t.test(
  'a block that a daemon releases and overwrites during the check is not damage',
  async (t) => {
    const path = t.testdir()
    await (await storeWithWaiting(path, [300_000, 300_000, 300_000])).close()
    const processor = openProcessor(threadSettings(path), (error) => {
      throw error
    })
    processor.run(EVERYTHING_MS)
    await processor.close()
    // As if the reader had not heard of the release yet.
    const log = new LogAppender({ dataDir: path, processed: 0 })
    const [first = 0] = logNumbers(logFolder(path))
    let isForgotten = false
    let findings: readonly object[] = []
    await withChanges(
      (name, words, real) => {
        // The head of a frame was read here. Now the block is read.
        if (name === 'readSync' && !isForgotten && Number(words[4]) % 4096 !== 0) {
          isForgotten = true
          for (let round = 0; round < 12; round++) log.append([block('later', 200_000)], 3)
          t.notOk(logNumbers(logFolder(path)).includes(first), 'it has another number')
        }
        return real(...words)
      },
      async () => {
        findings = (await verifyStore(path, () => undefined)).findings
      },
    )
    await log.close()
    t.ok(isForgotten)
    t.same(findings, [])
  },
)

/** Returns whether a check of the store finds damage, or refuses to continue. */
async function isFound(path: string): Promise<boolean> {
  try {
    return (await verifyStore(path, () => undefined)).findings.length > 0
  } catch (error) {
    return error instanceof Error && error.message.includes('damaged')
  }
}

t.test('a damaged record is named by file, table and key', async (t) => {
  const path = t.testdir()
  await filledStore(path)
  const file = join(path, 'events', 'data.mdb')
  const position = readFileSync(file).indexOf('a297@example.com')
  t.ok(position > 0)
  flipBit(file, position, 0)
  const { findings } = await verifyStore(path, () => undefined)
  t.ok(findings.length >= 1)
  t.equal(findings[0]?.file, file)
  t.match(findings[0]?.where, /^table [a-z_]+, key [0-9a-f]+$/)
})

t.test('records that are sound alone but contradict each other are found', async (t) => {
  const path = t.testdir()
  await filledStore(path)
  const environment = new Environment({ dataDir: path, name: 'events', tables: ['segment_groups'] })
  const table = environment.table('segment_groups')
  const [first] = [...table.getKeys({ limit: 1 })]
  environment.write(() => {
    if (first !== undefined) table.removeSync(first)
  })
  await environment.close()
  const { findings } = await verifyStore(path, () => undefined)
  t.match(findings, [{ where: /segment/, what: /lacks 1 of its groups/ }])
})

t.test('a wrong last page is found by file, and nothing makes the file larger', async (t) => {
  const path = t.testdir()
  await filledStore(path)
  for (const name of ENVIRONMENT_NAMES) {
    const file = join(path, name, 'data.mdb')
    const original = readFileSync(file)
    const newest = original.readBigUInt64LE(4096 + 152) > original.readBigUInt64LE(152) ? 4096 : 0
    const pages = original.length / 4096
    for (const lastPage of [2 ** 27, pages + 100, pages, 2]) {
      const wrong = Buffer.from(original)
      wrong.writeBigUInt64LE(BigInt(lastPage), newest + 144)
      writeFileSync(file, wrong)
      const { exitCode, out } = await runCommand('verify', '--data-dir', path)
      t.equal(exitCode, 3)
      t.ok(out.startsWith(`${file}: file: is damaged: `), `${lastPage}: ${out}`)
      const served = await runCommand('serve', '--data-dir', path, '--port', '0')
      t.equal(served.exitCode, 78)
      t.match(served.err, file)
      t.ok(readFileSync(file).equals(wrong), 'no file was changed')
    }
    writeFileSync(file, original)
  }
})

t.test(
  'a last page after all used and free pages is found if the file is long enough',
  async (t) => {
    const path = t.testdir()
    await filledStore(path)
    const file = join(path, 'events', 'data.mdb')
    const bytes = readFileSync(file)
    const newest = bytes.readBigUInt64LE(4096 + 152) > bytes.readBigUInt64LE(152) ? 4096 : 0
    const lastPage = bytes.readBigUInt64LE(newest + 144)
    bytes.writeBigUInt64LE(lastPage + 3n, newest + 144)
    writeFileSync(file, Buffer.concat([bytes, Buffer.alloc(4 * 4096)]))
    const { findings } = await verifyStore(path, () => undefined)
    t.match(findings, [{ file, where: 'pages', what: /3 of them are neither in use nor free/ }])
  },
)

t.test('persons that contradict each other are found', async (t) => {
  const damages: readonly (readonly [string, RegExp])[] = [
    ['persons', /there should be \d+ persons/],
    ['person_created', /person_created has other persons/],
    ['person_owners', /do not match/],
  ]
  for (const [index, [name, what]] of damages.entries()) {
    const path = join(t.testdir({ [`store${index}`]: {} }), `store${index}`)
    await filledStore(path)
    const environment = new Environment({ dataDir: path, name: 'events', tables: [name] })
    const table = environment.table(name)
    const [first] = [...table.getKeys({ limit: 1 })]
    environment.write(() => {
      if (first !== undefined) table.removeSync(first)
    })
    await environment.close()
    const { findings } = await verifyStore(path, () => undefined)
    t.ok(
      findings.some((finding) => what.test(finding.what)),
      `${name}: ${findings.map((finding) => finding.what).join(', ')}`,
    )
  }
})

t.test('the walk accounts for every page of a store that was rewritten many times', async (t) => {
  const path = t.testdir()
  const dir = await DataDir.open(path)
  const environment = new Environment({ dataDir: path, name: 'events', tables: ['numbers'] })
  const table = environment.table('numbers')
  const random = seededRandom(3)
  const differences = new Differences()
  for (let round = 0; round < 60; round++) {
    environment.write(() => {
      for (let index = 0; index < 100; index++) {
        const key = Buffer.from(`key ${Math.floor(random() * 2000)}`)
        if (random() < 0.3) table.removeSync(key)
        else table.putSync(key, Buffer.alloc(Math.floor(random() ** 4 * 60_000)))
      }
    })
    const file = join(path, 'events', 'data.mdb')
    differences.equal(inspectLmdbFile(file).kind, 'sound', `round ${round}`)
    const { freePages, pages } = walkLmdbFile(file, newestState(file))
    differences.ok(freePages < pages, `round ${round}: ${freePages} of ${pages} pages are free`)
  }
  t.strictSame(differences.list(), [], 'every page is accounted for')
  await environment.close()
  dir.release()
})
