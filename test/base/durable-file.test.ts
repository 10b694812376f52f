/**
 * Tests the order in which a durable file is written: its content is on the disk before the file gets its name, and the
 * name is on the disk before the call returns.
 *
 * @lane quick
 */
import { readlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { writeDurably } from '../../src/base/durable-file.ts'
import { withChanges } from '../fixtures/faults/log-steps.ts'

t.test('the content is flushed before the rename, and the folder after it', async (t) => {
  const folder = t.testdir()
  const steps: string[] = []
  await withChanges(
    (name, words, real) => {
      const result = real(...words)
      if (name === 'fsyncSync') {
        steps.push(`flush ${basename(readlinkSync(`/proc/self/fd/${String(words[0])}`))}`)
      } else if (name === 'renameSync') steps.push(`rename to ${basename(String(words[1]))}`)
      return result
    },
    () => writeDurably(join(folder, 'note'), 'content'),
  )
  t.strictSame(steps, ['flush note.new', 'rename to note', `flush ${basename(folder)}`])
})
