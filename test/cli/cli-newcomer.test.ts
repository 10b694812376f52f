/**
 * The first hour with `tenrec`: mistakes end with one clear sentence and leave no files behind, and `tenrec status`
 * reports the state of the daemon.
 *
 * @lane all
 */
import { existsSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { VERSION } from '../../src/base/version.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { spawnDaemon } from '../fixtures/daemon.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.test('an export that cannot be written gives the reason and leaves no file behind', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const out = join(t.testdirName, 'out')
  const beside = ['--data-dir', dataDir]
  const early = await runCommand('export', '--output', out, ...beside)
  t.match(early, { exitCode: 1, err: /There is no store/ })
  t.notOk(existsSync(out), 'no file without a store')
  t.equal((await runCommand('init', ...beside)).exitCode, 0)
  for (const format of ['ndjson', 'parquet']) {
    const words = ['export', '--format', format, '--output', join(out, 'x'), ...beside]
    const { exitCode, err } = await runCommand(...words)
    t.equal(exitCode, 1)
    t.equal(err, `tenrec: ${out}/x cannot be written: there is no directory ${out}.\n`)
    const late = await runCommand('export', '--output', out, '--after', 'yesterday', ...beside)
    t.match(late, { exitCode: 2, err: /--after/ })
    t.notOk(existsSync(out))
  }
  const unwritable = await runCommand('export', '--output', `${dataDir}/format/x`, ...beside)
  t.match(unwritable, {
    exitCode: 1,
    err: /cannot be written: a part of the path is not a directory/,
  })
})

t.test(
  'an import of Parquet says that the format is not supported and lists the supported ones',
  async (t) => {
    const { exitCode, out, err } = await runCommand('import', 'x.ndjson', 'x.parquet')
    t.match({ exitCode, out }, { exitCode: 2, out: '' })
    t.match(err, /^tenrec: x\.parquet is a Parquet file, .*JSON.*\.gz.*'tenrec export'/)
  },
)

t.test('-v, --version and version print the version', async (t) => {
  for (const words of ['-v', '--version', 'version']) {
    t.strictSame(await runCommand(words), { exitCode: 0, out: `${VERSION}\n`, err: '' })
  }
})

t.test('completion without a shell lists the supported shells', async (t) => {
  const { exitCode, out, err } = await runCommand('completion')
  t.match({ exitCode, out }, { exitCode: 2, out: '' })
  t.match(err, 'tenrec completion bash|zsh|fish')
})

t.test('status of a daemon that is running, degraded, hanging or stopped', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const status = async (...words: readonly string[]) => {
    const outcome = await runCommand('status', '--json', '--data-dir', dataDir, ...words)
    return { exitCode: outcome.exitCode, row: JSON.parse(outcome.out) as Record<string, unknown> }
  }
  // Another program may listen on that port. It does not serve this directory.
  t.match(await status(), { exitCode: 1, row: { state: 'stopped', process: null } })

  const daemon = await spawnDaemon({ dataDir })
  t.teardown(() => daemon.kill())
  const folder = join(t.testdirName, 'copies')
  t.equal((await runCommand('backup', folder, '--data-dir', dataDir)).exitCode, 0)
  const running = await status('--backups', folder)
  t.match(running, {
    exitCode: 0,
    row: {
      state: 'running',
      reasons: [],
      url: daemon.url,
      process: daemon.pid,
      version: VERSION,
      events_per_second: 0,
      waiting_events: 0,
      uptime_seconds: Number,
      main_thread_lag_seconds: Number,
      last_backup: /^\d{4}-.*Z$/,
      log_bytes: Number,
      events_bytes: Number,
      flags_bytes: Number,
      disk_free_bytes: Number,
    },
  })
  t.match(await runCommand('status', '--data-dir', dataDir), { out: /^uptime +\d+ s$/m })
  const remote = await status('--base-url', daemon.url)
  t.match(remote, { exitCode: 0, row: { state: 'running', version: VERSION } })
  t.notOk('data_dir' in remote.row, 'an address alone says nothing about a directory')
  await daemon.stop()
  t.match(await status(), { exitCode: 1, row: { state: 'stopped', data_dir: dataDir } })

  const full = await spawnDaemon({ dataDir, args: ['--disk-reserve', '16TiB'] })
  t.teardown(() => full.kill())
  const asked = ['--base-url', full.url]
  t.ok(await eventually(async () => (await status(...asked)).row['state'] === 'degraded'))
  t.match(await status(...asked), { exitCode: 3, row: { reasons: [/disk/] } })
  t.match(await status(), { exitCode: 3, row: { state: 'degraded', data_dir: dataDir } })
  // Without the file, only the setting is known, and the daemon listens on a free port.
  rmSync(join(dataDir, 'credentials.json'))
  t.match(await status(), {
    exitCode: 3,
    row: { state: 'silent', reasons: [/listen at another address/] },
  })
})

t.test('status does not mistake another program for the daemon', async (t) => {
  const server = createServer((_, response) => response.end('<html>'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const words = ['status', '--base-url', `http://127.0.0.1:${port}`]
  t.match(await runCommand(...words), { exitCode: 1, out: /is not Tenrec/ })
  t.match(await runCommand('status', '--base-url', 'x'), {
    exitCode: 2,
    err: /not an address such as/,
  })
})
