/**
 * Tests what durability asks of the disk. With `fsync`, an append returns when the disk has it, because its file was
 * opened with O_DSYNC. With `commit`, the file is flushed soon after. Names of files and data of a killed process are
 * flushed in any case.
 *
 * @lane quick
 */
import fs, { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { logFolder } from '../../src/store/log/log-file.ts'
import { block } from '../fixtures/faults/named-log.ts'

/** The flags of a descriptor that select reading or writing. */
const ACCESS_MODE = 3

/** The flags with which this process has opened each file of a folder for writing, as the kernel reports them. */
function writeFlags(folder: string): readonly number[] {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      if (!readlinkSync(`/proc/self/fd/${descriptor}`).startsWith(`${folder}/`)) return []
      const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
      const flags = Number.parseInt(/^flags:\s+(\d+)$/m.exec(info)?.[1] ?? '', 8)
      return (flags & ACCESS_MODE) === fs.constants.O_RDONLY ? [] : [flags]
    } catch {
      // The descriptor that read /proc is closed by now.
      return []
    }
  })
}

t.test('with fsync, every file that the log writes is opened for synchronous writes', async (t) => {
  const dataDir = t.testdir()
  const log = new LogAppender({ dataDir, processed: 0 })
  log.append([block('first')], 0)
  // Larger than a file, so that the next one is opened as well.
  for (let index = 0; index < 4; index++) log.append([block(`large ${index}`, 700_000)], 0)
  const flags = writeFlags(logFolder(dataDir))
  t.ok(flags.length > 0, 'the log has a file open')
  t.strictSame(
    flags.filter((each) => (each & fs.constants.O_DSYNC) === 0),
    [],
    'no file is written without O_DSYNC',
  )
  await log.close()
})

t.test('with commit, the file of an append is flushed without a request', async (t) => {
  const dataDir = t.testdir()
  const log = new LogAppender({ dataDir, processed: 0, isFlushDeferred: true })
  const { fdatasync } = fs
  const flushed: string[] = []
  const isFlushed = new Promise<void>((resolve) => {
    const observed = (descriptor: number, done: fs.NoParamCallback): void => {
      flushed.push(readlinkSync(`/proc/self/fd/${descriptor}`))
      fdatasync(descriptor, done)
      resolve()
    }
    Object.assign(fs, { fdatasync: observed })
  })
  t.teardown(() => Object.assign(fs, { fdatasync }))
  log.append([block('first')], 0)
  await isFlushed
  t.ok(flushed[0]?.startsWith(`${logFolder(dataDir)}/`), 'the file of the log was flushed')
  await log.close()
})

/** Calls `action` and returns the paths that it has flushed with fsync, in order. */
async function fsyncedBy(t: Test, action: () => Promise<void>): Promise<readonly string[]> {
  const { fsyncSync } = fs
  const paths: string[] = []
  const observed = (descriptor: number): void => {
    paths.push(readlinkSync(`/proc/self/fd/${descriptor}`))
    fsyncSync(descriptor)
  }
  Object.assign(fs, { fsyncSync: observed })
  t.teardown(() => Object.assign(fs, { fsyncSync }))
  await action()
  Object.assign(fs, { fsyncSync })
  return paths
}

t.test('the name of a new file and what a killed process left are flushed', async (t) => {
  const dataDir = t.testdir()
  const folder = logFolder(dataDir)
  const files = () => readdirSync(folder).filter((name) => /^\d+/.test(name))
  const made = await fsyncedBy(t, async () => {
    const log = new LogAppender({ dataDir, processed: 0 })
    for (let index = 0; index < 4; index++) log.append([block(`large ${index}`, 700_000)], 0)
    await log.close()
  })
  const flushes = made.filter((path) => path === folder).length
  t.ok(flushes >= files().length, `${flushes} flushes of the folder for ${files().join(', ')}`)
  const newest = join(folder, files().sort().at(-1) ?? '')
  const reopened = await fsyncedBy(t, async () => {
    await new LogAppender({ dataDir, processed: 0 }).close()
  })
  t.ok(reopened.includes(newest), `${newest} is among the flushed ${reopened.join(', ')}`)
})
