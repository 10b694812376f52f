/**
 * The memory of the process can be read when no file can be opened: the figures are then those of before.
 *
 * @lane quick
 */
import t from 'tap'
import { memoryUsage, processMemory } from '../../src/base/memory/process-memory.ts'

t.test('without file descriptors the figures are those of before', async (t) => {
  const usage = memoryUsage()
  t.ok(usage.rss > 0 && usage.arrayBuffers > 0)
  t.ok(processMemory().residentBytes > 0)
  const refused = (): never => {
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })
  }
  t.capture(process, 'memoryUsage', Object.assign(refused, { rss: refused }))
  t.strictSame(memoryUsage(), usage)
  t.ok(processMemory().residentBytes > 0)
})
