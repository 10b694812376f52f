/**
 * Question: does the daemon stay stable while it does everything at once for half an hour?
 * Workload: 30 minutes (`--minutes` for another time) of single captures, batches of 100, decisions over both routes,
 * and a client that calls every GET route and changes flags, persons, roles, keys and more. The loops are open, at
 * rates that leave two cores some room. Memory, handles, threads and maps are read every five seconds.
 * Baseline: the same daemon after a third of the time. A straight line through the later readings must not rise by more
 * than noise explains. For maps: bytes of files for each stored event.
 * Reconsider: the design, if a value rises, an event is lost, or an answer is unexpected.
 */
import type { Daemon } from '../daemon.ts'
import {
  createProject,
  DECISION_PATH,
  OLD_DECISION_PATH,
  sendPersons,
} from '../decide/decide-setup.ts'
import { decisionBody } from '../decide/decide-workload.ts'
import { type Bench, type BenchContext, expectOnlyOk, sleep } from '../harness.ts'
import { type LoadOptions, type LoadReport, openLoop, runLoad } from '../load.ts'
import { SoakClient } from './soak-client.ts'
import { growthOf, type Reading, readDaemon } from './soak-readings.ts'

export const SOAK: Bench = {
  name: 'soak',
  group: 'operations',
  question: 'Does the daemon stay stable while it does everything at once for half an hour?',
  workload:
    '30 minutes unless --minutes says otherwise: 200 captures, 20 batches of 100, 100 decisions a ' +
    'second, and a client that asks every route and changes a bit of everything; readings after a third count; ' +
    'memory settings of the systemd unit',
  isOnlyByName: true,
  needsDaemon: true,
  run: measure,
}

const READING_MS = 5000
const READING_MS_QUICK = 500
const TOLD_READINGS = 60
const CAPTURES_PER_SECOND = 200
const BATCHES_PER_SECOND = 20
const EVENTS_PER_BATCH = 100
const DECISIONS_PER_SECOND = 80
const OLD_DECISIONS_PER_SECOND = 20
/**
 * The cache is small enough to be full after the first third of the run. The default size would be reached only after
 * hours.
 */
const QUERY_CACHE = '16MiB'
const FLAGS = 20
const PERSONS = 1000
/** The allowed rise of a line in addition to noise, as a fraction of the mean. */
const RISE_MAX = 0.05

async function measure(context: BenchContext): Promise<void> {
  const dataDir = context.newFolder()
  const args = ['--query-cache', QUERY_CACHE]
  const daemon = await context.startDaemon({ dataDir, args })
  const project = await createProject(daemon, FLAGS)
  const client = new SoakClient(daemon)
  const before = (await sendPersons(daemon, project, PERSONS)) + (await client.prepare())
  const bodies = Array.from({ length: PERSONS }, (_, person) =>
    decisionBody(project.apiKey, person),
  )
  const seconds = context.minutes(0.3, 30) * 60
  const load = (
    request: LoadOptions['request'],
    requestsPerSecond: number,
    connections: number,
  ): Promise<LoadReport> =>
    runLoad(openLoop({ url: daemon.url, request, requestsPerSecond, connections, seconds }))
  const decisions = (path: string, rate: number): Promise<LoadReport> =>
    load({ kind: 'post', path, bodies, headers: {} }, rate, 16)
  client.start()
  const readings: Reading[] = []
  const watching = watch(context, daemon, dataDir, seconds, readings)
  const reports = await Promise.all([
    load(context.requests(1), CAPTURES_PER_SECOND, 32),
    load(context.requests(EVENTS_PER_BATCH), BATCHES_PER_SECOND, 16),
    decisions(DECISION_PATH, DECISIONS_PER_SECOND),
    decisions(OLD_DECISION_PATH, OLD_DECISIONS_PER_SECOND),
  ])
  await watching
  await client.stop()
  await daemon.drain()
  for (const report of reports) expectOnlyOk(report)
  const acknowledged = reports.reduce((sum, report) => sum + report.eventsAcknowledged, before)
  reportGrowth(context, readings, seconds)
  reportLatencies(context, reports)
  await reportLosses(context, daemon, client, acknowledged)
  await daemon.stop()
}

async function watch(
  context: BenchContext,
  daemon: Daemon,
  dataDir: string,
  seconds: number,
  readings: Reading[],
): Promise<void> {
  const startMs = performance.now()
  while (performance.now() - startMs < seconds * 1000) {
    const reading = await readDaemon(daemon, dataDir, startMs)
    readings.push(reading)
    if (!context.isQuick && readings.length % TOLD_READINGS === 0) {
      const { atMinutes, anonymousMib, handles, stored } = reading
      const figures = `${anonymousMib.toFixed(0)} MiB, ${handles} handles, ${stored} events`
      console.error(`# ${atMinutes.toFixed(0)} min: ${figures}`)
    }
    await sleep(context.size(READING_MS_QUICK, READING_MS))
  }
}

/** Throws if an acknowledged event is not stored exactly once, or if a request was refused. */
async function reportLosses(
  context: BenchContext,
  daemon: Daemon,
  client: SoakClient,
  acknowledged: number,
): Promise<void> {
  const { stored, duplicates } = await daemon.progress()
  const { failures, requests } = client
  context.report({
    figure: 'events stored, against acknowledged',
    value: stored,
    unit: 'events',
    baseline: acknowledged,
    target: { of: 'ratio', bound: 'at least', limit: 1 },
    note:
      `${duplicates} taken for duplicates; ${requests} other requests, ` +
      `${failures.length === 0 ? 'all answered 2xx' : failures.join('; ')}`,
  })
  if (duplicates !== 0 || stored !== acknowledged) {
    throw new Error(`${acknowledged} events acknowledged, ${stored} stored`)
  }
  if (failures.length > 0) throw new Error(`unexpected answers: ${failures.join('; ')}`)
}

function reportGrowth(context: BenchContext, readings: readonly Reading[], seconds: number): void {
  const settled = readings.slice(Math.floor(readings.length / 3))
  const figures: readonly (readonly [string, string, (reading: Reading) => number])[] = [
    ["memory of the process's own", 'MiB', ({ anonymousMib }) => anonymousMib],
    ['handles', 'handles', ({ handles }) => handles],
    ['threads', 'threads', ({ threads }) => threads],
    ['address space', 'GiB', ({ mappedGib }) => mappedGib],
    ['data files for each stored event', 'bytes', ({ fileBytes, stored }) => fileBytes / stored],
  ]
  for (const [name, unit, figureOf] of figures) {
    const { mean, rise, riseBeyondNoise } = growthOf(settled, figureOf)
    const values = settled.map(figureOf)
    const [least, most] = [Math.min(...values), Math.max(...values)]
    context.report({
      figure: `${name}: rise that noise does not explain, against the mean`,
      value: riseBeyondNoise,
      unit,
      baseline: mean,
      // A run of a few minutes is too short to fill the caches, so it has no target.
      ...(context.isQuick
        ? {}
        : { target: { of: 'ratio', bound: 'at most', limit: RISE_MAX } as const }),
      note:
        `${settled.length} readings of the last two thirds of ${(seconds / 60).toFixed(1)} minutes: ` +
        `${least.toFixed(1)} to ${most.toFixed(1)}, the line rises by ${rise.toFixed(2)} in all`,
    })
  }
}

function reportLatencies(context: BenchContext, reports: readonly LoadReport[]): void {
  const names = [
    'captures',
    'batches of 100',
    'decisions of today',
    'decisions of the years before',
  ]
  for (const [index, { latencyMs, requestsPerSecond }] of reports.entries()) {
    context.report({
      figure: `p99 of ${names[index]}`,
      value: latencyMs.p99,
      unit: 'ms',
      note: `${requestsPerSecond.toFixed(0)} requests/s; p50 ${latencyMs.p50} ms, slowest ${latencyMs.max} ms`,
    })
  }
}
