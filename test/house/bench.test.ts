/**
 * Tests the measuring tools: the generator is repeatable with a seed, every event sent is new, answers are parsed
 * wherever they are split, and a comparison of results knows for which figures more is better.
 *
 * @lane quick
 */
import assert from 'node:assert/strict'
import t from 'tap'
import { analyticQuestions } from '../../bench/analytics/analytics-questions.ts'
import { expectSame } from '../../bench/analytics/analytics-sides.ts'
import { AnalyticStore } from '../../bench/analytics/analytics-store.ts'
import {
  AnalyticWorkload,
  EVENT_NAMES,
  SEARCHED_CHANNEL,
  WORKLOAD_DAYS,
  WORKLOAD_START_MS,
  type WorkloadEvent,
} from '../../bench/analytics/analytics-workload.ts'
import { AnswerLayout, AnswerReader } from '../../bench/answers.ts'
import { parseReadyLine } from '../../bench/daemon.ts'
import {
  type BenchFlag,
  benchFlags,
  distinctIdOf,
  flagBody,
  isHolding,
  propertiesOf,
  unleashBody,
  unleashStrategy,
} from '../../bench/decide/decide-workload.ts'
import { interleaved } from '../../bench/harness.ts'
import {
  eventRequest,
  eventRequests,
  postRequests,
  stampUuids,
  writeUuid,
} from '../../bench/ingest/bodies.ts'
import { EventGenerator, workloadHash } from '../../bench/ingest/events.ts'
import { parseMetrics, readMetric, sumMetric } from '../../bench/metrics.ts'
import { parseCpuSeconds, parseMemory } from '../../bench/proc.ts'
import { type BenchResult, documentText, figureTable, judge } from '../../bench/report.ts'
import { median, Samples } from '../../bench/samples.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { Differences } from '../fixtures/differences.ts'

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

t.test('the same seed creates the same events, another seed creates others', async (t) => {
  t.equal(workloadHash(1), workloadHash(1))
  t.not(workloadHash(1), workloadHash(2))
})

t.test('an event has about 25 properties and 900 bytes of JSON', async (t) => {
  const generator = new EventGenerator({ seed: 1 })
  const events = Array.from({ length: 2000 }, () => generator.event())
  const bytes = events.map((event) => Buffer.byteLength(JSON.stringify(event)))
  const properties = events.map((event) => Object.keys(event.properties).length)
  const mean = (values: number[]): number => values.reduce((a, b) => a + b) / values.length
  t.ok(mean(bytes) > 850 && mean(bytes) < 1000, `${mean(bytes)} bytes on average`)
  t.ok(mean(properties) > 24 && mean(properties) < 30, `${mean(properties)} properties on average`)
  t.equal(new Set(events.map((event) => event.uuid)).size, events.length)
})

t.test('uuids are of version 7 and never repeat, within a stream and across streams', async (t) => {
  const text = Buffer.from('00000000-0000-0000-0000-000000000000')
  const seen = new Set<string>()
  let malformed = 0
  const draw = (stream: number, ordinal: number): void => {
    writeUuid(text, 0, stream, ordinal)
    const uuid = text.toString('latin1')
    if (!UUID_V7.test(uuid)) malformed++
    seen.add(uuid.slice(24))
  }
  for (const stream of [0, 1, 65_535]) {
    for (let ordinal = 0; ordinal < 50_000; ordinal++) draw(stream, ordinal)
    for (let ordinal = 2 ** 32 - 1000; ordinal < 2 ** 32; ordinal++) draw(stream, ordinal)
  }
  t.equal(malformed, 0)
  t.equal(seen.size, 3 * 51_000, 'the last 48 bits alone distinguish all uuids')
})

t.test('a stamped request is the same request with new uuids', async (t) => {
  const options = { kind: 'events', projectKey: 'phc_k', seed: 1, distinctEvents: 10 } as const
  for (const eventsPerRequest of [1, 5]) {
    const templates = eventRequests('h:1', { ...options, eventsPerRequest, stream: 3 }, 12)
    t.ok(templates.length >= 12)
    const template = templates[0]
    assert(template)
    const before = eventsOf(template.bytes)
    t.equal(template.uuidOffsets.length, eventsPerRequest)
    stampUuids(template, 3, 100)
    const after = eventsOf(template.bytes)
    t.equal(new Set(after.map(({ uuid }) => uuid)).size, eventsPerRequest)
    for (const [index, event] of after.entries()) {
      t.match(event.uuid, UUID_V7)
      t.not(event.uuid, before[index]?.uuid)
      t.strictSame({ ...event, uuid: '' }, { ...before[index], uuid: '' })
    }
    const copy = templates.at(-1)
    t.not(copy?.bytes, template.bytes, 'no two templates share their bytes')
  }
})

t.test('the length of a request counts bytes, not characters', async (t) => {
  const { bytes, bodyBytes } = eventRequest('h:1', '/capture/', '{"a":"größe"}')
  t.equal(bodyBytes, 15)
  t.match(bytes.toString(), /Content-Length: 15\r\n\r\n/)
})

t.test('given bodies are sent in turn, each connection with its own bytes', async (t) => {
  const options = { kind: 'post', path: '/p?v=2', bodies: ['{"a":"ö"}', '{}'] } as const
  const templates = postRequests('h:1', { ...options, headers: { 'X-Y': 'z' } }, 3)
  const texts = templates.map(({ bytes }) => bytes.toString())
  t.equal(new Set(templates.map(({ bytes }) => bytes)).size, 3)
  t.match(
    texts[0],
    /^POST \/p\?v=2 HTTP\/1\.1\r\n[\s\S]*\r\nX-Y: z\r\n[\s\S]*Content-Length: 10\r\n\r\n/,
  )
  t.strictSame(
    texts.map((text) => text.slice(text.indexOf('\r\n\r\n') + 4)),
    ['{"a":"ö"}', '{}', '{"a":"ö"}'],
  )
})

t.test(
  'half of the flags have a condition, and each condition holds for some persons',
  async (t) => {
    const flags = benchFlags(500)
    const conditions = flags.flatMap(({ condition }) => (condition === null ? [] : [condition]))
    const persons = Array.from({ length: 100 }, (_, person) => propertiesOf(person))
    t.equal(conditions.length, 250)
    t.equal(new Set(flags.map(({ key }) => key)).size, 500)
    t.equal(Object.keys(persons[0] ?? {}).length, 30)
    const holding = conditions.map(
      (condition) => persons.filter((properties) => isHolding(condition, properties)).length,
    )
    t.ok(
      Math.min(...holding) > 0 && Math.max(...holding) < 100,
      'no condition holds for all persons or for none',
    )
  },
)

t.test(
  'a flag means the same to both products, and its person has the needed properties',
  async (t) => {
    const flag: BenchFlag = {
      key: 'f',
      condition: { property: 'age', operator: 'gt', values: ['40'] },
      rolloutPercentage: 100,
      variants: ['a', 'b'],
    }
    t.match(flagBody(flag), {
      filters: {
        groups: [
          { properties: [{ key: 'age', operator: 'gt', value: '40' }], rollout_percentage: 100 },
        ],
        multivariate: { variants: [{ key: 'a', rollout_percentage: 50 }, { key: 'b' }] },
      },
    })
    t.match(unleashStrategy(flag), {
      parameters: { rollout: '100', groupId: 'f' },
      constraints: [{ contextName: 'age', operator: 'NUM_GT', value: '40' }],
      variants: [
        { name: 'a', weight: 500 },
        { name: 'b', weight: 500 },
      ],
    })
    t.strictSame(JSON.parse(unleashBody(7, [flag])), {
      context: { userId: distinctIdOf(7), properties: { age: '25' } },
    })
  },
)

t.test('an answer is parsed the same wherever it is split', async (t) => {
  const body = '{"status":1}'
  const answer = Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  const differences = new Differences()
  for (let cut = 1; cut < answer.length; cut++) {
    const reader = new AnswerReader(new AnswerLayout())
    const first = answer.subarray(0, cut)
    differences.equal(reader.take(first, first.length), null, `split after ${cut} bytes`)
    const rest = reader.take(answer.subarray(cut), answer.length - cut)
    differences.same(rest, { status: 200, isClosing: false }, `what follows ${cut} bytes`)
  }
  t.strictSame(differences.list(), [], 'every cut leads to the same answer')
})

t.test('only an answer of the cached layout is recognized without reading its head', async (t) => {
  const layout = new AnswerLayout()
  const reader = new AnswerReader(layout)
  const head = (status: string, length: number, more = ''): string =>
    `HTTP/1.1 ${status}\r\nContent-Length: ${length}\r\n${more}\r\n`
  const known = Buffer.from(`${head('200 OK', 2)}{}`)
  t.equal(layout.match(known, known.length), 0, 'no layout is cached yet')
  reader.take(known, known.length)
  t.equal(layout.match(known, known.length), 200)
  t.equal(layout.match(known, known.length - 1), 0, 'the answer is incomplete')
  const other = Buffer.from(`${head('404 Nope', 0)}`)
  t.equal(other.length, known.length)
  t.equal(
    layout.match(other, other.length),
    0,
    'the size is equal, but the length of the body differs',
  )
})

t.test('a closing answer and a refusal are recognized', async (t) => {
  const reader = new AnswerReader(new AnswerLayout())
  const closing = Buffer.from(
    'HTTP/1.1 503 Busy\r\nConnection: close\r\ncontent-length: 0\r\nRetry-After: 1\r\n\r\n',
  )
  t.strictSame(reader.take(closing, closing.length), { status: 503, isClosing: true })
  const surplus = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1')
  t.throws(() => reader.take(surplus, surplus.length), /more bytes/)
})

t.test('CPU time and memory are read from /proc, whatever the name of the command', async (t) => {
  const stat = `7 (a ) b) S 1 1 1 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 11 0 100 0 0`
  t.equal(parseCpuSeconds(stat), 3)
  const status =
    'VmHWM:\t    4000 kB\nVmRSS:\t    3000 kB\nRssAnon:\t 1000 kB\nRssFile:\t 2000 kB\n'
  t.strictSame(parseMemory(status), {
    anonymousBytes: 1000 * 1024,
    fileBytes: 2000 * 1024,
    totalBytes: 3000 * 1024,
    peakBytes: 4000 * 1024,
  })
})

t.test('metrics are found by name and labels, and a missing gauge is an error', async (t) => {
  const lines = parseMetrics(
    '# HELP x y\nx_total{project="1",fate="stored"} 3\nx_total{fate="stored",project="2"} 4\n' +
      'x_total{project="1",fate="duplicate"} 9\ndepth 0\n',
  )
  t.equal(sumMetric(lines, 'x_total', { fate: 'stored' }), 7)
  t.equal(sumMetric(lines, 'x_total', { fate: 'other' }), 0)
  t.equal(readMetric(lines, 'depth'), 0)
  t.throws(() => readMetric(lines, 'width'), /no width/)
})

t.test('percentiles are exact, and the median of an even count is the middle', async (t) => {
  const samples = new Samples()
  for (let value = 100_000; value >= 1; value--) samples.add(value / 1000)
  t.strictSame(samples.percentiles(), { p50: 50, p99: 99, max: 100 })
  t.equal(median([3, 1, 2]), 2)
  t.equal(median([4, 1, 2, 3]), 2.5)
})

t.test('the two sides take turns in going first', async (t) => {
  const order: string[] = []
  const side = (name: string) => async () => order.push(name)
  const results = await interleaved(3, [side('a'), side('b')])
  t.equal(order.join(''), 'abbaab')
  t.strictSame(
    results.map((values) => values.length),
    [3, 3],
  )
})

t.test('a target is compared with the ratio or the value, in its direction', async (t) => {
  const input = { figure: 'f', value: 90, unit: 'u', baseline: 100 }
  const isMet = (of: 'ratio' | 'value', bound: 'at least' | 'at most' | 'under', limit: number) =>
    judge('b', { ...input, target: { of, bound, limit } }).isMet
  t.equal(isMet('ratio', 'at least', 0.9), true)
  t.equal(isMet('ratio', 'at least', 0.91), false)
  t.equal(isMet('value', 'at most', 90), true)
  t.equal(isMet('value', 'under', 90), false)
  t.equal(judge('b', input).isMet, null)
  t.equal(judge('b', input).ratio, 0.9)
})

t.test(
  'the document keeps other text and the sections of benchmarks that did not run',
  async (t) => {
    const order = ['one', 'two', 'three']
    const first = documentText('', [result('two', 11), result('one', 22)], order)
    t.ok(
      first.indexOf('## one') < first.indexOf('## two'),
      'the sections are in the order of the table',
    )
    t.match(first, /Not measured yet: three\./)
    const edited = `${first.replace('# Benchmarks', '# Benchmarks\n\nBy hand.')}\nBelow, by hand.\n`
    const second = documentText(edited, [result('two', 33)], order)
    t.match(second, /By hand\.[\s\S]*22 ms[\s\S]*33 ms[\s\S]*Below, by hand\./)
    t.notMatch(second, /11 ms/)
  },
)

t.test('only the line "ready" of the log gives the address of the daemon', async (t) => {
  t.equal(parseReadyLine('Tenrec is ready'), null)
  t.equal(parseReadyLine('{"msg":"other","url":"http://x","pid":1}'), null)
  t.strictSame(parseReadyLine('{"msg":"ready","url":"http://x:1/","pid":7}'), {
    url: 'http://x:1',
    pid: 7,
  })
})

t.test('the analytics workload is repeatable and has the documented properties', async (t) => {
  const size = { seed: 1, events: 20_000, persons: 2000 }
  const events = drawAnalytic(size)
  t.strictSame(events, drawAnalytic(size))
  t.not(events[0]?.uuid, drawAnalytic({ ...size, seed: 2 })[0]?.uuid)
  t.equal(EVENT_NAMES.length, 40)
  t.equal(new Set(events.map(({ name }) => name)).size, 40)
  t.equal(new Set(events.map(({ uuid }) => uuid)).size, size.events)
  t.equal(new Set(events.map(({ person }) => person)).size, size.persons, 'all persons are there')
  const searched = events.filter(({ properties }) => properties.channel === SEARCHED_CHANNEL)
  t.ok(
    Math.abs(searched.length / size.events - 0.1) < 0.02,
    `${searched.length} events are searched`,
  )
  const start = WORKLOAD_START_MS / 1000
  const end = start + WORKLOAD_DAYS * 86_400
  t.ok(events.every(({ timeSeconds }) => timeSeconds >= start && timeSeconds < end))
  const last = new Map<number, number>()
  const first = new Map<number, number>()
  for (const { person, timeSeconds, personSinceSeconds } of events) {
    if (!first.has(person)) first.set(person, timeSeconds)
    if (timeSeconds <= (last.get(person) ?? 0) || personSinceSeconds !== first.get(person)) {
      t.fail(`the times of person ${person} do not rise from its first`)
    }
    last.set(person, timeSeconds)
  }
})

t.test('the events of the analytics workload are stored once, with their persons', async (t) => {
  const dataDir = t.testdir()
  const store = new AnalyticStore(dataDir)
  const workload = new AnalyticWorkload({ seed: 1, events: 500, persons: 50 })
  for (let count = 0; count < 500; count++) {
    const event = workload.next()
    store.add(event, `person-${event.person}`)
  }
  store.commit()
  await store.close()
  const reader = new EventReader({ dataDir })
  t.match(reader.statistics().projects, [{ projectId: 1, rows: 500, distinctIds: 50 }])
  await reader.close()
})

t.test('answers of both sides must have the same persons with the same values', async (t) => {
  const ours = new Map([
    ['a', '1'],
    ['b', '2'],
  ])
  t.equal(expectSame('q', ours, new Map(ours)), 2)
  t.throws(() => expectSame('q', ours, new Map([...ours, ['c', '3']])), /2 and 3 persons differ/)
  t.throws(() => expectSame('q', ours, new Map([...ours, ['b', '3']])), /differ: b 2 and 3/)
  t.throws(() => expectSame('q', new Map(), new Map()), /nobody/)
})

t.test('every analytics query has a route and a statement about the same days', async (t) => {
  const differences = new Differences()
  for (const { name, parts } of analyticQuestions()) {
    for (const { path, select } of parts) {
      const { pathname, searchParams } = new URL(path, 'http://h')
      differences.match(pathname, /^\/api\/projects\/1\/persons\/[a-z]+\/$/, name)
      differences.equal(searchParams.get('date_to'), '2024-07-29', name)
      differences.match(select, /^SELECT (DISTINCT )?person_id/, name)
    }
  }
  t.strictSame(differences.list(), [], 'every question has its route, days and statement')
})

t.test('a table has one row per result', async (t) => {
  const rows = figureTable([judge('b', { figure: 'f', value: 1, unit: 'ms' })]).split('\n')
  t.equal(rows.length, 3)
})

function result(bench: string, value: number): BenchResult {
  return {
    bench,
    question: 'Q?',
    workload: 'w',
    measuredAt: '2026-01-01T00:00:00.000Z',
    seconds: 1,
    command: 'npm run bench',
    seed: 1,
    workloadHash: 'h',
    machine: {
      cpu: 'c',
      cores: 2,
      memoryGiB: 1,
      fsyncMsP50: 1,
      fsyncMsP99: 1,
      node: 'v20',
      commit: 'abc',
      loadAtStart: 0,
    },
    figures: [judge(bench, { figure: 'f', value, unit: 'ms' })],
  }
}

interface SentEvent {
  readonly uuid: string
}

/** Returns the events of a request as a server would read them. */
function eventsOf(request: Buffer): readonly SentEvent[] {
  const text = request.toString('utf8')
  const body = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as
    | SentEvent
    | { readonly batch: readonly SentEvent[] }
  return 'batch' in body ? body.batch : [body]
}

/** All events of a workload. The uuid is a text, because its bytes are reused. */
function drawAnalytic(size: { seed: number; events: number; persons: number }) {
  const workload = new AnalyticWorkload(size)
  return Array.from({ length: size.events }, () => {
    const { uuidBytes, ...event }: WorkloadEvent = workload.next()
    return { ...event, uuid: Buffer.from(uuidBytes).toString('hex') }
  })
}
