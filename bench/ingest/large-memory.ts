/**
 * Question: can many large simultaneous bodies make the daemon fail?
 * Workload: 64 connections each send one /batch/ body of 19 MB at the same moment: 1.2 GB.
 * Baseline: memory of the same daemon before the run.
 * Reconsider: the limit on bytes in flight, if the peak reaches 1 GiB, an answer is neither 200 nor 503, or the daemon
 * is not healthy afterward.
 */
import { PROJECT_KEY } from '../daemon.ts'
import { type Bench, type BenchContext, expectAllStored, sleep } from '../harness.ts'
import { closedLoop, type LoadReport, prepareLoad } from '../load.ts'
import { LARGE_BODY_EVENTS } from './large-bodies.ts'

export const LARGE_MEMORY: Bench = {
  name: 'large-memory',
  group: 'ingest',
  question: 'Can many large simultaneous bodies make the daemon fail?',
  workload: '64 connections each send one 19 MB batch at the same moment',
  needsDaemon: true,
  run: measure,
}

const MIB = 1024 ** 2
const POLL_MS = 20

async function measure(context: BenchContext): Promise<void> {
  const connections = context.size(16, 64)
  const daemon = await context.startDaemon()
  const before = daemon.memory()
  const load = await prepareLoad(
    closedLoop({
      url: daemon.url,
      request: context.requests(LARGE_BODY_EVENTS, { distinctEvents: LARGE_BODY_EVENTS }),
      connections,
      seconds: 120,
      requestsMax: connections,
    }),
  )
  let anonymousPeakBytes = 0
  let isRunning = true
  const watch = async (): Promise<void> => {
    while (isRunning) {
      anonymousPeakBytes = Math.max(anonymousPeakBytes, daemon.memory().anonymousBytes)
      await sleep(POLL_MS)
    }
  }
  const send = async (): Promise<LoadReport> => {
    try {
      return await load.run()
    } finally {
      isRunning = false
    }
  }
  const [finished] = await Promise.all([send(), watch()])
  const { 200: accepted = 0, 503: refused = 0, ...others } = finished.statuses
  if (Object.keys(others).length > 0) throw new Error(`answers ${JSON.stringify(others)}`)
  const captured = await expectHealthy(daemon.url)
  await daemon.drain()
  const peak = daemon.memory().peakBytes
  context.report({
    figure: `peak memory, ${connections} bodies of 19 MB at once, against before`,
    value: peak / MIB,
    unit: 'MiB',
    baseline: before.totalBytes / MIB,
    target: { of: 'value', bound: 'under', limit: 1024 },
    note:
      'resident set with mapped files, up to the end of processing; without them ' +
      `${(anonymousPeakBytes / MIB).toFixed(0)} MiB while receiving`,
  })
  context.report({
    figure: 'requests answered 200 or 503, against requests sent',
    value: accepted + refused,
    unit: 'requests',
    baseline: connections,
    target: { of: 'ratio', bound: 'at least', limit: 1 },
    note: `${accepted} accepted, ${refused} refused with 503, ${finished.requestsLost} cut off; healthy afterward`,
  })
  await expectAllStored(daemon, finished.eventsAcknowledged + captured)
}

/** Throws unless health checks are answered and an event is accepted. Returns the number of events that were sent. */
async function expectHealthy(url: string): Promise<number> {
  for (const path of ['/_livez', '/_readyz', '/_health']) {
    const response = await fetch(url + path)
    if (response.status !== 200) throw new Error(`${path} answers ${response.status} afterward`)
  }
  const body = JSON.stringify({ api_key: PROJECT_KEY, event: 'after', distinct_id: 'someone' })
  const response = await fetch(`${url}/capture/`, { method: 'POST', body })
  if (response.status !== 200) throw new Error(`an event is answered ${response.status} afterward`)
  return 1
}
