/**
 * `tenrec query` against a running daemon.
 *
 * @lane quick
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { CommandIo } from '../../src/cli/lib/command.ts'
import { bar, heights } from '../../src/cli/lib/query-chart.ts'
import { runCommandLine } from '../../src/cli/run.ts'
import { linesOf, type Outcome, runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { send } from '../fixtures/exact-client.ts'
import { eventually } from '../fixtures/timed-command.ts'

const RANGE = ['--from', '2024-01-07', '--to', '2024-01-10']

/** Output as on a terminal of 60 columns. */
async function runAtTerminal(...words: readonly string[]): Promise<Outcome> {
  const written = { out: '', err: '' }
  const io: CommandIo = {
    out: (text) => {
      written.out += text
    },
    err: (text) => {
      written.err += text
    },
    environment: {},
    machine: { coreCount: 2, isTerminal: true },
    terminalColumns: 60,
    clock: { now: () => Date.parse('2024-01-10T12:00:00Z'), monotonic: () => 0 },
    onStopSignal: () => () => undefined,
    onHangup: () => () => undefined,
    exitNow: () => undefined,
  }
  return { exitCode: await runCommandLine(words, io), ...written }
}

/** The actor, event and day in January of each event. The events are one hour apart. */
const DONE: readonly (readonly [who: string, day: number, event: string, url?: string])[] = [
  ['ann', 7, 'view', '/'],
  ['ann', 7, 'buy'],
  ['ann', 8, 'view', '/'],
  ['ann', 8, '$pageview', '/pricing'],
  ['ann', 8, '$pageview', '/docs'],
  ['ann', 10, 'view', '/'],
  ['bob', 7, 'view', '/'],
  ['bob', 9, '$pageview', '/pricing'],
  ['cy', 8, 'view', '/'],
  ['cy', 9, 'buy'],
  ['cy', 9, 'view', '/'],
  ['dee', 20, '$pageview', 'https://shop.example/'],
  ['dee', 20, '$pageview', 'https://shop.example/pricing?ref=mail'],
  ['dee', 20, '$pageview', 'https://shop.example/docs/#top'],
]

t.test('charts show numbers, and each number leads to its persons', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const daemon = await spawnDaemon({ dataDir })
  t.teardown(() => daemon.stop())
  const batch = DONE.map(([who, day, event, url], index) => ({
    event,
    distinct_id: who,
    timestamp: new Date(Date.UTC(2024, 0, day, 1, index)).toISOString(),
    properties: {
      $current_url: url,
      plan: who === 'ann' ? 'pro' : 'free',
      ...(event === 'buy' ? { price: who === 'ann' ? 10.5 : 20 } : {}),
    },
  }))
  const body = JSON.stringify({ api_key: PROJECT_KEY, batch })
  t.equal((await send(`${daemon.url}/batch/`, { method: 'POST', body })).status, 200)
  const remote = ['--base-url', daemon.url, '--personal-key', PERSONAL_KEY]
  const query = (...words: readonly string[]) => runCommand('query', ...words, ...RANGE, ...remote)
  const lines = async (...words: readonly string[]) => linesOf(await query(...words, '--json'))
  for (let attempt = 0; attempt < 3000; attempt++) {
    const listed = await lines('stickiness', '*', '--persons', '--periods', '2')
    if (listed.length === 2) break
    await sleep(20)
  }

  await t.test('trends', async (t) => {
    t.strictSame(await lines('trends', 'view'), [
      { day: '2024-01-07', persons: 2 },
      { day: '2024-01-08', persons: 2 },
      { day: '2024-01-09', persons: 1 },
      { day: '2024-01-10', persons: 1 },
    ])
    t.strictSame(await lines('trends', '*', '--interval', 'week'), [
      { week: '2024-01-07', persons: 3 },
    ])
    t.strictSame(await lines('trends', 'view', '--interval', 'month', '--where', 'plan!=pro'), [
      { month: '2024-01-01', persons: 2 },
    ])
    const properties = JSON.stringify([{ key: 'plan', value: 'pro', type: 'event' }])
    const persons = await lines('trends', 'view', '--persons', '--properties', properties)
    t.match(persons, [{ name: 'ann', value_at_data_point: 3 }])
    const table = await query('trends', 'view', '--persons', '--limit', '1')
    t.match(table.out, /^name +uuid +created_at +value\nann +\S+ +\S+ +3\n$/)
    t.equal(table.err, '1 of 3 persons\n')
  })

  await t.test(
    'trends of every kind of count, with breakdowns and with the previous period',
    async (t) => {
      const numbers = async (...words: readonly string[]) =>
        (await lines('trends', ...words)).map((row) => Object.values(row).slice(1))
      t.strictSame(await numbers('$pageview', '--math', 'total'), [[0], [2], [1], [0]])
      t.match(await lines('trends', '*', '--math', 'total'), [{ events: 3 }, {}, {}, {}])
      const sum = await lines('trends', 'buy', '--math', 'sum:price', '--interval', 'month')
      t.strictSame(sum, [{ month: '2024-01-01', 'sum:price': 30.5 }])
      t.strictSame(await numbers('view', '--breakdown', 'plan', '--interval', 'week'), [
        ['free', 2],
        ['pro', 1],
      ])
      t.strictSame(await numbers('buy', '--breakdown', 'price', '--interval', 'week'), [
        ['10.5', 1],
        ['20', 1],
      ])
      t.strictSame(await numbers('view', '--breakdown', 'none', '--interval', 'week'), [
        ['(none)', 3],
      ])
      const compared = ['--from', '2024-01-09', '--to', '2024-01-10', '--compare', ...remote]
      t.strictSame(linesOf(await runCommand('query', 'trends', 'view', ...compared, '--json')), [
        { day: '2024-01-09', persons: 1, previous: 2 },
        { day: '2024-01-10', persons: 1, previous: 2 },
      ])
      const both = ['trends', 'view', '--breakdown', 'plan', ...compared]
      t.match(
        (await runCommand('query', ...both)).out,
        /^breakdown +sum +last +previous\n(?=[\s\S]*^pro +1 +1 +2$)[\s\S]*^free +1 +0 +2$/m,
      )
      t.match(
        (await runAtTerminal('query', ...both)).out,
        /^breakdown .* chart\n(?=[\s\S]*^pro .* {2}▁█$)[\s\S]*^free .* {2}█▁$/m,
      )
      t.match(await query('trends', 'view', '--math', 'often'), { exitCode: 1, err: /math/ })
    },
  )

  await t.test('a range of several years is one request', async (t) => {
    const requests = async () => {
      const page = (await send(`${daemon.url}/metrics`)).body.toString()
      const counts = page.matchAll(/^http_requests_total\{route="(?!\/metrics).*\} (\d+)$/gm)
      return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
    }
    const before = await requests()
    const years = ['--from', '2021-01-01', '--to', '2024-01-10', ...remote]
    for (const words of [
      ['trends', 'view'],
      ['lifecycle', 'view'],
      ['stickiness', 'view'],
      ['retention', 'view'],
    ]) {
      const rows = linesOf(await runCommand('query', ...words, ...years, '--json'))
      t.equal(rows.length, 1105, words.join(' '))
    }
    t.equal((await requests()) - before, 4)
    const long = await runAtTerminal('query', 'trends', 'view', '--breakdown', 'plan', ...years)
    t.match(long.out, /^free .* ▁{47}█▁\n/m, 'adjacent bars share a column')
  })

  await t.test('tables can be printed for spreadsheets', async (t) => {
    const csv = async (...words: readonly string[]) => (await query(...words, '--csv')).out
    t.equal(
      await csv('trends', 'view', '--interval', 'week', '--breakdown', 'plan'),
      'week,breakdown,persons\r\n2024-01-07,free,2\r\n2024-01-07,pro,1\r\n',
    )
    t.match(await csv('funnel', 'view', 'buy'), /^step,event,persons,share\r\n1,view,3,1\r\n/)
    t.match(
      await csv('retention', 'view'),
      /^day,persons,returned.0,returned.1,returned.2\r\n2024-01-07,2,1,0,1\r\n2024-01-08,2,1,1,\r\n/,
    )
    t.match(await csv('trends', 'view', '--persons', '--limit', '1'), /(?=.*,uuid,)^.*\r\n.*ann/)
    t.equal(await csv('paths', '--types', '$screen'), '')
  })

  await t.test('a key needs the query scope', async (t) => {
    const { key } = linesOf(
      await runCommand('key', 'create', '--scopes', 'event:read', '--data-dir', dataDir, '--json'),
    )[0] as { key: string }
    const asked = ['trends', 'view', '--base-url', daemon.url, '--personal-key', key]
    const isRefused = async () =>
      /403: .*lacks the scope query:read/.test((await runCommand('query', ...asked)).err)
    t.ok(await eventually(isRefused), 'the key works once the daemon has read it')
  })

  await t.test('funnels', async (t) => {
    t.strictSame(await lines('funnel', 'view', 'buy'), [
      { step: 1, event: 'view', persons: 3, share: 1 },
      { step: 2, event: 'buy', persons: 2, share: 0.667 },
    ])
    t.match((await query('funnel', 'view', 'buy')).out, /\n2 +buy +2 +66.7 %\n$/)
    const lost = await lines('funnel', 'view', 'buy', '--persons', '--step', '-2')
    t.match(lost, [{ name: 'bob' }])
    const strict = await lines('funnel', 'view', 'buy', '--order', 'strict', '--persons')
    t.strictSame(strict.map(({ name }) => name).sort(), ['ann', 'cy'])
    t.match(await lines('funnel', 'view', 'none'), [{ persons: 3 }, { persons: 0 }])
  })

  await t.test('lifecycle', async (t) => {
    const [first, second, , last] = await lines('lifecycle', 'view')
    t.match(first, { day: '2024-01-07', new: 2, returning: 0, resurrecting: 0, dormant: 0 })
    t.match(second, { new: 1, returning: 1, resurrecting: 0, dormant: 1 })
    t.match(last, { new: 0, returning: 0, resurrecting: 1, dormant: 1 })
    const dormant = await lines('lifecycle', 'view', '--persons', '--status', 'dormant')
    t.match(dormant, [{ name: 'cy' }])
  })

  await t.test('retention', async (t) => {
    t.strictSame(await lines('retention', 'view'), [
      { day: '2024-01-07', persons: 2, returned: [1, 0, 1] },
      { day: '2024-01-08', persons: 2, returned: [1, 1] },
      { day: '2024-01-09', persons: 1, returned: [0] },
      { day: '2024-01-10', persons: 1, returned: [] },
    ])
    const firsts = await lines('retention', 'view', '--first-time', '--returning', 'buy')
    t.match(firsts[1], { day: '2024-01-08', persons: 1, returned: [1, 0] })
    const second = await query('retention', 'view', '--persons', '--cohort', '2')
    t.match(
      second.out,
      /^name .*\n(?=[\s\S]*ann +\S+ +\S+ +1 0 1\n)(?=[\s\S]*cy +\S+ +\S+ +1 1 0\n)/,
    )
    const weeks = ['--interval', 'week', '--from', '2024-01-01', '--to', '2024-01-10']
    const asked = ['retention', 'view', ...weeks, '--json', ...remote]
    const weekly = linesOf(await runCommand('query', ...asked))
    t.strictSame(
      weekly.map(({ persons, returned }) => [persons, returned]),
      [
        [0, [0]],
        [3, []],
      ],
    )
  })

  await t.test('stickiness and paths', async (t) => {
    const persons = (await lines('stickiness', 'view')).map((row) => row['persons'])
    t.strictSame(persons, [1, 1, 1, 0])
    const types = ['--types', '$pageview']
    const way = ['--start', '/pricing', '--end', '/docs']
    t.match(await lines('paths', ...way, '--persons', ...types), [{ name: 'ann' }])
    t.strictSame(await lines('paths', ...types), [
      { step: 1, from: '/pricing', to: '/docs', times: 1, seconds: 60 },
    ])
    t.strictSame(await lines('paths', ...types, '--end', '/pricing'), [])
    t.match(await lines('paths', '--last', '/pricing', ...types), [{ name: 'bob' }])
    t.match(await lines('paths', '--end', '/docs', '--position', '1', ...types), [{ name: 'ann' }])
  })

  await t.test('a path step is the path of a page, or its whole address on request', async (t) => {
    const [day, types] = [
      ['--from', '2024-01-20', '--to', '2024-01-20'],
      ['--types', '$pageview'],
    ]
    const found = async (...words: readonly string[]) => {
      const asked = ['query', 'paths', ...words, ...types, ...day, '--persons', '--json', ...remote]
      return linesOf(await runCommand(...asked)).map(({ name }) => name)
    }
    for (const words of [
      ['--start', '/pricing'],
      ['--start', '/pricing/', '--end', '/docs'],
      ['--start', '/', '--end', 'https://shop.example/pricing?ref=other'],
      ['--start', 'https://shop.example/pricing?ref=mail'],
      ['--start', 'https://shop.example'],
      ['--start', '/', '--position', '1'],
      ['--end', '/docs'],
      ['--last', '/docs'],
    ]) {
      t.strictSame(await found(...words), ['dee'], words.join(' '))
    }
    for (const words of [
      ['--start', '/docs'],
      ['--start', '/', '--end', '/docs'],
      ['--start', '/pricing', '--position', '1'],
      ['--start', 'https://shop.example/pricing'],
      ['--end', '/nowhere'],
      ['--last', '/pricing'],
    ]) {
      t.strictSame(await found(...words), [], words.join(' '))
    }
    const { exitCode, err } = await query('paths', '--last', '/a', '--end', '/b')
    t.match([exitCode, err], [2, /--last cannot be combined/])
  })

  await t.test('an unknown event is reported together with the closest known name', async (t) => {
    const { exitCode, out, err } = await query('trends', 'veiw')
    t.match([exitCode, out], [0, /2024-01-10 +0\n$/])
    t.equal(err, 'tenrec: There was never an event "veiw". Did you mean view?\n')
    t.equal((await query('retention', 'veiw', '--returning', 'view')).err, err)
    t.match((await query('stickiness', 'veiw', '--persons')).err, err)
    const others = /never an event "xyzzy plugh"\. The newest events are \$pageview, view, buy\.\n/
    t.match((await query('lifecycle', 'xyzzy plugh')).err, others)
    const funnel = await query('funnel', 'view', 'buyy')
    t.equal(funnel.err, 'tenrec: There was never an event "buyy". Did you mean buy?\n')
    const quiet = ['--from', '2024-01-02', '--to', '2024-01-02', ...remote]
    t.equal((await runCommand('query', 'trends', 'view', ...quiet)).err, '', 'a day without events')
  })

  await t.test('a terminal shows charts', async (t) => {
    const trends = await runAtTerminal('query', 'trends', 'view', ...RANGE, ...remote)
    const [header, first = '', , third = ''] = trends.out.split('\n')
    t.match(header, /^day +persons +chart$/)
    t.match(first, /^2024-01-07 {2}2 +█+$/)
    t.ok(first.length <= 60)
    t.match([first, third], [/ █{39}$/, / █{19}▌$/], 'half of the count')
    const defaults = await runAtTerminal('query', 'retention', 'view', ...remote)
    t.match(defaults.out, /2024-01-07 {2}2 +1 0 1 +▅▁▅\n/)
    t.equal(defaults.out.split('\n').length, 9, 'the last seven days, today included')
  })

  await t.test('error messages of the daemon are passed on', async (t) => {
    const wrong = await query('funnel', 'a', 'b', '--order', 'sideways')
    t.match(wrong, { exitCode: 1, out: '', err: /The daemon answered 400: / })
  })
})

t.test('invalid arguments are reported before a request is sent', async (t) => {
  const nowhere = ['--base-url', 'http://127.0.0.1:9', '--personal-key', 'phx_x']
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['trends', 'a', '--from', 'yesterday'], /--from must be a date/],
    [['trends', 'a', '--from', '2024-01-02', '--to', '2024-01-01'], /later than --to/],
    [['trends', 'a', '--interval', 'hour'], /day, week or month/],
    [['trends', 'a', '--where', 'plan'], /such as plan=pro/],
    [['trends', 'a', '--properties', '{'], /must be JSON/],
    [['trends', 'a', '--properties', '[]', '--where', 'a=b'], /cannot be combined/],
    [['trends'], /EVENT is missing/],
    [['funnel', ...Array.from({ length: 21 }, () => 'a')], /at most 20 steps/],
    [['funnel', 'a', '--persons', '--step', 'x'], /number of a step/],
    [['lifecycle', 'a', '--persons', '--status', 'gone'], /--status must be one of/],
    [['retention', 'a', '--persons', '--cohort', '9'], /--cohort must be at most/],
  ]
  for (const [words, message] of cases) {
    const outcome = await runCommand('query', ...words, ...nowhere)
    t.match(outcome, { exitCode: 2, out: '', err: message }, words.join(' '))
  }
  const silent = await runCommand('query', 'trends', 'a', ...nowhere)
  t.match(silent, { exitCode: 1, err: /No answer from/ })
})

t.test('bars have lengths and heights in proportion to their values', async (t) => {
  t.equal(bar(8, 8, 4), '████')
  t.equal(bar(1, 32, 4), '▏')
  t.equal(bar(3, 8, 2), '▊')
  t.equal(bar(0.001, 8, 4), '▏', 'a small value is distinguishable from zero')
  t.equal(bar(0, 8, 4), '')
  t.equal(bar(1, 0, 4), '')
  t.equal(heights([0, 0.5, 1, 2]), '▁▅██')
})
