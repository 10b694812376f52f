/**
 * Tests the text of the metrics that Prometheus reads.
 *
 * @lane quick
 */
import t from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { EventLoopLag } from '../../src/base/event-loop-lag.ts'
import { Gauge, MetricPage } from '../../src/base/metrics.ts'
import { ServiceMetrics } from '../../src/engine/front/service-metrics.ts'
import { until } from '../fixtures/http-client.ts'

/** Checks that every line is a comment or `name{labels} number`, and that every name has help and a type before it. */
function problemsOf(page: string): readonly string[] {
  const typed = new Set<string>()
  const problems: string[] = []
  for (const line of page.trimEnd().split('\n')) {
    const type = /^# TYPE (\S+) (?:counter|gauge|histogram)$/.exec(line)?.[1]
    if (type !== undefined) typed.add(type)
    if (line.startsWith('#')) continue
    const sample =
      /^([a-z_:][a-z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? (?:[-+0-9.e]+|[+-]Inf|NaN)$/
    const name = sample.exec(line)?.[1]
    const family = name?.replace(/_(?:bucket|sum|count)$/, '') ?? ''
    if (name === undefined || !(typed.has(name) || typed.has(family))) problems.push(line)
  }
  return problems
}

t.test('counters, gauges and labels are written', async (t) => {
  const page = new MetricPage()
  const family = page.counters('things_total', 'Things\\seen\nso far.', ['kind', 'fate'])
  family.with('a', 'b').value++
  family.with('a', 'b').value += 2
  family.with('quote " back \\ line \n', '').value++
  page.gauges('level', 'Level.', []).with().value = -0.5
  t.equal(
    page.render(),
    [
      '# HELP things_total Things\\\\seen\\nso far.',
      '# TYPE things_total counter',
      'things_total{kind="a",fate="b"} 3',
      'things_total{kind="quote \\" back \\\\ line \\n",fate=""} 1',
      '# HELP level Level.',
      '# TYPE level gauge',
      'level -0.5',
      '',
    ].join('\n'),
  )
  t.same(problemsOf(page.render()), [])
})

t.test('a histogram bucket counts values up to its bound, inclusive', async (t) => {
  const page = new MetricPage()
  const histogram = page.histograms('wait_seconds', 'Wait.', ['of'], [0.1, 1]).with('x')
  for (const value of [0.05, 0.1, 0.5, 7]) histogram.observe(value)
  t.match(
    page.render(),
    [
      'wait_seconds_bucket{of="x",le="0.1"} 2',
      'wait_seconds_bucket{of="x",le="1"} 3',
      'wait_seconds_bucket{of="x",le="+Inf"} 4',
      'wait_seconds_sum{of="x"} 7.65',
      'wait_seconds_count{of="x"} 4',
    ].join('\n'),
  )
})

t.test('the number of label sets is bounded; further ones share one', async (t) => {
  const page = new MetricPage()
  const family = page.counters('x_total', 'X.', ['id'])
  for (let id = 0; id < 5000; id++) family.with(String(id)).value++
  const lines = page.render().split('\n')
  t.ok(lines.length < 1010)
  t.match(page.render(), 'x_total{id="other"} 4000\n')
  t.match(page.render(), 'x_total{id="7"} 1\n')
})

t.test('a name can be registered once', async (t) => {
  const page = new MetricPage()
  page.gauges('level', '', [])
  t.throws(() => page.gauges('level', '', []), /registered twice/)
})

t.test('the page of the service is well-formed and has the documented names', async (t) => {
  const metrics = new ServiceMetrics({ version: '1.2.3', clock: SYSTEM_CLOCK })
  metrics.httpRequests.with('/capture', '200').value++
  metrics.httpRequestSeconds.with('/capture').observe(0.01)
  metrics.ingestEvents.with('1', 'accepted').value += 10
  metrics.storeCommitSeconds.with('log').observe(0.001)
  metrics.storeMapUsedBytes.with('log').value = 4096
  metrics.storeFreeBytes.with('events').value = 4096
  const text = metrics.page.render()
  t.same(problemsOf(text), [])
  for (const name of [
    'http_requests_total',
    'http_request_duration_seconds',
    'ingest_events_total',
    'ingest_batch_bytes',
    'ingest_queue_depth',
    'ingest_oldest_unprocessed_age_seconds',
    'store_commit_duration_seconds',
    'store_free_bytes',
    'store_map_used_bytes',
    'disk_free_bytes',
    'event_loop_lag_seconds',
    'build_info',
    'process_resident_memory_bytes',
    'process_cpu_seconds_total',
  ]) {
    t.match(text, `# TYPE ${name} `)
  }
  const value = (name: string): number => Number(new RegExp(`^${name} (.+)$`, 'm').exec(text)?.[1])
  t.ok(value('process_resident_memory_bytes') > 1e6)
  t.ok(value('process_cpu_seconds_total') > 0)
  const startedAt = value('process_start_time_seconds')
  t.ok(Math.abs(startedAt - performance.timeOrigin / 1000) < 60, `${startedAt} is the start time`)
})

t.test('the event loop lag is the worst delay of the last windows', async (t) => {
  let nowMs = 0
  const gauge = new Gauge()
  const lag = new EventLoopLag(gauge, { now: () => nowMs, monotonic: () => nowMs })
  lag.start()
  t.teardown(() => lag.stop())
  nowMs = 400
  t.ok(await until(() => gauge.value === 0.3), '300 ms later than due')
  nowMs = 500
  t.ok(await until(() => gauge.value === 0.3), 'the value is kept for a while')
})
