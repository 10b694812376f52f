/**
 * Tests the disk space that the log releases after a rush. For kills during that, see log-power-cuts.test.ts.
 *
 * @lane all
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { LogAppender, LogReader } from '../../src/store/log/event-log.ts'
import { logFolder, logNumbers, logPath } from '../../src/store/log/log-file.ts'
import { systemError, withChanges } from '../fixtures/faults/log-steps.ts'
import { block, goesOn, look, namesIn } from '../fixtures/faults/named-log.ts'

const MIB = 1024 * 1024

function mebibytes(dataDir: string): number {
  const folder = logFolder(dataDir)
  const sizes = logNumbers(folder).map((number) => statSync(logPath(folder, number)).size)
  return sizes.reduce((sum, bytes) => sum + bytes, 0) / MIB
}

/** A log that received a number of blocks of one MiB. Returns their names. */
function rush(log: LogAppender, count: number): readonly string[] {
  const names = Array.from({ length: count }, (_, index) => `b${index + 1}`)
  for (const name of names) log.append([block(name, MIB)], 0)
  return names
}

for (const isFlushDeferred of [false, true]) {
  t.test(`after a rush the files are small again, deferred: ${isFlushDeferred}`, async (t) => {
    const dataDir = join(t.testdir(), 'data')
    const log = new LogAppender({ dataDir, processed: 0, isFlushDeferred })
    const reader = new LogReader({ dataDir })
    const names = rush(log, 40)
    const atMost = mebibytes(dataDir)
    t.ok(atMost > 40)
    log.shrink()
    t.equal(mebibytes(dataDir), atMost, 'much data arrived since the last check')
    log.append([block('trickle')], 0)
    log.shrink()
    t.strictSame([...namesIn(dataDir).values()], [...names, 'trickle'], 'what waits stays')
    log.append([block('after')], 39)
    t.ok(mebibytes(dataDir) > 20, 'a block of a large file is still waiting')
    reader.refresh()
    t.ok(reader.block(40)?.includes('"b40"'), 'a reader that began earlier continues')
    t.ok(reader.block(42)?.includes('"after"'))
    log.append([], 42)
    t.equal(mebibytes(dataDir), 1)
    log.shrink()
    t.strictSame(logNumbers(logFolder(dataDir)).length, 1, 'a small file is not released')
    await reader.close()
    await log.close()
    t.match(look(dataDir, 42), { damage: null, missing: null, last: 42 })
    t.ok(await goesOn(dataDir, 42))
  })
}

t.test('many files are removed in several steps, without another append', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  const rounds = 12
  for (let round = 1; round <= rounds; round++) {
    log.append([block(`b${round}`, 3 * MIB)], 0)
    // The first check finds that much data arrived, and the second one begins a small file.
    for (const _look of [1, 2]) log.shrink()
  }
  t.ok(logNumbers(logFolder(dataDir)).length > rounds)
  log.append([], rounds)
  t.ok(mebibytes(dataDir) > 12, 'an append removes a few files')
  for (let looks = 0; looks < rounds; looks++) log.shrink()
  t.equal(mebibytes(dataDir), 1)
  await log.close()
  t.ok(await goesOn(dataDir, rounds))
})

t.test('a second rush creates large files again', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  for (const last of [30, 60, 90]) {
    rush(log, 30)
    t.ok(mebibytes(dataDir) > 30)
    log.append([], last)
    for (const _look of [1, 2]) log.shrink()
    t.equal(mebibytes(dataDir), 1)
  }
  await log.close()
})

t.test('if a small file cannot be created, the large ones stay, and nothing is lost', async (t) => {
  for (const [failing, code] of [
    ['openSync', 'EMFILE'],
    ['writevSync', 'ENOSPC'],
    ['fsyncSync', 'EIO'],
  ] as const) {
    const dataDir = join(t.testdir({ [code]: {} }), code)
    const log = new LogAppender({ dataDir, processed: 0 })
    const names = rush(log, 12)
    log.shrink()
    let failed = 0
    await withChanges(
      (name, words, real) => {
        if (name !== failing) return real(...words)
        failed++
        throw systemError(code)
      },
      () => log.shrink(),
    )
    t.ok(failed > 0, code)
    for (let round = 0; round < 30; round++) log.append([block('later', MIB)], 0)
    await log.close()
    t.strictSame([...namesIn(dataDir).values()].slice(0, names.length), names)
    t.equal(namesIn(dataDir).size, names.length + 30)
    t.equal(look(dataDir).damage, null)
  }
})
