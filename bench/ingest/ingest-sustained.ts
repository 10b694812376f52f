/**
 * Question: at 70 % of its processing capacity, does the daemon keep up for a minute with constant memory?
 * Workload: 100 events in a request. A closed loop first finds the highest rate that is accepted and processed, and
 * then an open loop runs at 70 % of it. Memory and backlog are read twice a second.
 * Baseline: the highest rate; memory after 20 s.
 * Reconsider: the design, if a queue grows or memory depends on the number of events.
 */
import type { Daemon } from '../daemon.ts'
import { type Bench, type BenchContext, expectAllStored, expectOnlyOk, sleep } from '../harness.ts'
import { closedLoop, type LoadReport, openLoop, runLoad } from '../load.ts'

export const INGEST_SUSTAINED: Bench = {
  name: 'ingest-sustained',
  group: 'ingest',
  question: 'At 70 % of its capacity, does the daemon keep up with constant memory?',
  workload: '100 events a request, open loop for 60 s at 70 % of the highest processed rate',
  needsDaemon: true,
  run: measure,
}

const EVENTS_PER_REQUEST = 100
const SHARE = 0.7
const MIB = 1024 ** 2
const READING_MS = 500

interface Reading {
  readonly anonymousBytes: number
  readonly fileBytes: number
  readonly queueDepth: number
  readonly oldestAgeSeconds: number
}

async function measure(context: BenchContext): Promise<void> {
  const daemon = await context.startDaemon()
  const highest = await findHighestRate(context, daemon)
  const seconds = context.size(5, 60)
  const readings: Reading[] = []
  let isRunning = true
  const sustain = async (): Promise<{ report: LoadReport; lagMs: number }> => {
    try {
      const report = await runLoad(
        openLoop({
          url: daemon.url,
          request: context.requests(EVENTS_PER_REQUEST),
          connections: 32,
          requestsPerSecond: (highest.eventsPerSecond * SHARE) / EVENTS_PER_REQUEST,
          seconds,
        }),
      )
      return { report, lagMs: await daemon.drain() }
    } finally {
      isRunning = false
    }
  }
  const [{ report, lagMs }] = await Promise.all([
    sustain(),
    watch(daemon, readings, () => isRunning),
  ])
  expectOnlyOk(report)
  await expectAllStored(daemon, highest.acknowledged + report.eventsAcknowledged)
  context.report({
    figure: 'lag at the end: time until all is processed',
    value: lagMs / 1000,
    unit: 's',
    target: { of: 'value', bound: 'under', limit: 1 },
    note:
      `worst backlog seen: ${Math.max(...readings.map((one) => one.queueDepth))} events; p99 ` +
      `acknowledgment ${report.latencyMs.p99} ms`,
  })
  context.report({
    figure: 'worst lag meanwhile: age of the oldest event not processed',
    value: Math.max(...readings.map((one) => one.oldestAgeSeconds)),
    unit: 's',
    target: { of: 'value', bound: 'under', limit: 2 },
  })
  context.report({
    figure: 'events/s accepted and processed, against the highest rate',
    value: report.eventsPerSecond,
    unit: 'events/s',
    baseline: highest.eventsPerSecond,
  })
  reportMemory(context, readings)
}

/** Runs a closed loop, and then waits until the remaining events are processed. Returns the rate over both together. */
async function findHighestRate(
  context: BenchContext,
  daemon: Daemon,
): Promise<{ eventsPerSecond: number; acknowledged: number }> {
  const load = async (seconds: number): Promise<{ events: number; ms: number }> => {
    const options = closedLoop({
      url: daemon.url,
      request: context.requests(EVENTS_PER_REQUEST),
      connections: 8,
      seconds,
    })
    const report = await runLoad(options)
    const drainMs = await daemon.drain()
    return { events: report.eventsAcknowledged, ms: report.seconds * 1000 + drainMs }
  }
  const warmup = await load(context.size(0.3, 2))
  const { events, ms } = await load(context.size(0.5, 10))
  return { eventsPerSecond: (events * 1000) / ms, acknowledged: warmup.events + events }
}

async function watch(daemon: Daemon, readings: Reading[], isRunning: () => boolean): Promise<void> {
  while (isRunning()) {
    const { anonymousBytes, fileBytes } = daemon.memory()
    const { queueDepth, oldestAgeSeconds } = await daemon.progress()
    readings.push({ anonymousBytes, fileBytes, queueDepth, oldestAgeSeconds })
    await sleep(READING_MS)
  }
}

function reportMemory(context: BenchContext, readings: readonly Reading[]): void {
  // The first readings are left out, because the generator itself needs a second or two to start.
  const early = readings[Math.floor(readings.length / 3)]
  const late = readings.at(-1)
  if (early === undefined || late === undefined) throw new Error('memory was never read')
  context.report({
    figure: "memory of the process's own at the end, against a third of the way",
    value: late.anonymousBytes / MIB,
    unit: 'MiB',
    baseline: early.anonymousBytes / MIB,
    target: { of: 'ratio', bound: 'at most', limit: 1.15 },
    note:
      `${(late.fileBytes / MIB).toFixed(0)} MiB of mapped files besides, ` +
      `${(early.fileBytes / MIB).toFixed(0)} MiB then: page cache, taken back at need`,
  })
}
