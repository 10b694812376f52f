/**
 * Runs every SQL block of docs/DUCKDB.md on the export of a daemon.
 *
 * @lane all
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import t from 'tap'
import { linesOf, runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { readEvents, untilStored } from '../fixtures/event-pages.ts'
import { closeConnections, postJson, send } from '../fixtures/exact-client.ts'

t.teardown(closeConnections)

const DOCUMENT = 'docs/DUCKDB.md'

/** A day and an hour of March 2025. The visitor `visitor-1` is later identified as ann. */
const DONE: readonly (readonly [who: string, at: string, event: string, properties?: object])[] = [
  ['visitor-1', '03T10:00', '$pageview', { $current_url: '/', $browser: 'Firefox' }],
  ['visitor-1', '03T10:05', '$pageview', { $current_url: '/pricing', $browser: 'Firefox' }],
  ['ann', '03T10:10', '$identify', { $anon_distinct_id: 'visitor-1', $set: { country: 'PT' } }],
  ['ann', '03T10:15', 'signed_up'],
  ['ann', '05T10:00', 'paid', { plan: 'pro', price: 30 }],
  ['ann', '05T22:30', '$pageview', { $current_url: '/', $browser: 'Safari' }],
  ['bob', '04T10:00', '$pageview', { $current_url: '/', $set: { country: 'CL' } }],
  ['bob', '04T11:00', 'signed_up'],
  ['bob', '20T10:00', 'paid', { plan: 'free', price: '12.5' }],
  ['bob', '20T11:00', 'paid', { plan: 'free', price: 'a lot' }],
  ['cy', '11T10:00', '$pageview', { $current_url: '/', $browser: 'Firefox' }],
  ['cy', '11T11:00', 'signed_up'],
]

/** The expected rows of each block, as JSON, by the heading above the block. */
const EXPECTED: Readonly<Record<string, readonly unknown[]>> = {
  Begin: [
    [{ Count: '3' }],
    [
      { name: '$ip', events: '12' },
      { name: '$current_url', events: '5' },
      { name: '$browser', events: '4' },
    ],
  ],
  Trends: [
    [
      { day: '2025-03-03', events: '2', persons: '1' },
      { day: '2025-03-04', events: '1', persons: '1' },
      { day: '2025-03-05', events: '1', persons: '1' },
      { day: '2025-03-11', events: '1', persons: '1' },
    ],
    ['1', '1', '1', '0', '0', '0', '0'].map((persons, index) => ({
      day: `2025-03-0${index + 3}`,
      persons,
    })),
    [
      { browser: 'Firefox', events: '3', persons: '2' },
      { browser: 'Safari', events: '1', persons: '1' },
      { browser: null, events: '1', persons: '1' },
    ],
    [
      { plan: 'pro', revenue: 30, average: 30, p90: 30 },
      { plan: 'free', revenue: 12.5, average: 12.5, p90: 12.5 },
    ],
    [
      { day: '2025-03-03', persons: '1' },
      { day: '2025-03-04', persons: '2' },
      { day: '2025-03-05', persons: '2' },
      { day: '2025-03-11', persons: '2' },
      { day: '2025-03-20', persons: '1' },
    ],
  ],
  Funnels: [[{ viewed: '3', signed_up: '3', paid: '1' }]],
  Retention: [
    [
      { week: '2025-03-03', persons: '2', week_1: '0', week_2: '1', week_3: '0' },
      { week: '2025-03-10', persons: '1', week_1: '0', week_2: '0', week_3: '0' },
    ],
  ],
  Visits: [
    [
      {
        start: '2025-03-03 10:00:00+00',
        landing_page: '/',
        pages: '2',
        length: { micros: '300000000' },
      },
      { start: '2025-03-04 10:00:00+00', landing_page: '/', pages: '1', length: { micros: '0' } },
      { start: '2025-03-05 22:30:00+00', landing_page: '/', pages: '1', length: { micros: '0' } },
      { start: '2025-03-11 10:00:00+00', landing_page: '/', pages: '1', length: { micros: '0' } },
    ],
    [
      { source: '/', target: '/pricing', times: '1' },
      { source: '/pricing', target: '/', times: '1' },
    ],
  ],
  Persons: [
    [
      { country: 'CL', persons: '1', events: '4' },
      { country: 'PT', persons: '1', events: '6' },
      { country: null, persons: '1', events: '2' },
    ],
  ],
}

t.test('every block of the page returns the same numbers as the daemon', async (t) => {
  const root = t.testdir()
  const dataDir = join(root, 'data')
  const daemon = await spawnDaemon({ dataDir })
  t.teardown(() => daemon.stop())
  const batch = DONE.map(([distinct_id, at, event, properties = {}]) => ({
    distinct_id,
    event,
    properties,
    timestamp: `2025-03-${at}:00Z`,
  }))
  await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  await untilStored(source, DONE.length)
  const stored = await readEvents(source)
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const persons = await send(`${daemon.url}/api/projects/1/persons/?format=csv`, { headers })
  writeFileSync(join(root, 'persons.csv'), persons.body)
  const file = join(root, 'events.parquet')
  const data = ['--data-dir', dataDir]
  const exported = await runCommand('export', ...data, '--format', 'parquet', '--output', file)
  t.equal(exported.exitCode, 0)
  const remote = ['--base-url', daemon.url, '--personal-key', PERSONAL_KEY, '--json']
  const week = ['--from', '2025-03-03', '--to', '2025-03-09']
  const days = linesOf(await runCommand('query', 'trends', '$pageview', ...week, ...remote))

  const connection = await (await DuckDBInstance.create()).connect()
  const ask = async (sql: string) =>
    (await connection.runAndReadAll(sql)).getRowObjectsJson() as readonly Record<string, unknown>[]
  await ask(`SET file_search_path = '${root}'`)
  for (const part of readFileSync(DOCUMENT, 'utf8').split(/^## /m).slice(1)) {
    const title = part.slice(0, part.indexOf('\n'))
    const blocks = [...part.matchAll(/^```sql\n(.*?)^```/gms)].map(([, sql = '']) => sql)
    t.ok(blocks.length > 0, title)
    const answers = []
    for (const sql of blocks) {
      const rows = await ask(sql)
      if (rows.length > 0) answers.push(rows)
    }
    t.match(answers, EXPECTED[title], title)
    t.equal(answers.length, EXPECTED[title]?.length, 'every block is checked')
  }
  t.strictSame(
    await ask('SELECT day::VARCHAR AS day, persons::INT AS persons FROM per_day'),
    days,
    'the daemon returns the same counts',
  )

  await t.test('columns and types match the table of the page', async (t) => {
    const columns = await ask('DESCRIBE events')
    const told = [
      ...readFileSync(DOCUMENT, 'utf8').matchAll(/^\| (`.*`) \| ([A-Z ]+) \|/gm),
    ].flatMap(([, names = '', type]) =>
      [...names.matchAll(/`(\w+)`/g)].map(([, name]) => ({ column_name: name, column_type: type })),
    )
    t.match(columns, told)
    t.equal(columns.length, told.length)
  })

  await t.test('persons and times match those of the API', async (t) => {
    const rows = await ask(
      'SELECT person_id, epoch_ms(timestamp)::DOUBLE AS at FROM events ORDER BY id',
    )
    const wanted = stored.map(({ person_id, timestamp }) => ({
      person_id,
      at: Date.parse(timestamp),
    }))
    t.strictSame(rows, wanted)
    t.equal(new Set(rows.map(({ person_id }) => person_id)).size, 3, 'the persons are merged')
  })
})
