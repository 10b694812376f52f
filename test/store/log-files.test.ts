/**
 * Tests the log as files: failing disks, flipped bytes, truncated or missing files, large blocks, several readers. For
 * full disks see log-full-disk.test.ts, for kills and power cuts log-power-cuts.test.ts.
 *
 * @lane all
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import t from 'tap'
import { LogPlace } from '../../src/store/directory/log-place.ts'
import { LogAppender, LogReader } from '../../src/store/log/event-log.ts'
import { DamagedLogError, logFolder, logNumbers, logPath } from '../../src/store/log/log-file.ts'
import { Differences } from '../fixtures/differences.ts'
import { overwrite } from '../fixtures/faults/data-file.ts'
import { systemError, withChanges } from '../fixtures/faults/log-steps.ts'
import {
  block,
  fill,
  goesOn,
  isComplete,
  look,
  namesIn,
  repetitiveBlock,
} from '../fixtures/faults/named-log.ts'

const SECTOR = 512
const PAGE = 4096

t.setTimeout(300_000)

/** Returns whether a log reports damage, when it is opened or when a block is read. */
function isFound(dataDir: string): boolean {
  try {
    if (look(dataDir).damage !== null) return true
    namesIn(dataDir)
    return false
  } catch (error) {
    if (error instanceof DamagedLogError || error instanceof RangeError) return true
    throw error
  }
}

t.test('a flipped byte is detected, or changes nothing', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  const names = fill(log, 5, () => 10)
  log.append([], 1)
  log.append([block('b6', 5000)], 1)
  await log.close()
  // Closed by the next run, with another file with a frame after it.
  const next = new LogAppender({ dataDir, processed: 0 })
  next.append([block('b7')], 1)
  await next.close()
  const expected = new Map([...names, 'b6', 'b7'].map((name, index) => [index + 1, name]))
  expected.delete(1)
  t.strictSame(namesIn(dataDir), expected)
  const counts = { found: 0, harmless: 0 }
  for (const number of logNumbers(logFolder(dataDir))) {
    const file = logPath(logFolder(dataDir), number)
    const bytes = readFileSync(file)
    for (let place = 0; place < 13 * PAGE; place++) {
      // Most of a page is filled with zeros.
      if (place % PAGE > 130 && place % 397 !== 0) continue
      const byte = bytes[place] ?? 0
      overwrite(file, place, Buffer.of(byte ^ (place % 3 === 0 ? 0xff : 1 << (place % 8))))
      if (isFound(dataDir)) counts.found++
      else {
        counts.harmless++
        const found = namesIn(dataDir)
        // A block that was already released may become visible again.
        found.forEach((name, sequence) => {
          if (sequence > 1 && expected.get(sequence) !== name) t.fail(`byte ${place} of ${number}`)
        })
        if (found.size < expected.size) t.fail(`byte ${place} of ${number}: a block is lost`)
      }
      overwrite(file, place, Buffer.of(byte))
    }
  }
  t.ok(counts.found > 400, `${counts.found} flips were found, ${counts.harmless} were harmless`)
  t.notOk(isFound(dataDir))
})

t.test('a truncated, empty, zeroed or missing file is refused', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  fill(log, 8, () => 400_000)
  await log.close()
  const numbers = logNumbers(logFolder(dataDir))
  t.ok(numbers.length >= 3)
  const saved = `${dataDir}-saved`
  cpSync(dataDir, saved, { recursive: true })
  const damages: Readonly<Record<string, (file: string) => void>> = {
    'cut to nothing': (file) => truncateSync(file, 0),
    'cut in half': (file) => truncateSync(file, statSync(file).size / 2),
    'without its last page': (file) => truncateSync(file, statSync(file).size - PAGE),
    zeroed: (file) => overwrite(file, 0, Buffer.alloc(statSync(file).size)),
    'of another log': (file) => {
      const other = `${dataDir}-other`
      void new LogAppender({ dataDir: other, processed: 7 }).close()
      cpSync(logPath(logFolder(other), 1), file)
      rmSync(other, { recursive: true })
    },
    gone: (file) => rmSync(file),
  }
  const differences = new Differences()
  for (const [what, damage] of Object.entries(damages)) {
    for (const number of numbers) {
      damage(logPath(logFolder(dataDir), number))
      const isUnused = number === numbers.at(-1) && !namesInFile(saved, number)
      const isHarmless = isUnused && (what === 'gone' || what === 'of another log')
      if (!isHarmless) differences.ok(isRefused(dataDir), `file ${number} ${what}`)
      rmSync(dataDir, { recursive: true })
      cpSync(saved, dataDir, { recursive: true })
    }
  }
  t.strictSame(differences.list(), [], 'every damage is refused')
  t.notOk(isRefused(dataDir))
})

function namesInFile(dataDir: string, number: number): boolean {
  return readFileSync(logPath(logFolder(dataDir), number)).readUInt32LE(PAGE) !== 0
}

function isRefused(dataDir: string): boolean {
  try {
    const { damage, missing } = look(dataDir)
    return damage !== null || missing !== null
  } catch (error) {
    if (error instanceof DamagedLogError) return true
    throw error
  }
}

t.test('an appender does not cut off data that whole frames follow', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  fill(log, 6, () => 10)
  await log.close()
  const file = logPath(logFolder(dataDir), 1)
  overwrite(file, 2 * PAGE + 20, Buffer.of(0x5a))
  const before = readFileSync(file)
  t.match(look(dataDir).damage, { file, first: 2, last: 3 })
  t.equal(look(dataDir, 3).damage, null, 'processed blocks are not needed')
  t.ok(readFileSync(file).equals(before), 'no file was changed')
  const reader = new LogReader({ dataDir })
  t.throws(() => reader.block(2), DamagedLogError, 'no reader skips the damage')
  t.ok(reader.block(4)?.includes('"b4"'))
  await reader.close()
  const again = new LogAppender({ dataDir, processed: 3 })
  t.equal(again.append([block('after')], 3), 7)
  await again.close()
  t.strictSame([...namesIn(dataDir)].slice(-4), [
    [4, 'b4'],
    [5, 'b5'],
    [6, 'b6'],
    [7, 'after'],
  ])
  t.match(look(dataDir).damage, { file, first: 2, last: 3 }, 'the damage is still refused')
})

t.test('client bytes that look like a frame are not read as one', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  log.append([block('b1')], 0)
  const file = logPath(logFolder(dataDir), 1)
  const frame = readFileSync(file).subarray(PAGE, 2 * PAGE)
  // A client knows everything but the salt of the file.
  frame.fill(0, 8, 16)
  log.append([Buffer.concat([block('b2', 9000), frame, frame])], 0)
  overwrite(file, 2 * PAGE, Buffer.alloc(SECTOR))
  t.strictSame([...namesIn(dataDir).values()], ['b1'])
  t.equal(look(dataDir).damage, null)
  t.ok(await goesOn(dataDir))
  t.strictSame([...namesIn(dataDir).values()], ['b1', 'after'])
})

t.test('a failed write ends the appender; acknowledged blocks are kept', async (t) => {
  for (const code of ['EIO', 'ENOSPC']) {
    const dataDir = join(t.testdir({ [code]: {} }), code)
    const log = new LogAppender({ dataDir, processed: 0 })
    log.append([block('b1')], 0)
    await withChanges(
      (name, words, real) => {
        if (name === 'writevSync') throw systemError(code)
        return real(...words)
      },
      () => t.throws(() => log.append([block('b2')], 0), { code }),
    )
    t.throws(() => log.append([block('b3')], 0), { code }, 'the block is not written again')
    await log.close()
    t.strictSame([...namesIn(dataDir).values()], ['b1'])
    t.ok(await goesOn(dataDir))
  }
})

t.test('a rename with a failed flush is undone and repeated', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  const place = new LogPlace(dataDir)
  let last = 0
  let flushes = 0
  let isBroken = false
  await withChanges(
    (name, words, real) => {
      if (name === 'fsyncSync' && (++flushes % 2 === 1 || isBroken)) throw systemError('EIO')
      return real(...words)
    },
    () => {
      const differences = new Differences()
      while (last < 60) {
        const trimmed = Math.max(0, last - 3)
        last = log.append([block(`b${last + 1}`, 100_000)], trimmed)
        const names = [...namesIn(dataDir).values()]
        const waiting = Array.from({ length: last - trimmed }, (_, index) => trimmed + index + 1)
        const expected = waiting.map((number) => `b${number}`)
        differences.same(names, expected, `the blocks after block ${last}`)
        differences.ok(place.isInPlace(), `the log is in place after block ${last}`)
      }
      t.strictSame(differences.list(), [], 'every block is appended and the log stays in place')
      t.ok(flushes > 16, `there were ${flushes} flushes`)
      t.ok((logNumbers(logFolder(dataDir))[0] ?? 0) > 2, 'files are reused')
      isBroken = true
      // Not in a file whose name a power cut may remove.
      t.throws(
        () => {
          while (last < 90) last = log.append([block(`b${last + 1}`, 100_000)], 57)
        },
        { code: 'EIO' },
      )
    },
  )
  t.ok(last < 90)
  await log.close()
  t.ok(await goesOn(dataDir, 57))
  const names = [...namesIn(dataDir).values()].slice(-last + 56)
  t.equal(names.at(-1), 'after')
  t.equal(names.at(-2), `b${last}`)
})

t.test('a reader without descriptors waits for one, at any position', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  const reader = new LogReader({ dataDir })
  fill(log, 5, () => 300_000)
  t.ok(logNumbers(logFolder(dataDir)).length > 2, 'the next file is prepared after the last frame')
  let looks = 0
  await withChanges(
    (name, words, real) => {
      const isLook = name === 'openSync' || name === 'readdirSync'
      if (isLook && ++looks % 3 !== 0) throw systemError(looks % 3 === 1 ? 'EMFILE' : 'ENFILE')
      return real(...words)
    },
    () => {
      reader.refresh()
      t.strictSame(reader.extent(), { first: 1, last: 5 })
      for (let sequence = 1; sequence <= 5; sequence++) {
        t.ok(reader.block(sequence)?.includes(`"b${sequence}"`))
      }
    },
  )
  t.ok(looks > 9, `there were ${looks} checks`)
  await reader.close()
  await log.close()
})

t.test('a write that the system splits into parts is complete', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  await withChanges(
    (name, words, real) => {
      if (name !== 'writevSync') return real(...words)
      const [descriptor, parts, position] = words as [number, readonly Buffer[], number]
      const some = Buffer.concat(parts).subarray(0, 1 + (position % 3000))
      return real(descriptor, [some], position)
    },
    async () => {
      const log = new LogAppender({ dataDir, processed: 0 })
      fill(log, 9, (index) => index * 1000)
      await log.close()
    },
  )
  t.equal(namesIn(dataDir).size, 9)
  t.notOk(isFound(dataDir))
})

t.test('large blocks have their own files, which are released', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  log.append([block('b1'), block('b2', 90_000_000)], 0)
  log.append([block('b3', 19_000_000)], 0)
  t.equal(namesIn(dataDir).size, 3)
  log.append([], 3)
  for (let round = 0; round < 4; round++) log.append([block('later', 19_000_000)], 3 + round)
  await log.close()
  const sizes = logNumbers(logFolder(dataDir)).map(
    (number) => statSync(logPath(logFolder(dataDir), number)).size,
  )
  t.ok(Math.max(...sizes) <= 64 * 1024 * 1024, `the sizes are ${sizes.join()}`)
  t.ok(sizes.length <= 4)
})

t.test(
  'blocks that repeat themselves take little of the disk, and are read as before',
  async (t) => {
    const dataDir = join(t.testdir(), 'data')
    const log = new LogAppender({ dataDir, processed: 0 })
    const shared = Buffer.from(new SharedArrayBuffer(2_000_000))
    const bytes = repetitiveBlock('shared', 1_000_000).copy(shared)
    const blocks = [
      ...Array.from({ length: 5 }, (_, index) => repetitiveBlock(`b${index}`, 5_000_000)),
      repetitiveBlock('short', 1000),
      block('other', 1_000_000),
      shared.subarray(0, bytes),
    ]
    log.append(blocks.slice(0, 3), 0)
    for (const one of blocks.slice(3, -2)) log.append([one], 0)
    log.append(blocks.slice(-2), 0)
    const sizes = logNumbers(logFolder(dataDir)).map(
      (number) => statSync(logPath(logFolder(dataDir), number)).size,
    )
    t.ok(sizes.reduce((sum, size) => sum + size, 0) < 8 * 1024 * 1024, `sizes: ${sizes.join()}`)
    const readers = [new LogReader({ dataDir })]
    await log.close()
    const again = new LogAppender({ dataDir, processed: 0 })
    t.equal(again.append([block('last')], 0), blocks.length + 1)
    readers.push(new LogReader({ dataDir }))
    for (const reader of readers) {
      const different = blocks.filter((one, index) => reader.block(index + 1)?.equals(one) !== true)
      t.strictSame(different, [], 'every block is as it was appended, with its seal')
      await reader.close()
    }
    await again.close()
    t.match(look(dataDir), { damage: null, missing: null, last: blocks.length + 1 })
  },
)

t.test('a flipped byte of a deflated block is detected, or changes nothing', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  const appended = repetitiveBlock('b1', 300_000)
  log.append([appended], 0)
  await log.close()
  const file = logPath(logFolder(dataDir), 1)
  const content = readFileSync(file)
  const end = content.subarray(PAGE, 2 * PAGE).findLastIndex((byte) => byte !== 0)
  t.ok(end > 300 && end < PAGE - 1, `the frame has ${end} bytes`)
  let found = 0
  const changed: number[] = []
  for (let place = PAGE; place <= PAGE + end; place += 3) {
    const byte = content[place] ?? 0
    overwrite(file, place, Buffer.of(byte ^ (1 << (place % 8))))
    if (isFound(dataDir)) found++
    else {
      const reader = new LogReader({ dataDir })
      if (reader.block(1)?.equals(appended) !== true) changed.push(place)
      await reader.close()
    }
    overwrite(file, place, Buffer.of(byte))
  }
  t.strictSame(changed, [])
  t.ok(found > end / 10, `${found} flips in ${end} bytes were found`)
  t.notOk(isFound(dataDir))
})

t.test('a deflated block that damage makes shorter than its head is reported', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  log.append([repetitiveBlock('b1', 300_000)], 0)
  await log.close()
  const [frameHeadBytes, entryBytes, lengthBytes] = [48, 16, 4]
  const empty = deflateRawSync('')
  const file = logPath(logFolder(dataDir), 1)
  overwrite(file, PAGE + frameHeadBytes + entryBytes + lengthBytes, empty)
  t.match(look(dataDir).damage, { first: 1, last: 1 })
})

t.test('a log that is checked now and then stays in place, whatever it appends', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  const place = new LogPlace(dataDir)
  let last = 0
  const differences = new Differences()
  for (let round = 1; round <= 12; round++) {
    // The next file is prepared in advance, and then one append needs a larger one.
    while (logNumbers(logFolder(dataDir)).length < 2) {
      last = log.append([block('small', 100_000)], last)
      differences.ok(place.isInPlace(), `block ${last} is in place`)
    }
    last = log.append([block('large', round * 9_000_000)], last)
    last = log.append([block('small', round * 500_000)], last)
    differences.ok(place.isInPlace(), `round ${round}: the log is in place`)
    log.append([], last)
    if (round % 4 === 0) for (const _look of [1, 2]) log.shrink()
    differences.ok(place.isInPlace(), `round ${round}: the log is still in place later`)
  }
  t.strictSame(differences.list(), [], 'the log is in place')
  const [first = 0] = logNumbers(logFolder(dataDir))
  cpSync(logPath(logFolder(dataDir), first), join(dataDir, 'copy'))
  renameSync(join(dataDir, 'copy'), logPath(logFolder(dataDir), first))
  t.notOk(place.isInPlace(), 'another file in place of one that is used')
  await log.close()
})

t.test(
  'numbers continue after the processed blocks, and after all blocks are released',
  async (t) => {
    const dataDir = join(t.testdir(), 'data')
    for (const [processed, expected] of [
      [0, 1],
      [1, 2],
      [7, 8],
      [8, 9],
    ] as const) {
      const log = new LogAppender({ dataDir, processed })
      t.equal(log.append([block('b')], processed), expected)
      log.append([], expected)
      await log.close()
      t.equal(look(dataDir, expected).last, expected)
    }
    t.ok(logNumbers(logFolder(dataDir)).length <= 3, 'files are reused')
  },
)

t.test('a reader next to an appender that recycles sees each block once, in order', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  const readers = [new LogReader({ dataDir }), new LogReader({ dataDir })]
  let seen = 0
  const differences = new Differences()
  for (let round = 1; round <= 400; round++) {
    const trimmed = seen
    const last = log.append([block(`b${round}`, (round * 7919) % 40_000)], trimmed)
    const [quick, slow] = readers
    quick?.refresh()
    differences.equal(quick?.extent()?.last, last, `round ${round}: the last block is read`)
    const isRead = quick?.block(last)?.includes(`"b${round}"`)
    differences.ok(isRead, `round ${round}: the quick reader has the last block`)
    seen = last - (round % 5)
    // It returns now and then, and finds files that were reused.
    if (round % 50 !== 0) continue
    slow?.refresh()
    const isReadLate = slow?.block(last)?.includes(`"b${round}"`)
    differences.ok(isReadLate, `round ${round}: the slow reader has the last block`)
    differences.equal(
      slow?.block(trimmed),
      undefined,
      `round ${round}: a trimmed block is reported`,
    )
    differences.equal(
      look(dataDir, seen, false).damage,
      null,
      `round ${round}: the damage is reported`,
    )
  }
  t.strictSame(differences.list(), [], 'every reader sees what is in the log')
  for (const reader of readers) await reader.close()
  await log.close()
  t.ok(logNumbers(logFolder(dataDir)).length <= 4)
})

t.test('the reading end of the same process sees durable blocks only', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const logReach = new BigInt64Array(new SharedArrayBuffer(8))
  const log = new LogAppender({ dataDir, processed: 0, logReach })
  const reader = new LogReader({ dataDir, logReach })
  log.append([block('b1')], 0)
  await withChanges(
    (name, words, real) => {
      const result = real(...words)
      if (name === 'writevSync') {
        // The bytes are written, but not flushed to disk yet.
        reader.refresh()
        t.equal(reader.extent()?.last, 1)
        t.equal(reader.block(2), undefined)
      }
      return result
    },
    () => log.append([block('b2')], 0),
  )
  reader.refresh()
  t.ok(reader.block(2)?.includes('"b2"'))
  await reader.close()
  await log.close()
})

t.test('the log works on file systems where unwritten zeros take no space', async (t) => {
  const memory = '/dev/shm'
  if (!existsSync(memory)) {
    t.pass('skipped', { skip: 'there is no file system in memory' })
    return
  }
  const dataDir = mkdtempSync(join(memory, 'tenrec-log-'))
  t.teardown(() => rmSync(dataDir, { recursive: true }))
  const log = new LogAppender({ dataDir, processed: 0 })
  const names = fill(log, 12, () => 300_000)
  await log.close()
  t.ok(isComplete(namesIn(dataDir), names))
  t.ok(await goesOn(dataDir))
})

t.test('other files in the folder stay unchanged', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  mkdirSync(logFolder(dataDir), { recursive: true })
  writeFileSync(join(logFolder(dataDir), 'note.txt'), 'mine')
  const log = new LogAppender({ dataDir, processed: 0 })
  log.append([block('b1')], 0)
  await log.close()
  t.ok(readdirSync(logFolder(dataDir)).includes('note.txt'))
  t.equal(namesIn(dataDir).size, 1)
})
