/**
 * Question: does a start take as long with many stored events as with few?
 * Workload: 10 million stored events (`--events` for fewer), a graceful stop, then starts through `npm start`, as an
 * operator of a checkout does, with a warm page cache. The first read is checked, too.
 * Baseline: `npm start` with a data directory without events.
 * Reconsider: rebuilding state at the start, if it takes 2 s.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Daemon, PERSONAL_KEY } from '../daemon.ts'
import { type Bench, type BenchContext, expectAllStored, interleaved } from '../harness.ts'
import { closedLoop, runLoad } from '../load.ts'
import { repositoryFolder } from '../machine.ts'
import { median } from '../samples.ts'

export const RESTART: Bench = {
  name: 'restart',
  group: 'ingest',
  question: 'Does a start take as long with many stored events as with few?',
  workload: 'stop and start with millions of stored events; npm start until the line "ready"',
  needsDaemon: true,
  run: measure,
}

const EVENTS_PER_REQUEST = 100
const EVENTS_PER_ROUND = 500_000

interface Start {
  readonly readyMs: number
  readonly firstReadMs: number
  readonly residentBytes: number
}

async function measure(context: BenchContext): Promise<void> {
  const events = context.events(20_000, 10_000_000)
  const full = context.newFolder()
  const empty = context.newFolder()
  await fill(context, full, events)
  const first = await context.startDaemon({ dataDir: empty })
  await first.stop()
  const rounds = context.rounds(5)
  const start = (dataDir: string, isNpmStart: boolean) => (): Promise<Start> =>
    startOnce(context, dataDir, isNpmStart, dataDir === full)
  const [direct = [], bare = []] = await interleaved(rounds, [
    start(full, false),
    start(empty, false),
  ])
  if (hasStartScript()) {
    const [ours = [], theirs = []] = await interleaved(rounds, [
      start(full, true),
      start(empty, true),
    ])
    reportStarts(context, `npm start with ${events} stored events`, ours, theirs)
  }
  reportStarts(context, `tenrec serve with ${events} stored events`, direct, bare)
  context.report({
    figure: 'first page of events after the start',
    value: median(direct.map((one) => one.firstReadMs)),
    unit: 'ms',
    note: 'GET /api/projects/1/events/?limit=100 right after the line "ready"',
  })
}

function reportStarts(
  context: BenchContext,
  figure: string,
  ours: readonly Start[],
  theirs: readonly Start[],
): void {
  const mebibytes = median(ours.map((one) => one.residentBytes)) / 1024 ** 2
  context.report({
    figure: `${figure}: time to ready, against none`,
    value: median(ours.map((one) => one.readyMs)) / 1000,
    unit: 's',
    baseline: median(theirs.map((one) => one.readyMs)) / 1000,
    target: { of: 'value', bound: 'under', limit: 2 },
    note: `median of ${ours.length}; ${mebibytes.toFixed(0)} MiB resident after the first read`,
  })
}

async function fill(context: BenchContext, dataDir: string, events: number): Promise<void> {
  const daemon = await context.startDaemon({ dataDir })
  let stored = 0
  while (stored < events) {
    const count = Math.min(EVENTS_PER_ROUND, events - stored)
    const report = await runLoad(
      closedLoop({
        url: daemon.url,
        request: context.requests(EVENTS_PER_REQUEST),
        connections: 4,
        seconds: 600,
        requestsMax: Math.ceil(count / EVENTS_PER_REQUEST),
      }),
    )
    if (report.eventsAcknowledged === 0) throw new Error('no event was accepted')
    stored += report.eventsAcknowledged
    await daemon.drain()
    if (!context.isQuick) console.error(`# ${stored} of ${events} events stored`)
  }
  await expectAllStored(daemon, stored)
  await daemon.stop()
}

async function startOnce(
  context: BenchContext,
  dataDir: string,
  isNpmStart: boolean,
  hasEvents: boolean,
): Promise<Start> {
  const daemon = await context.startDaemon({ dataDir, isNpmStart })
  const startMs = performance.now()
  const found = await firstPage(daemon)
  const firstReadMs = performance.now() - startMs
  if (hasEvents && found === 0) throw new Error('no event can be read after the start')
  const residentBytes = daemon.memory().totalBytes
  await daemon.stop()
  return { readyMs: daemon.startMs, firstReadMs, residentBytes }
}

/** Returns the number of events on the first page of the list of events. */
async function firstPage(daemon: Daemon): Promise<number> {
  const response = await fetch(`${daemon.url}/api/projects/1/events/?limit=100`, {
    headers: { authorization: `Bearer ${PERSONAL_KEY}` },
  })
  const page = await response.json()
  if (!response.ok || typeof page !== 'object' || page === null || !('results' in page)) {
    throw new Error(`the list of events answered ${response.status}`)
  }
  return Array.isArray(page.results) ? page.results.length : 0
}

function hasStartScript(): boolean {
  const text = readFileSync(join(repositoryFolder(), 'package.json'), 'utf8')
  // This is the package.json of this repository, so it has scripts.
  const { scripts } = JSON.parse(text) as { scripts: Record<string, string> }
  return Object.hasOwn(scripts, 'start')
}
