/**
 * Tests the log on disk and one in memory against src/ports/log.ts.
 *
 * @lane quick
 */
import t from 'tap'
import { LogAppender, LogReader } from '../../src/store/log/event-log.ts'
import { logContract } from './log-contract.ts'
import { MemoryLog } from './memory-log.ts'

logContract(t, 'embedded', (t) => {
  const dataDir = t.testdir()
  const appender = new LogAppender({ dataDir, processed: 0 })
  const openReader = (): LogReader => {
    const reader = new LogReader({ dataDir })
    t.teardown(() => reader.close())
    return reader
  }
  t.teardown(() => appender.close())
  return { appender, reader: openReader(), openReader }
})

logContract(t, 'in memory', () => {
  const appender = new MemoryLog()
  const openReader = (): MemoryLog => new MemoryLog(appender.memory)
  return { appender, reader: openReader(), openReader }
})
