/**
 * Tests the log on a full disk: which appends are refused, what continues to work, and a start.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { logFolder, logNumbers, logPath } from '../../src/store/log/log-file.ts'
import { overwrite } from '../fixtures/faults/data-file.ts'
import { systemError, withChanges } from '../fixtures/faults/log-steps.ts'
import { block, goesOn, namesIn } from '../fixtures/faults/named-log.ts'

const PAGE = 4096

t.setTimeout(120_000)

t.test('a full disk is detected before anything is written, and can recover', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  const names: string[] = []
  let isFull = true
  let refused = 0
  await withChanges(
    (name, words, real) => {
      const isZeros =
        name === 'writevSync' && (words[1] as Buffer[])[0]?.every((byte) => byte === 0)
      if (isFull && isZeros === true) throw systemError('ENOSPC')
      return real(...words)
    },
    () => {
      for (let round = 0; round < 10; round++) {
        try {
          log.append([block(`b${names.length + 1}`, 200_000)], 0)
          names.push(`b${names.length + 1}`)
        } catch (error) {
          t.ok(error instanceof ServiceError)
          t.match(error, { status: 503, message: /disk is nearly full/ })
          refused++
        }
        if (round === 7) isFull = false
      }
    },
  )
  t.ok(refused > 0 && names.length > 5)
  await log.close()
  t.strictSame([...namesIn(dataDir).values()], names)
})

t.test(
  'a start on a full disk continues in the last file unless data follows its end',
  async (t) => {
    const dataDir = join(t.testdir(), 'data')
    const onFullDisk = async (run: () => Promise<void> | void): Promise<void> =>
      withChanges((name, words, real) => {
        const isZeros =
          name === 'writevSync' && (words[1] as Buffer[])[0]?.every((byte) => byte === 0)
        if (isZeros === true) throw systemError('ENOSPC')
        return real(...words)
      }, run)
    const log = new LogAppender({ dataDir, processed: 0 })
    log.append([block('b1')], 0)
    log.append([block('b2', 9000)], 0)
    await log.close()
    const names = ['b1', 'b2']
    for (const start of [1, 2, 3]) {
      await onFullDisk(async () => {
        const again = new LogAppender({ dataDir, processed: 0 })
        t.equal(again.append([block(`start ${start}`)], 0), 2 + start)
        t.throws(() => again.append([block('large', 3_000_000)], 0), {
          message: /disk is nearly full/,
        })
        await again.close()
      })
      names.push(`start ${start}`)
      t.strictSame([...namesIn(dataDir).values()], names)
      t.strictSame(logNumbers(logFolder(dataDir)), [1])
    }
    // The head of a frame that a power cut truncated, after a frame that is missing.
    const file = logPath(logFolder(dataDir), 1)
    const bytes = readFileSync(file)
    const end = bytes.length - 8 * PAGE
    overwrite(file, end, bytes.subarray(PAGE, 2 * PAGE))
    const before = new Map(namesIn(dataDir))
    await onFullDisk(() => {
      t.throws(() => new LogAppender({ dataDir, processed: 0 }), { message: /disk is nearly full/ })
    })
    t.strictSame(namesIn(dataDir), before)
    t.ok(await goesOn(dataDir), 'with room, the log continues in another file')
  },
)
