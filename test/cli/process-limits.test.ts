/**
 * If the limit of open files or of address space is too low, the program says so in one sentence and changes nothing.
 *
 * @lane quick
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { filesOfDaemon } from '../../src/base/process-limits.ts'

const LITTLE_SPACE = `-v ${95 * 1024 * 1024}`
const REFUSED = {
  status: 78,
  stdout: '',
  stderr:
    /^tenrec: The limit of address space is 95 GiB, but at least 640 GiB are needed\. Remove the limit with /,
}

/** Runs the built program in a shell that sets a limit first. */
function runWith(limit: string, ...args: readonly string[]) {
  const script = `ulimit ${limit}; exec "$0" "$@"`
  const { status, stdout, stderr } = spawnSync(
    'sh',
    ['-c', script, process.execPath, 'dist/main.js', ...args],
    { encoding: 'utf8', env: { PATH: process.env['PATH'] ?? '' } },
  )
  return { status, stdout, stderr }
}

t.test('a command needs a minimum of open files', async (t) => {
  t.match(runWith('-n 40', 'version'), {
    status: 78,
    stdout: '',
    stderr:
      /^tenrec: The limit of open files is 40, but at least 56 are needed\. Raise it with .*\n$/,
  })
  t.match(runWith('-n 64', 'version'), { status: 0, stderr: '' })
})

t.test('a daemon needs more open files, depending on its number of threads', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const limit = filesOfDaemon(8) - 1
  t.match(runWith(`-n ${limit}`, 'serve', '--data-dir', dataDir, '--port', '0', '--workers', '8'), {
    status: 78,
    stdout: '',
    stderr: new RegExp(`at least ${limit + 1} are needed`),
  })
  t.notOk(existsSync(dataDir))
})

t.test('a daemon needs address space for its data files', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  t.match(runWith(LITTLE_SPACE, 'serve', '--data-dir', dataDir, '--port', '0'), REFUSED)
  t.notOk(existsSync(dataDir))
})

t.test('a command that opens the store needs as much', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  t.equal(runWith('-n 4096', 'init', '--data-dir', dataDir).status, 0)
  for (const command of ['verify', 'project list']) {
    const words = command.split(' ')
    t.match(runWith(LITTLE_SPACE, ...words, '--data-dir', dataDir), REFUSED, command)
  }
})
