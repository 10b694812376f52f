/**
 * `tenrec prove-durability` passes with the built daemon and fails with a daemon that loses, duplicates or changes
 * events.
 *
 * @lane all
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { runCommand } from '../fixtures/command-line.ts'

const MAIN = resolve('dist/main.js')
const LOSING = resolve('test/fixtures/faults/losing-daemon.mjs')

/** Runs the check in a process of its own, as an operator does. */
async function prove(
  program: string,
  ...words: readonly string[]
): Promise<{ readonly exitCode: number | null; readonly out: string; readonly err: string }> {
  const child = spawn(process.execPath, [program, 'prove-durability', ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    // A setting of the shell must not reach the daemons of the check.
    env: { PATH: process.env['PATH'], TENREC_DURABILITY: 'commit' },
  })
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const [out, err, exitCode] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { exitCode, out, err }
}

t.test('the check passes with a daemon that keeps every acknowledged event', async (t) => {
  const dataDir = t.testdir({})
  const load = ['--kills', '2', '--seconds', '1', '--connections', '2', '--seed', '2']
  const { exitCode, out, err } = await prove(MAIN, '--data-dir', dataDir, ...load, '--json')
  t.equal(exitCode, 0, err)
  const report = JSON.parse(out) as Record<string, unknown>
  t.match(report, {
    verdict: 'passed',
    lost: 0,
    doubled: 0,
    altered: 0,
    invented: 0,
    kills: 2,
    seed: 2,
    durability: 'fsync',
    node: process.versions.node,
    data_dir: dataDir,
    kernel: /\d/,
    file_system: /\w/,
    mounted_from: /./,
    tenrec: /^\d+\.\d+\.\d+/,
    unexpected_answers: {},
    ended_by_themselves: 0,
  })
  t.ok(Number(report['acknowledged']) > 0, 'events were sent')
  t.equal(Number(report['acknowledged']) + Number(report['unanswered']), report['sent'])
  t.ok(Number(report['longest_recovery_ms']) > 0)
  t.ok(Number(report['disk_flush_p50_ms']) > 0)
  t.match(err, /Kill 2 of 2, /)
  t.strictSame(
    readdirSync(dataDir),
    [],
    "the data is removed, and the operator's directory is kept",
  )
})

t.test('the check fails with a daemon that loses, duplicates and changes events', async (t) => {
  const dataDir = join(t.testdir({}), 'proof')
  const load = ['--kills', '2', '--seconds', '1', '--connections', '4', '--seed', '117']
  const { exitCode, out, err } = await prove(LOSING, '--data-dir', dataDir, ...load, '--json')
  t.equal(exitCode, 3, err)
  const report = JSON.parse(out) as Record<string, unknown>
  t.equal(report['verdict'], 'failed')
  for (const fault of ['lost', 'doubled', 'altered']) {
    t.ok(Number(report[fault]) > 0, fault)
    const [uuid] = report[`${fault}_uuids`] as readonly string[]
    t.match(uuid, /^[0-9a-f-]{36}$/)
  }
  t.equal(report['invented'], 0)
  t.match(err, `The data is in ${dataDir}`)
  t.ok(existsSync(join(dataDir, 'events')), 'the data is kept so that the fault can be examined')
})

t.test(
  'only an empty directory is accepted, and files in another directory are not changed',
  async (t) => {
    const folder = t.testdir({ used: { file: 'x' } })
    const used = join(folder, 'used')
    for (const path of [used, join(used, 'file')]) {
      const { exitCode, err } = await runCommand('prove-durability', '--data-dir', path)
      t.equal(exitCode, 1)
      t.match(err, /is not an empty directory/)
    }
    t.strictSame(readdirSync(used), ['file'])
    for (const words of [
      [],
      ['--data-dir', join(folder, 'new'), '--kills', '10001'],
      ['--data-dir', join(folder, 'new'), '--seconds', '0'],
      ['--data-dir', join(folder, 'new'), '--durability', 'replicated'],
    ]) {
      t.equal((await runCommand('prove-durability', ...words)).exitCode, 2, words.join(' '))
    }
    t.notOk(existsSync(join(folder, 'new')))
  },
)

t.test(
  'if the daemon does not start, the check ends with the last output of the daemon',
  async (t) => {
    const folder = t.testdir({})
    const program = join(folder, 'program.mjs')
    mkdirSync(join(folder, 'data'))
    writeFileSync(
      program,
      `if (process.argv[2] === 'serve') { console.log('no disk today'); process.exit(1) }
    await import(${JSON.stringify(MAIN)})`,
    )
    const { exitCode, err } = await prove(
      program,
      '--data-dir',
      join(folder, 'data'),
      '--seed',
      '2',
    )
    t.equal(exitCode, 1)
    t.match(err, /The daemon did not become ready\. Its last output was:\s+no disk today/)
  },
)
