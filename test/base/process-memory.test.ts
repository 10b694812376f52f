/**
 * Tests that the memory figures of the process are available even if no file can be opened. The figures are then the
 * previous ones.
 *
 * @lane quick
 */
import t from 'tap'
import { memoryUsage, processMemory } from '../../src/base/memory/process-memory.ts'

t.test('without file descriptors the previous figures are returned', async (t) => {
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
