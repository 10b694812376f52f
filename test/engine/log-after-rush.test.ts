/**
 * Tests that the threads of a daemon release the disk space of a rush. For the log itself, see
 * store/log-shrinking.test.ts.
 *
 * @lane quick
 */
import t from 'tap'
import { WorkerPool } from '../../src/engine/threads/pool.ts'
import { logBytes } from '../../src/store/directory/log-place.ts'
import { block, namesIn } from '../fixtures/faults/named-log.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'

const MIB = 1024 * 1024

t.test('the log is small again after a rush, including waiting blocks', async (t) => {
  const dataDir = t.testdir()
  const pool = new WorkerPool({
    threads: threadSettings(dataDir),
    workerThreads: 1,
    analyticsThreads: 1,
    queryMsMax: 1000,
    shrinkLogEveryMs: 200,
    onDeath: ({ cause }) => t.fail(String(cause)),
  })
  t.teardown(() => pool.close())
  const append = async (name: string, padBytes: number, trimThrough: number): Promise<void> => {
    const bytes = Buffer.from(block(name, padBytes))
    const buffer = new Uint8Array(bytes).buffer
    await pool.append({ blocks: [{ buffer, bytes: bytes.length }], trimThrough })
  }
  for (let number = 1; number <= 12; number++) await append(`b${number}`, 2 * MIB, 0)
  const rushBytes = logBytes(dataDir)
  t.ok(rushBytes > 24 * MIB)
  await append('waits', 10, 12)
  for (let look = 0; look < 300 && logBytes(dataDir) > 2 * MIB; look++) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    // Waiting blocks keep their file until they are processed. The next append reports that.
    if (look === 20) await pool.append({ blocks: [], trimThrough: 13 })
  }
  t.ok(logBytes(dataDir) <= 2 * MIB, `${rushBytes} bytes became ${logBytes(dataDir)}`)
  await append('later', 10, 13)
  t.strictSame([...namesIn(dataDir).values()], ['later'])
})
