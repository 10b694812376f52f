/**
 * Importing the export of Umami: every view is imported once, with sessions and data, in every file format.
 *
 * @lane all
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { CsvReader } from '../../src/base/csv.ts'
import { runCommand as run } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { readEvents, untilStored } from '../fixtures/event-pages.ts'
import { closeConnections } from '../fixtures/exact-client.ts'
import { serveImports, stopImportServers } from '../fixtures/import-server.ts'
import { atFullDepth } from '../fixtures/random-depth.ts'

/** The columns of an export from Umami Cloud. */
const HEADER =
  'website_id,session_id,visit_id,event_id,hostname,browser,os,device,screen,language,country,' +
  'region,city,url_path,url_query,utm_source,utm_medium,utm_campaign,utm_content,utm_term,' +
  'referrer_path,referrer_query,referrer_domain,page_title,gclid,fbclid,msclkid,ttclid,li_fat_id,' +
  'twclid,event_type,event_name,tag,distinct_id,created_at,job_id'
const WEBSITE = '1e4b8a35-0a5c-4a3e-9c11-4a54f4a3c001'

t.teardown(closeConnections)
t.teardown(stopImportServers)

function uuid(number: number): string {
  return `c2d1f0de-6f0a-4a6e-8f3f-${String(number).padStart(12, '0')}`
}

function row(index: number, type: number, title: string, name = ''): string {
  const visit = Math.floor(index / 3)
  const ids = `${WEBSITE},${uuid(900 + visit)},${uuid(800 + visit)},${uuid(index)}`
  const device = 'example.com,chrome,Mac OS,laptop,1440x900,en-US,DE,DE-BE,Berlin'
  const from = '/search,,www.duckduckgo.com'
  const at = `2026-03-0${1 + visit} 10:0${index % 3}:00`
  return `${ids},${device},/page,,,,,,,${from},${title},,,,,,,${type},${name},,,${at},`
}

const ROWS = [
  row(0, 1, '"Home, sweet\nhome ""here"""'),
  row(1, 1, 'Prices'),
  row(2, 2, 'Prices', 'signed up'),
  row(3, 1, 'Home'),
]
const CSV = `${[HEADER, ...ROWS].join('\r\n')}\r\n`
const EVENT_DATA = [
  'website_id,session_id,event_id,url_path,event_name,data_key,string_value,number_value,date_value,data_type,created_at,job_id',
  `${WEBSITE},${uuid(900)},${uuid(2)},/page,signed up,plan,free,,,1,2026-03-01 10:02:00,`,
  `${WEBSITE},${uuid(900)},${uuid(2)},/page,signed up,seats,3,3.0000,,2,2026-03-01 10:02:00,`,
].join('\n')

t.test(
  'CSV, packed CSV and JSON give the same events, each once',
  { skip: atFullDepth },
  async (t) => {
    const root = t.testdir({ data: {}, 'website_event.csv': CSV, 'event_data.csv': EVENT_DATA })
    const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
    const file = join(root, 'website_event.csv')
    const words = [
      '--format',
      'umami',
      '--event-data',
      join(root, 'event_data.csv'),
      '--data-dir',
      join(root, 'data'),
      '--base-url',
      daemon.url,
    ]
    const first = await run('import', file, ...words)
    t.match(first, { exitCode: 0, err: /4 events sent/ })
    await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, 4)
    writeFileSync(`${file}.gz`, gzipSync(CSV))
    const cells = [...new CsvReader().records(CSV)].map((record) => record.cells)
    const objects = cells.slice(1).map((values) => {
      return JSON.stringify(
        Object.fromEntries((cells[0] ?? []).map((name, at) => [name, values[at]])),
      )
    })
    writeFileSync(join(root, 'rows.json'), objects.join('\n'))
    for (const path of [file, `${file}.gz`, join(root, 'rows.json')]) {
      t.match(await run('import', path, ...words), { exitCode: 0, err: /4 events sent/ })
    }
    t.match(await run('import', file, '--resume', ...words), { exitCode: 0, err: / 0 events sent/ })
    await daemon.stop()

    const again = await spawnDaemon({ dataDir: join(root, 'data') })
    const events = await readEvents({ url: again.url, personalKey: PERSONAL_KEY })
    t.equal(events.length, 4, 'each event is stored once')
    const byUuid = new Map(events.map((event) => [event.uuid, event]))
    t.match(byUuid.get(uuid(0)), {
      event: '$pageview',
      timestamp: '2026-03-01T10:00:00.000Z',
      person_mode: 'full',
      properties: { title: 'Home, sweet\nhome "here"', $geoip_country_code: 'DE' },
    })
    t.match(byUuid.get(uuid(2)), { event: 'signed up', properties: { plan: 'free', seats: 3 } })
    const overview = await fetch(`${again.url}/api/projects/1/query/`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({
        query: {
          kind: 'WebOverviewQuery',
          dateRange: { date_from: '2026-03-01', date_to: '2026-03-03' },
          properties: [],
        },
      }),
    })
    const { results } = (await overview.json()) as {
      results: readonly { key: string; value: number }[]
    }
    const numbers = new Map(results.map(({ key, value }) => [key, value]))
    t.equal(numbers.get('visitors'), 2)
    t.equal(numbers.get('views'), 3)
    t.equal(numbers.get('sessions'), 2)
    t.equal(numbers.get('bounce rate'), 50)
    await again.stop()
  },
)

t.test('rows without an event are reported and skipped', async (t) => {
  const odd = [row(4, 3, 'a link'), row(5, 1, 'Home').replace(uuid(5), 'none'), row(6, 1, 'Home')]
  const root = t.testdir({ data: {}, 'odd.csv': [HEADER, ...odd].join('\n') })
  const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  const words = ['--format', 'umami', '--data-dir', join(root, 'data'), '--base-url', daemon.url]
  const { exitCode, err } = await run('import', join(root, 'odd.csv'), ...words)
  t.equal(exitCode, 3)
  t.match(err, /odd.csv:2: left out: event_type 3 is not supported/)
  t.match(err, /odd.csv:3: left out: event_id is not a UUID/)
  t.match(err, /1 events sent, 2 left out/)
  await daemon.stop()
})

t.test('other tables and unknown formats are refused with a message', async (t) => {
  const root = t.testdir({
    'imported_visitors.csv':
      'date,visitors,pageviews,bounces,visits,visit_duration\n2026-03-01,1,2,0,1,9\n',
    'twice.csv': `${HEADER},created_at\n${row(0, 1, 'Home')},2026-03-01 10:00:00\n`,
  })
  const key = ['--project-key', 'phc_none', '--format', 'umami', '--base-url', 'http://127.0.0.1:9']
  const totals = await run('import', join(root, 'imported_visitors.csv'), ...key)
  t.match(totals, { exitCode: 1, err: /has no column event_id, session_id.*MIGRATING/s })
  const twice = await run('import', join(root, 'twice.csv'), ...key)
  t.match(twice, { exitCode: 1, err: /two columns named created_at/ })
  t.match(await run('import', 'x', '--format', 'csv'), {
    exitCode: 2,
    err: /is not lines or umami/,
  })
  t.match(await run('import', 'x', '--event-data', 'y'), {
    exitCode: 2,
    err: /requires --format umami/,
  })
})

t.test(
  'a malformed line of a table is reported and does not affect the lines after it',
  async (t) => {
    const titles = [
      'fine',
      '"5 inch screen',
      '5" screen',
      '"5" screen',
      '"two\nlines ""quoted"" here"',
      'a, comma',
      '"another',
      '"Home"',
    ]
    const lines = titles.map((title, index) => row(18 + index, 1, title))
    const latin = Buffer.from(`${row(26, 1, 'M\u00fcller')}\n`, 'latin1')
    const cut = row(17, 1, 'Home').slice(0, 150)
    const table = Buffer.concat([
      Buffer.from(`${[HEADER, ...lines].join('\n')}\n`),
      latin,
      Buffer.from(cut),
    ])
    const root = t.testdir({ data: {}, 'messy.csv': table })
    const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
    const words = ['--format', 'umami', '--data-dir', join(root, 'data'), '--base-url', daemon.url]
    const { exitCode, err } = await run('import', join(root, 'messy.csv'), ...words)
    t.equal(exitCode, 3)
    t.same(
      err
        .split('\n')
        .filter((line) => line.includes('left out: '))
        .map((line) => line.replace(/^.*messy\.csv:/, '')),
      [
        '3: left out: a quoted cell in it has no closing quote',
        '8: left out: it has more cells than the header',
        '9: left out: a quoted cell in it has no closing quote',
        '11: left out: it is not in UTF-8; convert the file',
        '12: left out: the file ends in the middle of it',
      ],
    )
    t.match(err, /5 events sent, 5 left out/)
    const events = await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, 5)
    t.same(events.map((event) => event.properties['title']).sort(), [
      '"5" screen',
      '5" screen',
      'Home',
      'fine',
      'two\nlines "quoted" here',
    ])
    await daemon.stop()
  },
)

t.test('a table gives the same rows wherever chunk boundaries fall', async (t) => {
  const text = '\ufeffa,b\r\n"x, y","say ""hi""\r\nthere"\n,"" \n"open",\n'
  const cellsOf = (reader: CsvReader, piece: string) =>
    [...reader.records(piece)].map((record) => record.cells)
  const whole = cellsOf(new CsvReader(), text)
  t.strictSame(whole, [
    ['a', 'b'],
    ['x, y', 'say "hi"\r\nthere'],
    ['', '"" '],
    ['open', ''],
  ])
  for (let cut = 1; cut < text.length; cut++) {
    const reader = new CsvReader()
    const first = cellsOf(reader, text.slice(0, cut))
    t.strictSame([...first, ...cellsOf(reader, text.slice(cut))], whole, `cut at ${cut}`)
  }
})

t.test('a short row, a cell without a comma and unreadable JSON are reported', async (t) => {
  const whole = row(20, 1, 'Home')
  const half = row(21, 1, 'broken').split('broken')
  const table = [HEADER, whole, half[0], half[1], 'garbage', '', '  ', row(22, 1, 'Last')]
  const rows = [
    JSON.stringify({ event_id: uuid(1), data_key: 'k', string_value: 'v' }),
    '{"event',
    7,
  ]
  const root = t.testdir({
    'short.csv': `${table.join('\n')}\n`,
    'data.json': `${rows.join('\n')}\n`,
    'macintosh.csv': `${HEADER}\r${whole}\r`,
  })
  const { target } = await serveImports()
  const words = ['--format', 'umami', ...target]
  const { exitCode, err } = await run(
    'import',
    join(root, 'short.csv'),
    '--event-data',
    join(root, 'data.json'),
    ...words,
  )
  t.equal(exitCode, 3)
  t.strictSame(
    err
      .split('\n')
      .filter((line) => line.includes('left out: '))
      .map((line) => line.replace(/^.*\//, '')),
    [
      'data.json:2: left out: it is not a JSON object',
      'data.json:3: left out: it is not a JSON object',
      'short.csv:3: left out: it has fewer cells than the header',
      'short.csv:4: left out: it has fewer cells than the header',
      'short.csv:5: left out: it has fewer cells than the header',
    ],
  )
  t.match(err, /2 events sent, 3 left out/)
  t.match(await run('import', join(root, 'macintosh.csv'), ...words), {
    exitCode: 1,
    err: /carriage return/,
  })
})

t.test('a table in JSON may begin with a byte order mark, and it must be in UTF-8', async (t) => {
  const rowOf = (index: number, title: string): string => {
    const ids = { event_id: uuid(index), session_id: uuid(900), event_type: 1 }
    return JSON.stringify({ ...ids, created_at: '2026-03-01 10:00:00', page_title: title })
  }
  const text = `\ufeff${rowOf(27, 'Home')}\n`
  const latin = Buffer.from(`${rowOf(28, 'M\u00fcller')}\n`, 'latin1')
  const file = join(t.testdir({}), 'latin.json')
  writeFileSync(file, Buffer.concat([Buffer.from(text), latin, Buffer.from(rowOf(29, 'Last'))]))
  const { accepted, target } = await serveImports()
  const { exitCode, err } = await run('import', file, '--format', 'umami', ...target)
  t.equal(exitCode, 3)
  t.match(err, /json:2: left out: it is not in UTF-8; convert the file\n/)
  t.match(err, /2 events sent, 1 left out/)
  t.strictSame(
    accepted.flat().map((event) => event['uuid']),
    [uuid(27), uuid(29)],
  )
})

t.test('a fault in the table of properties changes the exit code', async (t) => {
  const root = t.testdir({
    'whole.csv': `${HEADER}\n${row(4, 1, 'Home')}\n`,
    'data.csv': `${EVENT_DATA}\n${WEBSITE},${uuid(900)},${uuid(4)},/page,e,plan,"free\n`,
  })
  const { target } = await serveImports()
  const words = ['--format', 'umami', '--event-data', join(root, 'data.csv'), ...target]
  const { exitCode, err } = await run('import', join(root, 'whole.csv'), ...words)
  t.match(err, /data\.csv:4: left out: a quoted cell in it has no closing quote\n/)
  t.match(err, /whole\.csv: 1 events sent\n/)
  t.equal(exitCode, 3)
})

t.test('the last row of a cut table is read again when the import is resumed', async (t) => {
  const [first, second] = [row(23, 1, 'One'), row(24, 1, 'Two')]
  const long = row(24, 1, '"Two\nlines\nand a third"')
  const names = HEADER.split(',')
  const jsonOf = (text: string) =>
    JSON.stringify(Object.fromEntries(text.split(',').map((cell, at) => [names[at], cell])))
  const files = {
    'cut.csv': [`${HEADER}\n${first}\n`, second],
    'cut.json': [`${jsonOf(first)}\n`, jsonOf(second)],
    // The cut is behind the first line of a quoted cell, within its second line, and behind that.
    'cell.csv': [`${HEADER}\n${first}\n`, long, long.indexOf('lines')],
    'line.csv': [`${HEADER}\n${first}\n`, long, long.indexOf('nes')],
    'lines.csv': [`${HEADER}\n${first}\n`, long, long.indexOf('and')],
  } as const
  const { target } = await serveImports()
  const root = t.testdir({})
  for (const [name, [start, end, length = 60]] of Object.entries(files)) {
    const file = join(root, name)
    writeFileSync(file, start + end.slice(0, length))
    const words = [file, '--format', 'umami', ...target]
    t.match(
      await run('import', ...words),
      { exitCode: 3, err: /1 events sent, [12] left out/ },
      name,
    )
    writeFileSync(file, `${start}${end}\n`)
    t.match(
      await run('import', ...words, '--resume'),
      { exitCode: 0, err: /1 events sent\n/ },
      name,
    )
  }
})
