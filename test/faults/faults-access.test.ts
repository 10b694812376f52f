/**
 * Tests a data directory that the process may not use: the whole directory or a single file belongs to another user, or
 * the file system is read-only. One line names the file, nothing is changed, and the exit code is 1.
 *
 * @lane all
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { OperatorError } from '../../src/base/errors.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'

const NOBODY = 65_534
const LOG_FILE = join('log', '000000000001.log')
/** Only the superuser may change the user, and mount. */
const NO_ROOT = process.getuid?.() === 0 ? false : 'only the superuser can try this'

async function smallStore(path: string): Promise<void> {
  const dir = await DataDir.open(path)
  const store = new ProjectStore(path)
  store.bootstrap({ projectKey: 'phc_access', personalKey: 'phx_access_of_the_first_owner' })
  await store.close()
  dir.release()
}

async function refusal(path: string): Promise<OperatorError> {
  try {
    const dir = await DataDir.open(path)
    dir.release()
  } catch (error) {
    if (error instanceof OperatorError) return error
    throw error
  }
  throw new Error('it was not refused')
}

async function asNobody<T>(action: () => Promise<T>): Promise<T> {
  process.seteuid?.(NOBODY)
  try {
    return await action()
  } finally {
    process.seteuid?.(0)
  }
}

/** Everything in the directory, by path. */
function contents(path: string): object {
  const names = readdirSync(path, { recursive: true, encoding: 'utf8' }).sort()
  const files = names.filter(
    (name) => /\.mdb$|\.log$|^format$/.test(name) && !name.endsWith('lock.mdb'),
  )
  return { names, files: files.map((name) => readFileSync(join(path, name)).toString('base64')) }
}

t.test(
  'a store of another user is refused with the file and exit code 1',
  { skip: NO_ROOT },
  async (t) => {
    // The folder of the tests may be closed to other users.
    const path = join(t.testdir({}), 'data')
    await smallStore(path)
    const before = contents(path)
    const everything = [path, ...readdirSync(path, { recursive: true, encoding: 'utf8' })]
    const open = (closed: string, mode = 0o700): void => {
      for (const name of everything) {
        chmodSync(name === path ? path : join(path, name), name === closed ? mode : 0o777)
      }
    }
    for (const [closed, mode, named] of [
      [path, 0o700, path],
      ['format', 0o700, join(path, 'format')],
      ['log', 0o700, join(path, 'log')],
      [LOG_FILE, 0o700, join(path, LOG_FILE)],
      [LOG_FILE, 0o744, join(path, LOG_FILE)],
      [join('events', 'data.mdb'), 0o700, join(path, 'events', 'data.mdb')],
      [join('flags', 'data.mdb'), 0o744, join(path, 'flags', 'data.mdb')],
    ] as const) {
      open(closed, mode)
      const error = await asNobody(() => refusal(path))
      t.equal(error.exitCode, 1, closed)
      t.ok(error.message.includes(named), error.message)
      t.match(error.message, /EACCES|permission/)
      t.notMatch(error.message, '\n')
      t.strictSame(contents(path), before, 'nothing was changed')
    }
    open('')
    const dir = await asNobody(() => DataDir.open(path))
    dir.release()
  },
)

t.test('a read-only store is refused with exit code 1', { skip: NO_ROOT }, async (t) => {
  const disk = t.testdir({})
  const mount = (options: string): boolean =>
    spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', disk]).status === 0
  if (!mount('size=40m')) {
    t.pass('skipped', { skip: 'no file system can be mounted here' })
    return
  }
  try {
    const path = join(disk, 'data')
    await smallStore(path)
    const before = contents(path)
    t.ok(mount('remount,ro'))
    const error = await refusal(path)
    t.equal(error.exitCode, 1)
    t.match(error.message, `Cannot create ${join(path, 'lock')}`)
    t.match(error.message, /read-only/)
    t.strictSame(contents(path), before)
  } finally {
    spawnSync('umount', ['--lazy', disk])
  }
})
