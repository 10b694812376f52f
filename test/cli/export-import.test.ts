/**
 * Export and import: what goes out comes in again unchanged, once, however often it is repeated.
 *
 * @lane all
 */
import { execFile } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import t from 'tap'
import { readImportLine } from '../../src/rules/capture/import-line.ts'
import { runCommand as run } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { readEvents, untilStored } from '../fixtures/event-pages.ts'
import { closeConnections, postJson } from '../fixtures/exact-client.ts'

const EVENTS = 1200
/** The line that is longer than an event may be. */
const TOO_LONG = 270

t.teardown(closeConnections)
t.setTimeout(300_000)

/** Runs the built program; throws unless it ends with 0. */
async function runBuilt(...words: readonly string[]): Promise<void> {
  const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
  const { NODE_OPTIONS: _, ...env } = process.env
  await promisify(execFile)(process.execPath, [main, ...words], { env })
}

function variedEvents(): readonly object[] {
  return Array.from({ length: EVENTS }, (_, index) => ({
    event: ['$pageview', '$identify', 'bought "it"\n', '$groupidentify'][index % 4],
    distinct_id: `person ${index % 37} é`,
    timestamp: new Date(Date.UTC(2025, 3, 1) + index * 61_001).toISOString(),
    properties: {
      index,
      odd: [null, true, 1.5, 'text', { nested: ['deep', { __proto__: null, a: 1 }] }][index % 5],
      ...(index % 7 === 0 ? { $set: { plan: `p${index}` }, $set_once: { first: index } } : {}),
      ...(index % 44 === 0 ? { $process_person_profile: false } : {}),
      ...(index % 13 === 0 ? { $elements_chain: 'a.b:nth-child="1"href="/x"' } : {}),
      [`rare ${index}`]: index,
      $browser: 'Firefox',
      $groups: { company: `c${index % 3}` },
      $group_type: 'company',
      $group_key: `c${index % 3}`,
      $group_set: { size: index },
    },
  }))
}

function linesOf(text: string): readonly Record<string, unknown>[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

/** What must be the same on both sides, in an order that does not depend on the import. */
function comparable(lines: readonly Record<string, unknown>[]): unknown {
  return lines
    .map(({ id: _, created_at: __, ...rest }) => rest)
    .sort((a, b) => String(a['uuid']).localeCompare(String(b['uuid'])))
}

async function fill(daemon: SpawnedDaemon): Promise<void> {
  const batch = variedEvents()
  await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, EVENTS)
}

t.test('an export imported elsewhere gives the same export, also when repeated', async (t) => {
  const root = t.testdir({ from: {}, to: {} })
  const from = await spawnDaemon({ dataDir: join(root, 'from') })
  await fill(from)
  const file = join(root, 'events.ndjson')
  const exported = await run('export', '--data-dir', join(root, 'from'), '--output', file)
  t.equal(exported.exitCode, 0)
  const lines = linesOf(readFileSync(file, 'utf8'))
  t.equal(lines.length, EVENTS)
  const streamed = await run('export', '--data-dir', join(root, 'from'))
  t.equal(streamed.out, readFileSync(file, 'utf8'), 'standard output says the same')
  const packed = `${file}.gz`
  writeFileSync(packed, gzipSync(readFileSync(file)))

  const to = await spawnDaemon({ dataDir: join(root, 'to') })
  const target = ['--data-dir', join(root, 'to'), '--base-url', to.url]
  t.equal((await run('import', file, ...target)).exitCode, 0)
  await untilStored({ url: to.url, personalKey: PERSONAL_KEY }, EVENTS)
  t.equal((await run('import', packed, ...target)).exitCode, 0, 'and once more, packed')
  const again = await run('import', file, '--resume', ...target)
  t.match(again.err, / events sent/)
  const stored = await readEvents({ url: to.url, personalKey: PERSONAL_KEY })
  t.equal(stored.length, EVENTS, 'each event is stored once')
  const back = await run('export', '--data-dir', join(root, 'to'))
  t.same(comparable(linesOf(back.out)), comparable(lines))
  await from.stop()
  await to.stop()
})

/** A line as the export writes it; its text makes it as long as is wanted. */
function exportedLine(index: number, text: string, odd: string): string {
  const uuid = `01963a2b-7c00-7000-8000-${String(index).padStart(12, '0')}`
  const time = new Date(Date.UTC(2025, 3, 1) + index * 1000).toISOString()
  const chain = index % 3 === 0 ? ',"elements_chain":"a:nth-child=\\"1\\""' : ''
  return (
    `{"id":${index + 1},"uuid":"${uuid}","event":"e","distinct_id":"d${index % 5}","timestamp":"${time}",` +
    `"created_at":"${time}","person_mode":"full"${chain},"properties":{"index":${index},"$ip":"127.0.0.1","text":"${text}","odd":${odd}}}`
  )
}

t.test('lines of any length, wherever a file is cut into pieces', async (t) => {
  const root = t.testdir({ data: {} })
  const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  const target = ['--data-dir', join(root, 'data'), '--base-url', daemon.url]
  // A piece has a MiB: some lines have several, many lie across two, and what only parsing takes is among them.
  const escaped = String.raw`{"caf\u00e9":1e120}`
  const [long, tooLong] = ['é'.repeat(300_000), 'abc'.repeat(900_000)]
  const lines = Array.from({ length: 400 }, (_, index) => {
    const text =
      index % 100 === 50 ? long : index === TOO_LONG ? tooLong : `text ${index} `.repeat(index * 3)
    return exportedLine(index, text, index % 40 === 7 ? escaped : 'null')
  })
  const file = join(root, 'long.ndjson')
  writeFileSync(file, lines.join('\n'))
  const imported = await run('import', file, ...target)
  t.match(imported.err, /long\.ndjson: 400 events sent\n/)
  t.equal(imported.exitCode, 0)
  await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, 399)
  writeFileSync(`${file}.gz`, gzipSync(`${lines.join('\r\n')}\r\n`))
  t.match((await run('import', `${file}.gz`, ...target)).err, /gz: 400 events sent\n/)
  const exported = linesOf((await run('export', '--data-dir', join(root, 'data'))).out)
  t.equal(exported.length, 399, 'each is stored once, but for the event that is too large')
  t.same(
    comparable(exported),
    comparable(linesOf(lines.filter((_, index) => index !== TOO_LONG).join('\n'))),
  )
  await daemon.stop()
})

t.test('an export can be narrowed, and resumed behind the last whole line', async (t) => {
  const root = t.testdir({ data: {} })
  const data = ['--data-dir', join(root, 'data')]
  const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  await fill(daemon)
  await daemon.stop()
  const all = (await run('export', ...data)).out
  const wanted = (
    await run('export', ...data, '--event', '$identify', '--after', '2025-04-01T12:00Z')
  ).out
  t.same(
    linesOf(wanted).map(({ uuid }) => uuid),
    linesOf(all)
      .filter((line) => line['event'] === '$identify')
      .filter((line) => String(line['timestamp']) > '2025-04-01T12:00:00.000Z')
      .map(({ uuid }) => uuid),
  )
  t.equal((await run('export', ...data, '--distinct-id', 'nobody')).out, '')
  const file = join(root, 'part.ndjson')
  writeFileSync(file, all.slice(0, Math.floor(all.length / 3)))
  t.equal((await run('export', ...data, '--output', file)).exitCode, 1, 'a file is not replaced')
  t.equal((await run('export', ...data, '--output', file, '--resume')).exitCode, 0)
  t.equal(readFileSync(file, 'utf8'), all)
  appendFileSync(file, 'something else\n')
  t.match((await run('export', ...data, '--output', file, '--resume')).err, /cannot be resumed/)
  writeFileSync(file, 'of somebody else')
  t.match((await run('export', ...data, '--output', file, '--resume')).err, /cannot be resumed/)
  t.equal(readFileSync(file, 'utf8'), 'of somebody else')
})

t.test('an export as Parquet holds the same events', async (t) => {
  const root = t.testdir({ data: {} })
  const data = ['--data-dir', join(root, 'data')]
  const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  await fill(daemon)
  const stored = await readEvents({ url: daemon.url, personalKey: PERSONAL_KEY })
  const persons = new Map(stored.map(({ id, person_id }) => [id, person_id]))
  await daemon.stop()
  const file = join(root, 'events.parquet')
  await runBuilt('export', ...data, '--format', 'parquet', '--output', file)
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(file) })
  const lines = linesOf((await run('export', ...data)).out)
  const asLines = rows.map((row) => ({
    ...row,
    id: Number(row['id']),
    timestamp: new Date(row['timestamp'] as Date).toISOString(),
    created_at: new Date(row['created_at'] as Date).toISOString(),
    properties: JSON.parse(String(row['properties'])) as unknown,
  }))
  t.same(
    asLines,
    lines.map((line) => {
      return { elements_chain: '', ...line, person_id: persons.get(Number(line['id'])) }
    }),
  )
  const empty = join(root, 'empty.parquet')
  await runBuilt('export', ...data, '--format', 'parquet', '--output', empty, '--event', 'nothing')
  t.same(await parquetReadObjects({ file: await asyncBufferFromFile(empty) }), [])
  t.equal((await run('export', ...data, '--format', 'parquet')).exitCode, 2)
})

t.test('lines of other programs are read', (t) => {
  const line = (value: unknown) => readImportLine(JSON.stringify(value), 3)
  const first = line({ event: 'a', properties: { distinct_id: 'd', x: 1 } })
  t.match(first.events, [{ event: 'a', distinct_id: 'd', properties: { x: 1 } }])
  t.match(first.events[0]?.['uuid'], /^[0-9a-f-]{36}$/, 'a uuid is derived')
  t.same(line({ event: 'a', properties: { distinct_id: 'd', x: 1 } }), first, 'always the same')
  const exported = line({
    uuid: '01890a5d-ac96-774b-bcce-b302099a8057',
    event: 'b',
    distinct_id: 'd',
    timestamp: '2025-01-02 03:04:05.678901',
    properties: '{"x":2}',
    set: '{"plan":"pro"}',
    elements_chain: 'a:href="/"',
    ip: '192.0.2.1',
  })
  t.same(exported.events, [
    {
      uuid: '01890a5d-ac96-774b-bcce-b302099a8057',
      event: 'b',
      distinct_id: 'd',
      timestamp: '2025-01-02T03:04:05.678901Z',
      properties: {
        x: 2,
        $elements_chain: 'a:href="/"',
        $ip: '192.0.2.1',
        $set: { plan: 'pro' },
      },
    },
  ])
  const page = line({ next: null, results: [{ event: 'c', distinct_id: 1 }, { event: '' }] })
  t.match(page.events, [{ event: 'c', distinct_id: 1 }])
  t.equal(page.faults.length, 1)
  t.equal(readImportLine('no json', 1).faults.length, 1)
  t.same(readImportLine('  ', 1), { events: [], faults: [] })
  t.end()
})

t.test('an import tells what it left out, and refuses what it cannot do', async (t) => {
  const root = t.testdir({ data: {} })
  const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  const file = join(root, 'mixed.ndjson')
  writeFileSync(file, '{"event":"a","distinct_id":"d"}\nbroken\n{"event":"b"}\n')
  const target = ['--data-dir', join(root, 'data'), '--base-url', daemon.url]
  const mixed = await run('import', file, ...target)
  t.equal(mixed.exitCode, 3)
  t.match(mixed.err, /mixed\.ndjson:2: left out/)
  t.match(mixed.err, /1 events sent, 2 left out/)
  t.match((await run('import', join(root, 'no'), ...target)).err, /does not exist/)
  const wrong = await run('import', file, ...target, '--project-key', 'phc_unknown')
  t.equal(wrong.exitCode, 1)
  t.match(wrong.err, /answered 401/)
  t.notOk(existsSync(`${file}.imported`), 'how far an earlier one came says nothing any more')
  const [whole, cut] = ['{"event":"c","distinct_id":"d"}\n', '{"event":"f","dist']
  writeFileSync(file, whole + cut)
  t.match((await run('import', file, ...target)).err, /:2: left out/)
  writeFileSync(file, `${whole}${cut}inct_id":"d"}\n`)
  const resumed = await run('import', file, '--resume', ...target)
  t.match(resumed.err, /1 events sent/, 'a line that was cut is not done')
  await daemon.stop()
})
