/**
 * Tests a restore that is interrupted at any of its steps. Nothing opens the result, neither as an empty store nor as
 * the old one, until the restore is repeated.
 *
 * @lane all
 */
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir, ENVIRONMENT_NAMES, requireStore } from '../../src/store/directory/data-dir.ts'
import { createBackup, restoreBackup } from '../../src/store/maintenance/backup/backups.ts'
import { planMigration } from '../../src/store/maintenance/migrations.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { spawnDaemon } from '../fixtures/daemon.ts'
import { Differences } from '../fixtures/differences.ts'
import { statesOf } from '../fixtures/faults/file-steps.ts'
import { refusal } from '../fixtures/refusal.ts'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'

const REPEATED_EVERY = 4

t.setTimeout(300_000)

/** A store with one project of this name. */
async function storeNamed(path: string, name: string): Promise<void> {
  const dir = await DataDir.open(path)
  const store = new ProjectStore(path)
  store.bootstrap({ projectKey: 'phc_cuts', personalKey: 'phx_cuts_of_the_first_owner' })
  store.setProject(1, { name })
  await store.close()
  dir.release()
}

/** Returns the name of the project in a store that opens, or null if there is none. */
async function nameIn(path: string): Promise<string | null> {
  const dir = await DataDir.open(path)
  const store = new ProjectStore(path)
  try {
    return store.listProjects()[0]?.name ?? null
  } finally {
    await store.close()
    dir.release()
  }
}

/** Returns the content of a data directory, without the notes about its owner. */
function entriesOf(path: string): readonly string[] {
  return readdirSync(path)
    .filter((name) => !name.startsWith('lock'))
    .sort()
}

async function backupNamed(root: string, name: string): Promise<string> {
  const [data, folder] = [join(root, 'source'), join(root, 'backups')]
  await storeNamed(data, name)
  await createBackup({ dataDir: data, folder, nowMs: 0, keep: null, onProgress: () => {} })
  return folder
}

function restore(folder: string, dataDir: string, isForced = true) {
  return restoreBackup({ folder, name: null, dataDir, isForced, onProgress: () => {} })
}

for (const old of ['the old store', null]) {
  t.test(
    `over ${old ?? 'nothing'}, each interrupted restore is refused until it is repeated`,
    async (t) => {
      const root = t.testdir({})
      const data = join(root, 'data')
      const folder = await backupNamed(root, 'the backup')
      if (old !== null) await storeNamed(data, old)
      const states = await statesOf(data, () => restore(folder, data))
      const outcomes: string[] = []
      const differences = new Differences()
      for (const [index, state] of states.entries()) {
        const hasBegun =
          existsSync(join(state, '.restored')) || existsSync(join(state, 'restoring'))
        if (!hasBegun) {
          outcomes.push((await nameIn(state)) ?? 'empty')
          continue
        }
        outcomes.push('refused')
        const before = entriesOf(state)
        for (const refused of [
          DataDir.open(state),
          ...ENVIRONMENT_NAMES.map(async (name) => requireStore(state, name)),
          (async () => planMigration(state))(),
        ]) {
          const { exitCode, message } = await refusal(refused)
          differences.equal(exitCode, 78, `cut ${index}: the exit code is right`)
          differences.match(
            message,
            /Run `tenrec restore` again/,
            `cut ${index}: the store is refused`,
          )
        }
        differences.same(entriesOf(state), before, `cut ${index}: the entries afterward`)
        // A repetition takes time, so only some cuts are repeated.
        if (index % REPEATED_EVERY > 0) continue
        await restore(folder, state)
        differences.equal(
          await nameIn(state),
          'the backup',
          `cut ${index}: the repeated restore succeeds`,
        )
      }
      t.strictSame(differences.list(), [], 'every cut is refused, unchanged, until it is repeated')
      const turns = outcomes.filter((outcome, index) => outcome !== outcomes[index - 1])
      t.strictSame(turns, [old ?? 'empty', 'refused', 'the backup'], 'one after the other')
      t.ok(outcomes.filter((outcome) => outcome === 'refused').length > 15, 'there were many steps')
    },
  )
}

t.test(
  'a restore that fails or may not begin leaves an earlier interrupted one refused',
  async (t) => {
    const root = t.testdir({})
    const data = join(root, 'data')
    const folder = await backupNamed(root, 'the backup')
    await storeNamed(data, 'the old store')
    const states = await statesOf(data, () => restore(folder, data))
    const cut = states.find((state) => existsSync(join(state, '.restored', 'log'))) ?? ''
    t.match((await refusal(restore(folder, cut, false))).message, /replace the store with --force/)
    t.match((await refusal(DataDir.open(cut))).message, /Run `tenrec restore` again/)
    const chunks = join(folder, 'chunks')
    for (const name of readdirSync(chunks, { recursive: true, encoding: 'utf8' })) {
      if (!name.includes('/')) continue
      truncateSync(join(chunks, name), 3)
    }
    t.equal((await refusal(restore(folder, cut))).exitCode, 78)
    t.match((await refusal(DataDir.open(cut))).message, `remove ${join(cut, '.restored')}`)
    rmSync(join(cut, '.restored'), { recursive: true })
    t.equal(await nameIn(cut), 'the old store', 'the restore is possible as the refusal says')
  },
)

t.test('a restore killed while it writes keeps out daemons and commands', async (t) => {
  const root = t.testdir({})
  const data = join(root, 'data')
  const folder = await backupNamed(root, 'the backup')
  await storeNamed(data, 'the old store')
  const script = `
    import { restoreBackup } from ${sourceText('store/maintenance/backup/backups')}
    const [folder, dataDir] = ${JSON.stringify([folder, data])}
    const onProgress = () => process.kill(process.pid, 'SIGKILL')
    await restoreBackup({ folder, name: null, dataDir, isForced: true, onProgress })`
  const child = spawn(process.execPath, [...SCRIPT_WORDS, script], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const signal = await new Promise((resolve) => child.once('exit', (_, name) => resolve(name)))
  t.equal(signal, 'SIGKILL')
  const started = await spawnDaemon({ dataDir: data }).catch((error: unknown) => String(error))
  t.match(started, /it ended with 78\n/)
  t.match(started, /Run `tenrec restore` again/)
  for (const words of [
    ['project', 'list'],
    ['project', 'create', '--name', 'Two'],
    ['event', 'list'],
    ['init'],
    ['migrate'],
    ['verify'],
    ['backup', `${folder}-2`],
  ]) {
    const { exitCode, err } = await runCommand(...words, '--data-dir', data)
    t.equal(exitCode, 78, words.join(' '))
    t.match(err, /Run `tenrec restore` again/)
  }
  const repeated = await runCommand('restore', folder, '--force', '--verify', '--data-dir', data)
  t.match(repeated, { exitCode: 0, out: /sound/ })
  t.equal(await nameIn(data), 'the backup')
})

t.test(
  'a restore into a directory with an interrupted creation leaves a complete store',
  async (t) => {
    const root = t.testdir({ data: { creating: '' } })
    const data = join(root, 'data')
    const folder = await backupNamed(root, 'the backup')
    await restore(folder, data, false)
    t.strictSame(readdirSync(data).sort(), ['events', 'flags', 'format', 'log'])
    writeFileSync(join(data, 'format'), 'tenrec 7\n')
    t.equal(await nameIn(data), 'the backup')
  },
)
