/**
 * Question: what is the total cost of an event from the socket to the segment?
 * Workload: 100 events in a request, 32 connections, closed loop. Measured is the CPU time of the whole daemon from the
 * first request until all events are processed.
 * Baseline: (c) `JSON.parse` of the same bodies in a loop in a new process.
 * Reconsider: the segment layout, if an event costs more than parsing it 4 times.
 */
import {
  type Bench,
  type BenchContext,
  expectAllStored,
  expectOnlyOk,
  interleaved,
} from '../harness.ts'
import { closedLoop, runLoad } from '../load.ts'
import { median } from '../samples.ts'

export const INGEST_CPU: Bench = {
  name: 'ingest-cpu',
  group: 'ingest',
  question: 'What is the total cost of an event from the socket to the segment?',
  workload: '100 events a request, 32 connections, closed loop, until all is processed',
  needsDaemon: true,
  run: measure,
}

const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 32

async function measure(context: BenchContext): Promise<void> {
  const events = context.events(10_000, 200_000)
  const daemon = await context.startDaemon()
  const sendAll = async (count: number): Promise<{ sent: number; seconds: number }> => {
    const report = await runLoad(
      closedLoop({
        url: daemon.url,
        request: context.requests(EVENTS_PER_REQUEST),
        connections: CONNECTIONS,
        seconds: 600,
        requestsMax: Math.ceil(count / EVENTS_PER_REQUEST),
      }),
    )
    expectOnlyOk(report)
    const drainMs = await daemon.drain()
    return { sent: report.eventsAcknowledged, seconds: report.seconds + drainMs / 1000 }
  }
  // The first events are not measured, because their cost includes compilation and the first pages of the store.
  let acknowledged = (await sendAll(events / 4)).sent
  const rates: number[] = []
  const [ours = [], theirs = []] = await interleaved(context.rounds(5), [
    async () => {
      const cpuBefore = daemon.cpuSeconds()
      const { sent, seconds } = await sendAll(events)
      rates.push(sent / seconds)
      acknowledged += sent
      return ((daemon.cpuSeconds() - cpuBefore) * 1e6) / sent
    },
    () => context.measureParseLoop(EVENTS_PER_REQUEST, events),
  ])
  await expectAllStored(daemon, acknowledged)
  context.report({
    figure: 'CPU per event accepted and processed, against JSON.parse alone (c)',
    value: median(ours),
    unit: 'us',
    baseline: median(theirs),
    target: { of: 'ratio', bound: 'at most', limit: 2.5 },
    note: `median of ${ours.length} rounds with ${events} events each; user and system time, all threads`,
  })
  context.report({
    figure: 'events/s accepted and processed, against JSON.parse alone on one core (c)',
    value: median(rates),
    unit: 'events/s',
    baseline: 1e6 / median(theirs),
    note: 'from the first request until nothing is left to process',
  })
}
