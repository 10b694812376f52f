/**
 * Tests backups under faults: chains of backups, a killed process, a full disk, damaged files, older formats.
 *
 * @lane all
 */
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { OperatorError } from '../../src/base/errors.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir, FORMAT_VERSION, readFormat } from '../../src/store/directory/data-dir.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import {
  type BackupResult,
  createBackup,
  restoreBackup,
} from '../../src/store/maintenance/backup/backups.ts'
import {
  backupNames,
  chunkPath,
  encodeManifest,
  manifestPath,
  readManifest,
} from '../../src/store/maintenance/backup/manifest.ts'
import { MIGRATIONS, type Migration } from '../../src/store/maintenance/migrations.ts'
import { linesOf, runCommand } from '../fixtures/command-line.ts'
import { refusal } from '../fixtures/refusal.ts'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'

const MIB = 1024 ** 2
const VALUES = 12
const DISK_MIB = 72
const NOW_MS = Date.UTC(2026, 0, 31, 12)
const PROJECT_KEY = 'phc_backup_faults'
const TABLE = 'warnings'

t.setTimeout(300_000)

function nothing(): void {}

async function smallStore(path: string): Promise<void> {
  const dir = await DataDir.open(path)
  const store = new ProjectStore(path)
  store.bootstrap({ projectKey: PROJECT_KEY, personalKey: 'phx_backup_faults_of_the_first_owner' })
  await store.close()
  dir.release()
}

/** A store with some MiB of incompressible data, in one chunk each. */
async function largeStore(path: string): Promise<ReadonlyMap<string, Buffer>> {
  await smallStore(path)
  const values = new Map<string, Buffer>()
  const environment = new Environment({ dataDir: path, name: 'events', tables: [TABLE] })
  environment.write(() => {
    for (let index = 0; index < VALUES; index++) {
      const value = randomBytes(MIB + index)
      values.set(`key ${100 + index}`, value)
      void environment.table(TABLE).put(Buffer.from(`key ${100 + index}`), value)
    }
  })
  await environment.close()
  return values
}

async function valuesIn(path: string): Promise<ReadonlyMap<string, Buffer>> {
  const environment = new Environment({ dataDir: path, name: 'events', tables: [TABLE] })
  const values = new Map<string, Buffer>()
  for (const { key, value } of environment.table(TABLE).getRange({})) {
    values.set(Buffer.from(key).toString(), Buffer.from(value))
  }
  await environment.close()
  return values
}

function backupOf(dataDir: string, folder: string, keep: number | null = null) {
  return createBackup({ dataDir, folder, nowMs: NOW_MS, keep, onProgress: nothing })
}

function restoreTo(dataDir: string, folder: string, name: string | null = null) {
  return restoreBackup({ folder, name, dataDir, isForced: false, onProgress: nothing })
}

function filesIn(folder: string): readonly string[] {
  return readdirSync(join(folder, 'chunks'), { recursive: true, encoding: 'utf8' })
}

t.test('each backup of a chain restores the state of its own time', async (t) => {
  const root = t.testdir({})
  const [data, folder] = [join(root, 'data'), join(root, 'backups')]
  await smallStore(data)
  const names: string[] = []
  const chain: BackupResult[] = []
  for (const name of ['One', 'Two', 'Three', 'Four']) {
    const store = new ProjectStore(data)
    store.createProject({ name })
    names.push(
      ...store
        .listProjects()
        .map((project) => project.name)
        .slice(-1),
    )
    await store.close()
    chain.push(await backupOf(data, folder))
  }
  t.same(names, ['One', 'Two', 'Three', 'Four'])
  const fifth = await backupOf(data, folder, 4)
  t.same(fifth.removed, [chain[0]?.name], 'the oldest went')
  t.same(backupNames(folder), [...chain.slice(1).map(({ name }) => name), fifth.name])
  for (const [index, { name }] of chain.entries()) {
    const restored = join(root, `restored ${index}`)
    if (index === 0) {
      t.match((await refusal(restoreTo(restored, folder, name))).message, /There is no backup/)
      continue
    }
    await restoreTo(restored, folder, name)
    const store = new ProjectStore(restored)
    const found = store.listProjects().map((project) => project.name)
    await store.close()
    t.same(found, ['Default project', ...names.slice(0, index + 1)])
  }
})

t.test('a killed backup does not count, and the next backup completes it', async (t) => {
  const root = t.testdir({})
  const [data, folder] = [join(root, 'data'), join(root, 'backups')]
  const values = await largeStore(data)
  const script = `
    import { createBackup } from ${sourceText('store/maintenance/backup/backups')}
    const onProgress = (bytes) => {
      if (bytes > ${(VALUES / 2) * MIB}) process.kill(process.pid, 'SIGKILL')
    }
    const [dataDir, folder] = ${JSON.stringify([data, folder])}
    await createBackup({ dataDir, folder, nowMs: 0, keep: null, onProgress })`
  const child = spawn(process.execPath, [...SCRIPT_WORDS, script], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const signal = await new Promise((resolve) => child.on('exit', (_, name) => resolve(name)))
  t.equal(signal, 'SIGKILL')
  t.same(backupNames(folder), [], 'what was cut short is no backup')
  t.ok(
    filesIn(folder).some((name) => name.endsWith('.new')),
    'the backup was being written',
  )
  const { name, chunks } = await backupOf(data, folder)
  t.ok(chunks >= VALUES)
  t.same(backupNames(folder), [name])
  t.notOk(
    filesIn(folder).some((file) => file.endsWith('.new')),
    'nothing is left behind',
  )
  await restoreTo(join(root, 'restored'), folder)
  t.same(await valuesIn(join(root, 'restored')), values)
})

t.test('a restore names the damaged file and exits with 78', async (t) => {
  const root = t.testdir({})
  const [data, folder, restored] = [join(root, 'data'), join(root, 'backups'), join(root, 'new')]
  await largeStore(data)
  const { name } = await backupOf(data, folder)
  const { chunks = [] } =
    readManifest(folder, name).environments.events.find((table) => table.name === TABLE) ?? {}
  const path = chunkPath(folder, chunks.at(-1) ?? '')
  const good = readFileSync(path)
  truncateSync(path, good.length - 4096)
  const words = ['restore', folder, '--data-dir', restored]
  const cut = await runCommand(...words)
  t.equal(cut.exitCode, 78)
  t.ok(cut.err.includes(`${path} is damaged`), cut.err)
  t.notOk(existsSync(join(restored, 'format')), 'no store was made')
  writeFileSync(path, good)
  const whole = await runCommand(...words, '--verify', '--json')
  t.equal(whole.exitCode, 3, 'the values of this test are not records')
  t.match(whole.out, /"is_sound":false/)
})

t.test(
  'a check of the folder finds each damaged file, and the next backup rewrites it',
  async (t) => {
    const store = join(t.testdir(), 'store')
    await largeStore(store)
    const folder = join(t.testdirName, 'backups')
    const { name } = await backupOf(store, folder)
    const sound = await runCommand('backup', 'verify', folder, '--json')
    t.match(JSON.parse(sound.out), { is_sound: true, backups: 1, findings: [] })
    t.equal(sound.exitCode, 0)
    const tables = readManifest(folder, name).environments.events
    const [first = '', second = ''] = tables.find((table) => table.name === TABLE)?.chunks ?? []
    const bytes = readFileSync(chunkPath(folder, first))
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1
    writeFileSync(chunkPath(folder, first), bytes)
    rmSync(chunkPath(folder, second))
    const damaged = await runCommand('backup', 'verify', folder)
    t.equal(damaged.exitCode, 3)
    for (const chunk of [first, second]) t.match(damaged.out, chunkPath(folder, chunk))
    rmSync(chunkPath(folder, first))
    await backupOf(store, folder)
    t.equal((await runCommand('backup', 'verify', folder)).exitCode, 0)
    writeFileSync(manifestPath(folder, name), 'no manifest')
    t.equal((await runCommand('backup', 'verify', folder)).exitCode, 3)
    t.equal((await runCommand('backup', 'verify', t.testdirName)).exitCode, 1)
  },
)

t.test('a store with a damaged page is not reported as sound', async (t) => {
  const root = t.testdir({})
  const [data, folder] = [join(root, 'data'), join(root, 'backups')]
  const values = await largeStore(data)
  const path = join(data, 'events', 'data.mdb')
  const file = readFileSync(path)
  const start = file.indexOf((values.get('key 105') ?? Buffer.alloc(0)).subarray(0, 64))
  const reference = file.indexOf('key 105') + 'key 105'.length
  t.ok(start > 0 && reference > 0)
  // The page number before the value. After the key come its high bits, which no file has.
  for (const place of [start - 24, reference + 7]) {
    const damaged = Buffer.from(file)
    damaged.writeUInt8(damaged.readUInt8(place) ^ 1, place)
    writeFileSync(path, damaged)
    const error = await refusal(backupOf(data, folder))
    t.equal(error.exitCode, 78)
    t.ok(error.message.startsWith(`${path} is damaged (`), error.message)
    t.match(error.message, /\((?:a )?page /)
  }
  t.same(backupNames(folder), [])
})

t.test('a restored store passes verification, and its audit log names the restore', async (t) => {
  const root = t.testdir({})
  const [data, folder, restored] = [join(root, 'data'), join(root, 'backups'), join(root, 'new')]
  t.equal((await runCommand('init', '--data-dir', data)).exitCode, 0)
  const [made] = linesOf(await runCommand('backup', folder, '--data-dir', data, '--json'))
  const words = ['restore', folder, '--data-dir', restored, '--verify', '--json']
  const [row, report] = linesOf(await runCommand(...words))
  t.match(row, { name: made?.['name'], format: FORMAT_VERSION })
  t.match(report, { is_sound: true, findings: [] })
  const entries = linesOf(await runCommand('audit', 'list', '--data-dir', restored, '--json'))
  t.match(entries, [
    { id: 2, source: 'command_line', route: 'tenrec restore', object: made?.['name'] },
    { id: 1, source: 'command_line', route: 'tenrec init', object: null },
  ])
  const original = linesOf(await runCommand('audit', 'list', '--data-dir', data, '--json'))
  t.equal(original.length, 1, 'a backup changes nothing')
})

t.test('a full disk ends a backup and leaves earlier ones unchanged', async (t) => {
  const root = t.testdir({ disk: {} })
  const [data, disk] = [join(root, 'data'), join(root, 'disk')]
  const mount = (option: string): boolean =>
    spawnSync('mount', ['-t', 'tmpfs', '-o', option, 'tmpfs', disk]).status === 0
  if (process.getuid?.() !== 0 || !mount(`size=${DISK_MIB}m`)) {
    t.pass('skipped', { skip: 'no small file system can be mounted here' })
    return
  }
  try {
    const folder = join(disk, 'backups')
    mkdirSync(folder)
    await smallStore(data)
    const { name } = await backupOf(data, folder)
    const environment = new Environment({ dataDir: data, name: 'events', tables: [TABLE] })
    const value = randomBytes(VALUES * MIB)
    environment.write(() => void environment.table(TABLE).put(Buffer.from('key'), value))
    await environment.close()
    const error = await refusal(backupOf(data, folder))
    t.match(error.message, /nearly full\. Free some space/)
    t.equal(error.exitCode, 1)
    t.same(backupNames(folder), [name])
    await restoreTo(join(root, 'restored'), folder)
    t.ok(mount(`remount,size=${DISK_MIB * 2}m`))
    const second = await backupOf(data, folder)
    await restoreTo(join(root, 'later'), folder, second.name)
    t.same((await valuesIn(join(root, 'later'))).get('key'), value)
  } finally {
    spawnSync('umount', ['--lazy', disk])
  }
})

t.test('a backup of an older format is migrated, or refused with instructions', async (t) => {
  const root = t.testdir({})
  const [data, folder] = [join(root, 'data'), join(root, 'backups')]
  await smallStore(data)
  const { name } = await backupOf(data, folder)
  const manifest = { ...readManifest(folder, name), storeFormat: 1, program: '0.0.9' }
  writeFileSync(manifestPath(folder, name), encodeManifest(manifest))
  const [row] = linesOf(await runCommand('backup', 'list', folder, '--json'))
  t.match(row, { name, program: '0.0.9' }, 'the backup is listed')

  const refused = await refusal(restoreTo(join(root, 'refused'), folder))
  t.equal(refused.exitCode, 78)
  t.ok(refused.message.startsWith(`${manifestPath(folder, name)} (made by 0.0.9) has the format 1`))
  t.match(refused.message, /tenrec export.*tenrec import/)
  t.notOk(existsSync(join(root, 'refused')), 'nothing was written')

  const restored = join(root, 'restored')
  const formats: (number | null)[] = []
  let isFailing = true
  const step: Migration = {
    from: 1,
    sentence: 'Writes 2.',
    run: async (path) => {
      formats.push(readFormat(path))
      if (isFailing) throw new OperatorError('the step was cut short')
    },
  }
  const migrations = [step, ...MIGRATIONS]
  const options = { folder, name: null, dataDir: restored, onProgress: nothing, migrations }
  t.match((await refusal(restoreBackup({ ...options, isForced: false }))).message, /cut short/)
  t.equal(readFormat(restored), 1, "migration is left to 'tenrec migrate'")
  await t.rejects(DataDir.open(restored), /tenrec migrate/)
  isFailing = false
  const result = await restoreBackup({ ...options, isForced: true })
  t.equal(result.format, 1)
  t.same(formats, [1, 1])
  t.equal(readFormat(restored), FORMAT_VERSION)
  const dir = await DataDir.open(restored)
  dir.release()
})
