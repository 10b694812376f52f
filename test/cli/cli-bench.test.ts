/**
 * `tenrec bench`: the events that it sends, the targets that it refuses and the limit that it reports.
 *
 * @lane all
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { nextRate } from '../../src/cli/bench/bench.ts'
import { LoadGenerator, type StepResult } from '../../src/cli/bench/bench-load.ts'
import { saturated } from '../../src/cli/bench/bench-verdict.ts'
import { MetricSamples } from '../../src/cli/lib/metric-samples.ts'
import { linesOf } from '../fixtures/command-line.ts'
import { closeConnections, send } from '../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../fixtures/flags/decision-daemon.ts'
import { eventually, runTimed } from '../fixtures/timed-command.ts'

t.teardown(closeConnections)

const QUIET: StepResult = {
  rate: 100,
  seconds: 2,
  requests: 200,
  events: 200,
  failures: new Map(),
  unanswered: 0,
  p50Ms: 1,
  p99Ms: 2,
  maxMs: 3,
  latenessMs: 1,
  generatorBusy: 0.1,
  heldUp: 0,
}

t.test(
  'events are sent at the requested rate, and a missing key or a remote address is refused',
  async (t) => {
    const { daemon } = await startDecisions(t)
    const base = ['bench', '--base-url', daemon.url]
    const key = ['--project-key', 'phc_project_1']
    const words = [...base, ...key, '--rate', '200', '--batch', '10', '--seconds', '1', '--json']
    const [step] = linesOf(await runTimed([...words, '--p99-ms', '5000', '--connections', '4']))
    t.match(step, { requests: 20, events: 200, failed: 0, holds: true })
    const stored = async (): Promise<boolean> => {
      const answer = await send(`${daemon.url}/api/projects/1/events/?limit=1000`, {
        headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
      })
      return (answer.body.toString().match(/"tenrec-bench"/g) ?? []).length >= 200
    }
    t.ok(await eventually(stored), 'stored')
    const unconfirmed = await runTimed(base)
    t.equal(unconfirmed.exitCode, 2)
    t.match(unconfirmed.err, /--project-key.*--yes/)
    const remote = await runTimed(['bench', '--base-url', 'http://192.0.2.1', ...key])
    t.equal(remote.exitCode, 2)
    t.match(remote.err, /--allow-remote/)
    const unknown = await runTimed([
      ...base,
      '--project-key',
      'phc_nobody',
      '--rate',
      '5',
      '--seconds',
      '1',
    ])
    t.equal(unknown.exitCode, 1)
    t.match(unknown.err, /does not know the project key/)
  },
)

t.test('latency is measured from the time at which a request was due', async (t) => {
  // There is one connection, and each answer takes 100 ms. Requests are due every 10 ms, so the last one waits for all
  // others.
  const server = createServer((_, response) => setTimeout(() => response.end('{}'), 100))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const generator = new LoadGenerator({
    baseUrl: `http://127.0.0.1:${port}`,
    projectKey: 'k',
    connections: 1,
    eventsPerRequest: 1,
  })
  await generator.open()
  const step = await generator.step(100, 0.1)
  generator.close()
  t.equal(step.requests, 10)
  t.ok(step.maxMs >= 850, `${step.maxMs}`)
  t.ok(step.heldUp >= 0.8)
  t.match(saturated(step, { before: null, after: null }).join('; '), /connections/)
})

t.test('a run that misses its target counts as a failed check', async (t) => {
  const server = createServer((request, response) => {
    request.resume()
    const isCapture = request.method === 'POST'
    setTimeout(() => response.writeHead(200).end('{}'), isCapture ? 60 : 0)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const base = ['bench', '--base-url', `http://127.0.0.1:${port}`, '--project-key', 'k', '--json']
  const words = [...base, '--rate', '10', '--seconds', '1', '--connections', '4']
  t.equal((await runTimed([...words, '--p99-ms', '20'])).exitCode, 3)
  t.equal((await runTimed([...words, '--p99-ms', '9000'])).exitCode, 0)
})

t.test(
  'the rate doubles while the target is met, then the search narrows in on the limit',
  async (t) => {
    const good = (rate: number) => ({ rate, isWithinTarget: true })
    const bad = (rate: number) => ({ rate, isWithinTarget: false })
    t.equal(nextRate([good(200)]), 400)
    t.equal(nextRate([good(200), bad(800)]), 400)
    t.equal(nextRate([bad(200)]), 50)
    t.equal(nextRate([good(1000), bad(1050)]), null)
  },
)

t.test('the result at the limit is read from both ends', async (t) => {
  const before = new MetricSamples('event_loop_busy_seconds_total 10\ningest_queue_depth 0\n')
  const reasons = (text: string, step: Partial<StepResult> = {}): string =>
    saturated({ ...QUIET, ...step }, { before, after: new MetricSamples(text) }).join('; ')
  t.equal(reasons('event_loop_busy_seconds_total 10.2\ningest_queue_depth 5\n'), '')
  t.match(reasons('event_loop_busy_seconds_total 11.9\n'), /main thread.*95 %/)
  t.match(reasons('ingest_queue_depth 150\n'), /processing.*150/)
  t.match(reasons('store_commit_duration_seconds_sum{store="log"} 1.9\n'), /disk/)
  t.match(reasons('', { generatorBusy: 0.95 }), /generator/)
  t.match(reasons('', { latenessMs: 40 }), /40 ms late/)
  t.match(reasons('', { failures: new Map([[503, 7]]) }), /refused 7/)
})
