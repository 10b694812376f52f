/**
 * Export and import: exported events are imported unchanged and only once, however often the import is repeated.
 *
 * @lane all
 */
import { execFile } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import t from 'tap'
import type { JsonObject } from '../../src/base/json.ts'
import { LINE_BYTES_MAX } from '../../src/cli/limits.ts'
import { readImportLine } from '../../src/rules/capture/import-line.ts'
import { normalizeEvent } from '../../src/rules/capture/normalize.ts'
import { runCommand as run } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { readEvents, untilStored } from '../fixtures/event-pages.ts'
import { closeConnections, postJson } from '../fixtures/exact-client.ts'
import { serveImports, stopImportServers } from '../fixtures/import-server.ts'

const EVENTS = 1200
const CONTEXT = {
  nowMs: Date.UTC(2026, 0, 1),
  propertiesBytesMax: 1024 ** 2,
  aiPropertiesBytesMax: 0,
}
const EVENT_CONTEXT = {
  arrivedAtMs: CONTEXT.nowMs,
  sentAtMs: null,
  isSentAtInvalid: false,
  ip: '',
  isIpAnonymized: false,
  isHistorical: true,
  propertiesBytesMax: 0,
  aiPropertiesBytesMax: 0,
}
/** A line that is longer than the largest allowed event. */
const TOO_LONG = 270

t.teardown(closeConnections)
t.teardown(stopImportServers)
t.setTimeout(300_000)

/** Runs the built program. Throws unless its exit status is 0. */
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

/** Returns the data that must be equal on both sides, in an order that does not depend on the import. */
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

t.test(
  'an export that is imported elsewhere, even several times, gives the same export',
  async (t) => {
    const root = t.testdir({ from: {}, to: {} })
    const from = await spawnDaemon({ dataDir: join(root, 'from') })
    await fill(from)
    const file = join(root, 'events.ndjson')
    const exported = await run('export', '--data-dir', join(root, 'from'), '--output', file)
    t.equal(exported.exitCode, 0)
    const lines = linesOf(readFileSync(file, 'utf8'))
    t.equal(lines.length, EVENTS)
    const streamed = await run('export', '--data-dir', join(root, 'from'))
    t.equal(streamed.out, readFileSync(file, 'utf8'), 'standard output has the same content')
    const packed = `${file}.gz`
    writeFileSync(packed, gzipSync(readFileSync(file)))

    const to = await spawnDaemon({ dataDir: join(root, 'to') })
    const target = ['--data-dir', join(root, 'to'), '--base-url', to.url]
    t.equal((await run('import', file, ...target)).exitCode, 0)
    await untilStored({ url: to.url, personalKey: PERSONAL_KEY }, EVENTS)
    t.equal(
      (await run('import', packed, ...target)).exitCode,
      0,
      'the packed file can be imported again',
    )
    const again = await run('import', file, '--resume', ...target)
    t.match(again.err, / events sent/)
    const stored = await readEvents({ url: to.url, personalKey: PERSONAL_KEY })
    t.equal(stored.length, EVENTS, 'each event is stored once')
    const back = await run('export', '--data-dir', join(root, 'to'))
    t.same(comparable(linesOf(back.out)), comparable(lines))
    await from.stop()
    await to.stop()
  },
)

/** Returns a line as the export writes it, padded to the requested length. */
function exportedLine(index: number, text: string, odd: string): string {
  const uuid = `01963a2b-7c00-7000-8000-${String(index).padStart(12, '0')}`
  const time = new Date(Date.UTC(2025, 3, 1) + index * 1000).toISOString()
  const chain = index % 3 === 0 ? ',"elements_chain":"a:nth-child=\\"1\\""' : ''
  return (
    `{"id":${index + 1},"uuid":"${uuid}","event":"e","distinct_id":"d${index % 5}","timestamp":"${time}",` +
    `"created_at":"${time}","person_mode":"full"${chain},"properties":{"index":${index},"$ip":"127.0.0.1","text":"${text}","odd":${odd}}}`
  )
}

t.test('lines of any length are imported, wherever chunk boundaries fall', async (t) => {
  const root = t.testdir({ data: {} })
  const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  const target = ['--data-dir', join(root, 'data'), '--base-url', daemon.url]
  // A chunk is one MiB. Some lines span several chunks, many cross one boundary, and some lines are only accepted by
  // the full parser.
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
  t.match(imported.err, /long\.ndjson:271: left out: its properties are larger/)
  t.match(imported.err, /long\.ndjson: 399 events sent, 1 left out\n/)
  t.equal(imported.exitCode, 3)
  await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, 399)
  writeFileSync(`${file}.gz`, gzipSync(`${lines.join('\r\n')}\r\n`))
  t.match((await run('import', `${file}.gz`, ...target)).err, /gz: 399 events sent, 1 left out\n/)
  const exported = linesOf((await run('export', '--data-dir', join(root, 'data'))).out)
  t.equal(exported.length, 399, 'each event is stored once, except for the one that is too large')
  t.same(
    comparable(exported),
    comparable(linesOf(lines.filter((_, index) => index !== TOO_LONG).join('\n'))),
  )
  await daemon.stop()
})

t.test('a line beyond the limit is reported, in the middle of a file and at its end', async (t) => {
  const { accepted, target } = await serveImports()
  const root = t.testdir({})
  const line = '{"event":"e","distinct_id":"d","timestamp":1714566605}\n'
  const part = gzipSync(Buffer.alloc(1024 * 1024, 'x'))
  const long = Array.from({ length: LINE_BYTES_MAX / 1024 ** 2 + 1 }, () => part)
  const fault = /:2: left out: it has more than 268,435,456 bytes/
  for (const [name, rest, count] of [
    ['middle.gz', `\n${line}`, 2],
    ['end.gz', '', 1],
  ] as const) {
    const file = join(root, name)
    writeFileSync(file, Buffer.concat([gzipSync(line), ...long, gzipSync(rest)]))
    const { exitCode, err } = await run('import', file, ...target)
    t.equal(exitCode, 3)
    t.match(err, fault)
    t.match(err, `${count} events sent, 1 left out`)
  }
  t.equal(accepted.flat().length, 3)
})

t.test('an export can be filtered, and it resumes after the last complete line', async (t) => {
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
  t.equal(
    (await run('export', ...data, '--output', file)).exitCode,
    1,
    'an existing file is not replaced',
  )
  t.equal((await run('export', ...data, '--output', file, '--resume')).exitCode, 0)
  t.equal(readFileSync(file, 'utf8'), all)
  appendFileSync(file, 'something else\n')
  t.match((await run('export', ...data, '--output', file, '--resume')).err, /cannot be resumed/)
  writeFileSync(file, 'of somebody else')
  t.match((await run('export', ...data, '--output', file, '--resume')).err, /cannot be resumed/)
  t.equal(readFileSync(file, 'utf8'), 'of somebody else')
})

t.test('a Parquet export holds the same events', async (t) => {
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

t.test('lines of other programs are imported', (t) => {
  const timestamp = '2025-01-02'
  const read = (text: string) => {
    const { events, faults } = readImportLine(Buffer.from(text), 3, CONTEXT)
    return { events: events.map((json) => JSON.parse(json) as Record<string, unknown>), faults }
  }
  const line = (value: unknown) => read(JSON.stringify(value))
  const first = line({ event: 'a', timestamp, properties: { distinct_id: 'd', x: 1 } })
  t.match(first.events, [{ event: 'a', distinct_id: 'd', properties: { x: 1 } }])
  t.match(first.events[0]?.['uuid'], /^[0-9a-f-]{36}$/, 'a uuid is derived')
  t.same(
    line({ event: 'a', timestamp, properties: { distinct_id: 'd', x: 1 } }),
    first,
    'always the same',
  )
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
      timestamp: '2025-01-02T03:04:05.678Z',
      properties: {
        x: 2,
        $elements_chain: 'a:href="/"',
        $ip: '192.0.2.1',
        $set: { plan: 'pro' },
      },
    },
  ])
  const page = line({
    next: null,
    results: [{ event: 'c', distinct_id: 1, timestamp }, { event: '' }],
  })
  t.match(page.events, [{ event: 'c', distinct_id: 1 }])
  const id = '01890a5d-ac96-774b-bcce-b302099a8057'
  const listed = line({ results: [{ id, event: 'c', distinct_id: 1, timestamp }] })
  t.match(listed.events, [{ uuid: id }], 'the events API lists the uuid as id')
  const takenApart = { id, event: 'c', distinct_id: 1, timestamp }
  for (const also of [{ elements: [] }, { person: null }]) {
    t.match(line({ ...takenApart, ...also }).events, [{ uuid: id }], 'also without its page')
  }
  t.not(line(takenApart).events[0]?.['uuid'], id, 'elsewhere, an id may be that of a user')
  const same = { event: 'c', distinct_id: 1, timestamp }
  const twice = line({ results: [same, same] }).events.map(({ uuid }) => uuid)
  t.equal(new Set(twice).size, 2, 'two equal events of a page are two events')
  t.equal(page.faults.length, 1)
  t.equal(read('no json').faults.length, 1)
  t.same(read('  '), { events: [], faults: [] })
  t.equal(
    read('{"event":"a","distinct_id":1234567890123456789,"timestamp":1714566605}').events[0]?.[
      'distinct_id'
    ],
    '1234567890123456789',
    'an id keeps its digits',
  )
  const clicked = line({
    event: '$autocapture',
    distinct_id: 'd',
    timestamp,
    $unset: ['plan'],
    elements: [
      { tag_name: 'a', text: 'Buy', attr_class: ['b'], href: '/x', nth_child: 1, nth_of_type: 2 },
    ],
  })
  t.match(clicked.events[0]?.['properties'], {
    $unset: ['plan'],
    $elements_chain:
      'a.b:attr__class="b"attr__href="/x"href="/x"nth-child="1"nth-of-type="2"text="Buy"',
  })
  t.end()
})

t.test(
  'the time of a line is read in every supported form; otherwise the line is skipped with a reason',
  (t) => {
    const timeOf = (timestamp: unknown): unknown => {
      const line = JSON.stringify({ event: 'e', distinct_id: 'd', timestamp })
      const { events, faults } = readImportLine(Buffer.from(line), 1, CONTEXT)
      if (events.length === 0) return faults[0]
      return (JSON.parse(events[0] ?? '') as Record<string, unknown>)['timestamp']
    }
    const may = '2024-05-01T12:30:05.000Z'
    const forms = [
      1714566605,
      1714566605000,
      1714566605000000,
      1714566605000000000,
      '1714566605',
      '2024-05-01 12:30:05',
      '2024-05-01 12:30:05 UTC',
      '5/1/2024 12:30:05',
      { value: may },
    ]
    for (const form of forms) t.equal(timeOf(form), may, JSON.stringify(form))
    t.equal(timeOf(1714566605.5), '2024-05-01T12:30:05.500Z')
    for (const none of [null, undefined, '', { value: null }])
      t.match(timeOf(none), /has no timestamp/)
    for (const odd of ['31/12/2024', 17, true, [1714566605], 'yesterday', {}, { value: 'x' }]) {
      t.match(timeOf(odd), /timestamp has an unknown format: /, JSON.stringify(odd))
    }
    t.match(timeOf('2031-01-01'), /more than 23 hours in the future/)
    const mixpanel = '{"event":"e","distinct_id":"d","properties":{"time":1714566605}}'
    const { faults } = readImportLine(Buffer.from(mixpanel), 1, CONTEXT)
    t.match(faults, [/has no timestamp\. Mixpanel has the time in properties\.time/])
    t.end()
  },
)

t.test('an event that the daemon would refuse or drop is reported as an error of its line', (t) => {
  const faultOf = (members: object): string | undefined => {
    const line = { event: 'e', distinct_id: 'd', timestamp: '2025-01-02', ...members }
    return readImportLine(Buffer.from(JSON.stringify(line)), 1, CONTEXT).faults[0]
  }
  t.equal(faultOf({}), undefined)
  t.match(faultOf({ uuid: 'abc' }), /its uuid is not a UUID: "abc"/)
  t.match(faultOf({ uuid: 7 }), /its uuid is not a UUID: 7/)
  t.match(faultOf({ distinct_id: ' ' }), /blank distinct_id/)
  t.match(faultOf({ distinct_id: null }), /without a distinct_id/)
  t.match(faultOf({ distinct_id: {} }), /neither a text nor a number/)
  t.match(faultOf({ properties: 'x' }), /properties is not a JSON object: "x"/)
  t.match(faultOf({ properties: [1] }), /properties is not a JSON object/)
  t.match(faultOf({ set: 'x' }), /set is not a JSON object/)
  t.match(faultOf({ event: '$snapshot' }), /never stored/)
  t.match(faultOf({ distinct_id: 'd'.repeat(201) }), /distinct_id has more than 200 characters/)
  t.match(faultOf({ properties: { distinct_id: 'x' }, distinct_id: '9'.repeat(201) }), /200/)
  t.match(faultOf({ event: 'e'.repeat(201) }), /name of its event has more than 200 characters/)
  t.equal(faultOf({ distinct_id: '\u{1f600}'.repeat(200), event: 'e'.repeat(200) }), undefined)
  t.match(faultOf({ properties: { a: 'x'.repeat(2_000_000) } }), /larger than the setting/)
  t.match(faultOf({ properties: { a: '\u6f22'.repeat(400_000) } }), /larger than the setting/)
  const personless = { $process_person_profile: false }
  t.match(faultOf({ event: '$identify', properties: personless }), /changes a person/)
  const deep = `{"event":"e","distinct_id":"d","properties":{"a":${'['.repeat(200)}${']'.repeat(200)}}}`
  t.match(readImportLine(Buffer.from(deep), 1, CONTEXT).faults, [/nested|deep/i])
  t.end()
})

t.test('changes of a person in an event and in its properties are both imported', (t) => {
  const line = {
    event: 'e',
    distinct_id: 'd',
    timestamp: '2025-01-02',
    properties: { $set: { a: 1, both: 1 }, $unset: ['x'] },
    $set: { b: 2, both: 2 },
    set_once: '{"c":3}',
    $unset: { y: null },
  }
  const { events } = readImportLine(Buffer.from(JSON.stringify(line)), 1, CONTEXT)
  const outcome = normalizeEvent(JSON.parse(events[0] ?? '') as JsonObject, EVENT_CONTEXT, 1)
  t.match(outcome, {
    event: {
      properties: { $set: { a: 1, b: 2, both: 2 }, $set_once: { c: 3 }, $unset: ['x', 'y'] },
    },
  })
  t.end()
})

t.test('an edited line of an export is checked like any other line', async (t) => {
  const { accepted, target } = await serveImports()
  const lineOf = (index: number, from: string, to: string): string =>
    exportedLine(index, 'text', 'null').replace(from, to)
  const lines = [
    exportedLine(0, 'text', 'null'),
    lineOf(1, '"distinct_id":"d1"', '"distinct_id":"  "'),
    lineOf(2, '"distinct_id":"d2"', String.raw`"distinct_id":"\u0020"`),
    lineOf(3, '"event":"e"', '"event":"$snapshot"'),
    lineOf(4, '"event":"e"', `"event":"${'e'.repeat(300)}"`),
    lineOf(5, '"distinct_id":"d0"', `"distinct_id":"${'d'.repeat(300)}"`),
    lineOf(6, '"event":"e"', '"event":"$identify"').replace(
      '"odd"',
      '"$process_person_profile":false,"odd"',
    ),
    lineOf(7, '"event":"e"', '"event":"$identify"'),
    `\ufeff${exportedLine(8, 'text', 'null')}`,
    `\ufeff{"event":"e","distinct_id":"d","timestamp":1714566605}`,
    '\ufeff',
    lineOf(9, '2025-04-01T', '9999-04-01T'),
    lineOf(10, '2025-04-01T', '2025-04-31T'),
  ]
  const file = join(t.testdir({}), 'edited.ndjson')
  writeFileSync(file, `${lines.join('\n')}\n`)
  const { exitCode, err } = await run('import', file, ...target)
  t.equal(exitCode, 3)
  t.strictSame(
    err
      .split('\n')
      .filter((text) => text.includes('left out: '))
      .map((text) => text.replace(/^.*ndjson:/, '')),
    [
      '2: left out: it has an event with a blank distinct_id',
      '3: left out: it has an event with a blank distinct_id',
      '4: left out: events of this name are never stored',
      '5: left out: the name of its event has more than 200 characters',
      '6: left out: its distinct_id has more than 200 characters',
      '7: left out: its event changes a person, but `$process_person_profile` is false',
      '12: left out: its timestamp is more than 23 hours in the future: "9999-04-01T00:00:09.000Z"',
      '13: left out: its timestamp has an unknown format: "2025-04-31T00:00:10.000Z"',
    ],
  )
  t.strictSame(
    accepted.flat().map(({ event }) => event),
    ['e', '$identify', 'e', 'e'],
  )
})

t.test('an import reads from a pipe, packed or not, and names other kinds of files', async (t) => {
  const { accepted, target } = await serveImports()
  const root = t.testdir({})
  const line = '{"event":"e","distinct_id":"d","timestamp":1714566605}\n'
  const pipe = join(root, 'pipe')
  await promisify(execFile)('mkfifo', [pipe])
  for (const content of [Buffer.from(line.repeat(3)), gzipSync(line.repeat(3))]) {
    const importing = run('import', pipe, ...target)
    await writeFile(pipe, content)
    t.match(await importing, { exitCode: 0, err: /3 events sent\n/ })
  }
  t.notOk(existsSync(`${pipe}.imported`))
  t.match(await run('import', pipe, '--resume', ...target), {
    exitCode: 1,
    err: /cannot be resumed/,
  })
  t.equal(accepted.flat().length, 6)
  const tar = Buffer.alloc(1024)
  tar.write('events.ndjson')
  tar.write('ustar', 257)
  const others: readonly (readonly [string, Buffer, RegExp])[] = [
    ['twice.gz', gzipSync(gzipSync(line)), /compressed twice/],
    ['tar.gz', gzipSync(Buffer.concat([tar, Buffer.from(line)])), /is a tar archive/],
    ['wide', Buffer.from(line, 'utf16le'), /UTF-16LE/],
    ['wide.gz', gzipSync(Buffer.from(line, 'utf16le').swap16()), /UTF-16BE/],
    ['wider', Buffer.from([0xff, 0xfe, 0, 0, 0x7b, 0, 0, 0]), /UTF-32/],
    ['archive', Buffer.from('377abcaf271c', 'hex'), /7z/],
    ['avro', Buffer.from('4f626a0104', 'hex'), /Avro/],
  ]
  for (const [name, content, expected] of others) {
    writeFileSync(join(root, name), content)
    t.match(await run('import', join(root, name), ...target), { exitCode: 1, err: expected }, name)
  }
  writeFileSync(join(root, 'nul'), `{\0"event"\n${line}`)
  t.match(await run('import', join(root, 'nul'), ...target), {
    exitCode: 3,
    err: /nul:1: left out: .*1 events sent/s,
  })
})

t.test('an import reports skipped lines and refuses unsupported input', async (t) => {
  const root = t.testdir({ data: {} })
  const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  const file = join(root, 'mixed.ndjson')
  writeFileSync(
    file,
    '{"event":"a","distinct_id":"d","timestamp":1714566605}\nbroken\n{"event":"b"}\n',
  )
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
  const [whole, cut] = [
    '{"event":"c","distinct_id":"d","timestamp":1714566605}\n',
    '{"event":"f","timestamp":1714566605,"dist',
  ]
  writeFileSync(file, whole + cut)
  t.match((await run('import', file, ...target)).err, /:2: left out/)
  writeFileSync(file, `${whole}${cut}inct_id":"d"}\n`)
  const resumed = await run('import', file, '--resume', ...target)
  t.match(resumed.err, /1 events sent/, 'a truncated line is not counted as imported')
  await daemon.stop()
})

t.test('an import of older events does not reset the properties of persons', async (t) => {
  const root = t.testdir({ data: {} })
  let daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  const send = async (properties: object): Promise<void> => {
    const batch = [{ event: 'e', distinct_id: 'd', properties }]
    await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  }
  const importLine = async (timestamp: string, properties: object): Promise<void> => {
    const file = join(root, 'line.ndjson')
    writeFileSync(
      file,
      `${JSON.stringify({ event: 'e', distinct_id: 'd', timestamp, properties })}\n`,
    )
    const target = ['--data-dir', join(root, 'data'), '--base-url', daemon.url]
    t.equal((await run('import', file, ...target)).exitCode, 0)
  }
  const person = async (): Promise<unknown> => {
    const answer = await fetch(`${daemon.url}/api/projects/1/persons/?distinct_id=d`, {
      headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
    })
    return ((await answer.json()) as { results: readonly unknown[] }).results[0]
  }
  await importLine('2025-01-05', { $set: { plan: 'free' } })
  await importLine('2025-01-06', { $set: { plan: 'basic' } })
  await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, 2)
  t.match(await person(), { properties: { plan: 'basic' }, created_at: '2025-01-05T00:00:00Z' })
  // Whether a person has live events is stored on disk, not only in memory.
  await daemon.stop()
  daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  await importLine('2025-01-07', { $set: { plan: 'plus' } })
  await send({ $set: { plan: 'pro' } })
  await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, 4)
  await daemon.stop()
  daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  await importLine('2025-01-02', { $set: { plan: 'free', city: 'Bern' } })
  await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, 5)
  t.match(await person(), {
    properties: { plan: 'pro', city: 'Bern' },
    created_at: '2025-01-02T00:00:00Z',
  })
  await daemon.stop()
})

t.test(
  'an invalid line never stops an import, and the format of a file is recognized from its content',
  async (t) => {
    const root = t.testdir({ data: {} })
    const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
    const target = ['--data-dir', join(root, 'data'), '--base-url', daemon.url]
    const line = (index: number, name = 'e', more = ''): string => {
      return `{"uuid":"018f4c51-0000-7000-8000-${String(index).padStart(12, '0')}","event":"${name}","distinct_id":"d","timestamp":"2024-05-06T10:00:00Z"${more}}\n`
    }
    const write = (name: string, content: string | Buffer): string => {
      writeFileSync(join(root, name), content)
      return join(root, name)
    }
    const bad = line(2).replace('018f4c51', 'not-a-uuid')
    const wide = line(4, 'e', `,"properties":{"a":[${'0,'.repeat(1_300_000)}0]}`)
    const latin = Buffer.from(line(5, 'M\u00fcller'), 'latin1')
    const file = write(
      'bad.ndjson',
      Buffer.concat([
        Buffer.from(`\ufeff${line(1)}${bad}${line(3)}${wide}`),
        latin,
        Buffer.from(line(6)),
      ]),
    )
    const result = await run('import', file, ...target)
    t.equal(result.exitCode, 3)
    t.match(result.err, /ndjson:2: left out: its uuid is not a UUID/)
    t.match(result.err, /ndjson:4: left out: /)
    t.match(result.err, /ndjson:5: left out: it is not in UTF-8/)
    t.match(result.err, /3 events sent, 3 left out/)
    t.match((await run('import', file, '--resume', ...target)).err, / 0 events sent\n/)
    const [stored] = await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, 3)
    t.equal(stored?.timestamp, '2024-05-06T10:00:00.000Z')
    t.notOk(
      Object.hasOwn(stored?.properties ?? {}, '$ip'),
      'nobody gets the address of the importer',
    )

    const many = Array.from({ length: 20_000 }, (_, index) => line(100 + index)).join('')
    const packed = gzipSync(many)
    t.match(await run('import', write('packed', gzipSync(line(7))), ...target), {
      exitCode: 0,
      err: /1 events sent/,
    })
    const cut = await run(
      'import',
      write('cut.gz', packed.subarray(0, packed.length / 2)),
      ...target,
    )
    t.match(cut, { exitCode: 1, err: /cut\.gz: [\d,]{3,} events sent\n.*damaged or cut short/s })
    t.notMatch(cut.err, /[Uu]nexpected failure|at \w+ \(/)
    const named = [
      ['a.zip', 'PK\u0003\u0004...', /is a ZIP archive\. Unpack it/],
      ['array.json', `[${line(8).trim()}]`, /is a single JSON array/],
      ['pretty.json', JSON.stringify({ event: 'e' }, null, 2), /span several lines/],
      ['wide.json', Buffer.from(`\ufeff${line(9)}`, 'utf16le'), /is encoded in UTF-16/],
    ] as const
    for (const [name, content, expected] of named) {
      t.match(
        await run('import', write(name, content), ...target),
        { exitCode: 1, err: expected },
        name,
      )
    }
    await daemon.stop()
  },
)
