/**
 * Question: do health checks wait behind bodies of 19 MB?
 * Workload: two clients post /batch/ bodies of 19 MB (about 21,000 events) one after the other, while a third process
 * requests GET /_livez 200 times a second, as an open loop.
 * Baseline: the bare server (a) under the same load, which shows the cost of the kernel and of sharing cores.
 * Reconsider: checking large bodies in the pool, if the p99 is above 15 ms or above that of the bare server, or if a
 * body causes more than one collection of the main thread's whole heap.
 */
import { join } from 'node:path'
import {
  type Bench,
  type BenchContext,
  expectAllStored,
  expectOnlyOk,
  interleaved,
  sleep,
} from '../harness.ts'
import { closedLoop, type LoadReport, openLoop, prepareLoad } from '../load.ts'
import { median } from '../samples.ts'
import { CollectionWatch } from './collections.ts'

export const LARGE_BODIES: Bench = {
  name: 'large-bodies',
  group: 'ingest',
  question: 'Does a health check wait behind bodies of 19 MB?',
  workload: '2 clients post 19 MB batches back to back; GET /_livez at 200/s, open loop',
  needsDaemon: true,
  run: measure,
}

/** The number of events in a body, which makes it about 19 MB. The limit is 20 MiB. */
export const LARGE_BODY_EVENTS = 20_500
const CLIENTS = 2
const PROBES_PER_SECOND = 200
/** The uploads begin this long before the first probe, and end this long after the last one. */
const MARGIN_SECONDS = 1
const SETTLE_MS = 500

interface Outcome {
  readonly probe: LoadReport
  readonly posts: LoadReport
}

async function measure(context: BenchContext): Promise<void> {
  const watch = new CollectionWatch(join(context.newFolder(), 'collections'))
  const daemon = await context.startDaemon({ environment: watch.environment })
  const bare = await context.startBaseline('bare-server')
  watch.forget()
  const [ours = [], theirs = []] = await interleaved(context.rounds(3), [
    async () => {
      const outcome = await underLoad(context, daemon.url)
      await daemon.drain()
      await sleep(SETTLE_MS)
      return outcome
    },
    () => underLoad(context, bare.url),
  ])
  const posts = ours.map((outcome) => outcome.posts)
  await expectAllStored(
    daemon,
    posts.reduce((sum, report) => sum + report.eventsAcknowledged, 0),
  )
  const statuses = posts.map((report) => JSON.stringify(report.statuses)).join(' ')
  context.report({
    figure: 'p99 of GET /_livez, against a bare server (a) under the same load',
    value: median(ours.map(({ probe }) => probe.latencyMs.p99)),
    unit: 'ms',
    baseline: median(theirs.map(({ probe }) => probe.latencyMs.p99)),
    target: { of: 'ratio', bound: 'at most', limit: 1 },
    note:
      `median of ${ours.length}; p50 ${median(ours.map(({ probe }) => probe.latencyMs.p50))} ms, ` +
      `worst ${Math.max(...ours.map(({ probe }) => probe.latencyMs.max))} ms; posts answered ${statuses}`,
  })
  context.report({
    figure: 'the same p99 of GET /_livez alone',
    value: median(ours.map(({ probe }) => probe.latencyMs.p99)),
    unit: 'ms',
    target: { of: 'value', bound: 'under', limit: 15 },
  })
  context.report({
    figure: 'bodies of 19 MB acknowledged a second, against a bare server (a)',
    value: median(posts.map((report) => report.requestsPerSecond)),
    unit: 'requests/s',
    baseline: median(theirs.map((outcome) => outcome.posts.requestsPerSecond)),
    note: `${LARGE_BODY_EVENTS} events each`,
  })
  const bodies = posts.reduce((sum, { statuses }) => sum + (statuses['200'] ?? 0), 0)
  const [whole, other] = [watch.read(true), watch.read(false)]
  context.report({
    figure: 'collections of the whole heap of the main thread for each body',
    value: whole.count / bodies,
    unit: 'collections',
    target: { of: 'value', bound: 'under', limit: 1.1 },
    note: `the longest took ${whole.longestMs} ms, the longest of ${other.count} others ${other.longestMs} ms`,
  })
}

async function underLoad(context: BenchContext, url: string): Promise<Outcome> {
  const seconds = context.size(2, 12)
  const [posts, probe] = await Promise.all([
    prepareLoad(
      closedLoop({
        url,
        request: context.requests(LARGE_BODY_EVENTS, { distinctEvents: LARGE_BODY_EVENTS }),
        connections: CLIENTS,
        seconds: seconds + 2 * MARGIN_SECONDS,
      }),
    ),
    prepareLoad(
      openLoop({
        url,
        request: { kind: 'get', path: '/_livez' },
        connections: 8,
        requestsPerSecond: PROBES_PER_SECOND,
        warmupSeconds: MARGIN_SECONDS,
        seconds,
      }),
    ),
  ])
  const [postsReport, probeReport] = await Promise.all([posts.run(), probe.run()])
  expectOnlyOk(probeReport)
  return { probe: probeReport, posts: postsReport }
}
