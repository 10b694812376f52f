/**
 * Imports from pipes, packed files and notes: an import ends if the daemon refuses, and it loses nothing silently.
 *
 * @lane quick
 */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { umamiLines } from '../../src/cli/lib/umami-lines.ts'
import { UMAMI_COLUMNS } from '../../src/rules/capture/umami-row.ts'
import { runCommand as run } from '../fixtures/command-line.ts'
import { serveImports, stopImportServers } from '../fixtures/import-server.ts'

const LINE = '{"event":"e","distinct_id":"d","timestamp":1714566605}\n'

t.teardown(stopImportServers)

async function pipeIn(directory: string): Promise<string> {
  const pipe = join(directory, 'pipe')
  await promisify(execFile)('mkfifo', [pipe])
  return pipe
}

t.test('an import from a silent pipe ends if the daemon refuses', async (t) => {
  const pipe = await pipeIn(t.testdir({}))
  const body = LINE.repeat(10_000)
  // The packed body has no end, so the import waits for more.
  for (const content of [Buffer.from(body), gzipSync(body + LINE, { level: 0 }).subarray(0, -9)]) {
    const { target } = await serveImports([{ status: 401, text: 'unknown key' }])
    const importing = run('import', pipe, ...target)
    const writer = await open(pipe, 'w')
    await writer.write(content)
    t.match(await importing, { exitCode: 1, err: /answered 401: unknown key/ })
    await writer.close()
  }
})

t.test('the kind of a pipe is recognized even if its first read is one byte', async (t) => {
  const pipe = await pipeIn(t.testdir({}))
  const contents: readonly (readonly [Buffer, object])[] = [
    [gzipSync(LINE), { exitCode: 0, err: /1 events sent\n/ }],
    [Buffer.from('504b0304', 'hex'), { exitCode: 1, err: /ZIP archive/ }],
    [Buffer.from(`\ufeff${LINE}`), { exitCode: 0, err: /1 events sent\n/ }],
  ]
  for (const [content, expected] of contents) {
    const { target } = await serveImports()
    const importing = run('import', pipe, ...target)
    const writer = await open(pipe, 'w')
    await writer.write(content.subarray(0, 1))
    await new Promise((resolve) => setTimeout(resolve, 100))
    await writer.write(content.subarray(1))
    await writer.close()
    t.match(await importing, expected)
  }
})

t.test('a part of a packed file that cannot be read is named', async (t) => {
  const root = t.testdir({ 'empty.gz': '' })
  const file = join(root, 'events.gz')
  const { accepted, target } = await serveImports()
  const member = gzipSync(LINE)
  const gap = Buffer.alloc(512)
  writeFileSync(file, Buffer.concat([member, gap, member]))
  t.match(await run('import', file, ...target), { exitCode: 1, err: /1 events sent.*zero bytes/s })
  writeFileSync(file, Buffer.concat([member, member, gap]))
  t.match(await run('import', file, ...target), { exitCode: 0, err: /2 events sent\n/ })
  t.match(await run('import', join(root, 'empty.gz'), ...target), { exitCode: 1, err: /is empty/ })
  writeFileSync(file, member.subarray(0, -4))
  t.match(await run('import', file, ...target), { exitCode: 1, err: /1 events sent.*cut short/s })
  t.equal(accepted.flat().length, 4)
})

t.test(
  'an import sends all lines before data that is not gzip, and resumes after them',
  async (t) => {
    const file = join(t.testdir({}), 'events.gz')
    const { accepted, target } = await serveImports()
    const sentLines = () =>
      accepted
        .splice(0)
        .flat()
        .map((event) => event['distinct_id'])
    const linesOf = (from: number, to: number): string =>
      Array.from({ length: to - from }, (_, index) =>
        LINE.replace('"d"', `"${from + index}"`),
      ).join('')
    const member = gzipSync(linesOf(0, 3000))
    writeFileSync(file, Buffer.concat([member, Buffer.from(linesOf(3000, 3002))]))
    t.match(await run('import', file, ...target), {
      exitCode: 1,
      err: /3,000 events sent\n.*has other data than gzip after [\d,]+ bytes/s,
    })
    t.equal(sentLines().length, 3000)
    writeFileSync(file, Buffer.concat([member, gzipSync(linesOf(3000, 3002))]))
    t.match(await run('import', file, '--resume', ...target), { exitCode: 0 })
    t.strictSame(sentLines(), ['3000', '3001'])

    // The last line of a complete member is complete, too.
    writeFileSync(file, Buffer.concat([gzipSync(LINE + LINE.trim()), Buffer.from('\x1fx')]))
    t.match(await run('import', file, ...target), { exitCode: 1, err: /2 events sent\n/ })
    writeFileSync(file, Buffer.concat([member, member.subarray(0, -8), Buffer.alloc(8)]))
    t.match(await run('import', file, ...target), {
      exitCode: 1,
      err: /6,000 events sent\n.*is damaged or cut short \(incorrect data check\)/s,
    })
  },
)

t.test('only the note of a file is skipped, and it is named', async (t) => {
  const root = t.testdir({ 'events.imported': LINE, 'other.imported': '7\n', other: LINE })
  const { accepted, target } = await serveImports()
  const files = ['events.imported', 'other.imported', 'other'].map((name) => join(root, name))
  const { exitCode, err } = await run('import', ...files, ...target)
  t.equal(exitCode, 0)
  t.match(err, /\/other\.imported: skipped, it is a note of an import\n/)
  t.match(err, /\/events\.imported: 1 events sent\n/)
  t.equal(accepted.flat().length, 2)
})

t.test('an import says once why it waits', async (t) => {
  const file = join(t.testdir({ events: LINE }), 'events')
  const busy = { status: 503, text: 'starting' }
  const { target } = await serveImports([busy, busy])
  const { err } = await run('import', file, ...target)
  t.equal(
    err.match(/events: waiting, because .* accepts no events now: 503: starting\n/g)?.length,
    1,
  )
})

t.test('a record of a table with several lines may be cut or not in UTF-8', async (t) => {
  const names = [...UMAMI_COLUMNS]
  const recordOf = (title: string): string => {
    const cells: Readonly<Record<string, string>> = {
      event_id: 'c2d1f0de-6f0a-4a6e-8f3f-000000000001',
      session_id: 'c2d1f0de-6f0a-4a6e-8f3f-000000000002',
      event_type: '1',
      created_at: '2026-03-01 10:00:00',
      page_title: title,
    }
    return [...names, 'page_title'].map((name) => cells[name] ?? 'x').join(',')
  }
  const read = async (blocks: readonly Buffer[]) => {
    const faults: string[] = []
    const table = (async function* () {
      yield Buffer.from(`${[...names, 'page_title'].join(',')}\n`)
      yield* blocks
    })()
    const parts: Buffer[] = []
    let cutAt: number | null = null
    const lines = umamiLines(table, 'table', new Map(), {
      onFault: (line, fault) => faults.push(`${line}: ${fault}`),
      onCut: () => {
        cutAt = parts.length
      },
    })
    for await (const part of lines) parts.push(part)
    return { text: Buffer.concat(parts).toString(), faults, cutAt }
  }
  const whole = Buffer.from(recordOf('"one\ntwo\nthree"'))
  const cut = await read([whole])
  t.strictSame(cut.faults, [])
  t.match(cut.text, /^\n\{.*\}\n\n\n$/)
  t.equal(cut.cutAt, 1, 'no line of the last record counts as whole')
  const [first = '', last = ''] = recordOf('"on\u00ffe\ntwo"').split('two')
  const mixed = await read([Buffer.from(first, 'latin1'), Buffer.from(`two${last}\n`)])
  t.strictSame(mixed.faults, ['2: it is not in UTF-8; convert the file'])
})
