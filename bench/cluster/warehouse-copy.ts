/**
 * Question: what does it cost to copy a stored event to ClickHouse?
 * Workload: a store of 200,000 events (`--events` for another number), which is copied from its first event on to an
 * empty table, several times. Measured is the CPU time of the daemon from its start until ClickHouse has all events,
 * without that of the same start without a warehouse.
 * Baseline: (c) `JSON.parse` of the same events in a loop in a new process.
 * Reconsider: sending segments in their stored form, if it costs more than parsing each event once.
 */

import { freePort } from '../../test/fixtures/free-port.ts'
import type { Daemon } from '../daemon.ts'
import {
  type Bench,
  type BenchContext,
  expectAllStored,
  expectOnlyOk,
  interleaved,
  sleep,
} from '../harness.ts'
import { closedLoop, runLoad } from '../load.ts'
import { cpuSeconds } from '../proc.ts'
import { median } from '../samples.ts'
import { isInstalled } from './machines.ts'
import { ClickHouse } from './servers.ts'

export const WAREHOUSE_COPY: Bench = {
  name: 'warehouse-copy',
  group: 'cluster',
  question: 'What does it cost to copy a stored event to ClickHouse?',
  workload: '200,000 events of a store, in a thread of the lowest priority, to an empty table',
  needsDaemon: true,
  run: measure,
}

const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 32
const LOOK_MS = 50
const COPIED_MS_MAX = 120_000
const NEWEST = 'SELECT max(sequence) FROM events.tenrec_events'

/** The measurements of one copy: the CPU seconds of the daemon and of ClickHouse, and the duration. */
interface Copy {
  readonly daemonSeconds: number
  readonly clickhouseSeconds: number
  readonly elapsedMs: number
}

async function measure(context: BenchContext): Promise<void> {
  if (!isInstalled('clickhouse-server')) {
    console.error('# left out: clickhouse-server is not installed')
    return
  }
  const clickhouse = await startClickHouse(context)
  const dataDir = context.newFolder()
  const events = await fill(context, dataDir)
  const rounds = context.rounds(3)
  const idle = async (elapsedMs: number): Promise<number> => {
    const daemon = await context.startDaemon({ dataDir, args: ['--workers', '1'] })
    const before = daemon.cpuSeconds()
    await sleep(elapsedMs)
    const seconds = daemon.cpuSeconds() - before
    await daemon.stop()
    return seconds
  }
  let elapsedMs = 0
  const [copies = [], parses = []] = await interleaved<Copy | number>(rounds, [
    async () => {
      const copy = await copyAll(context, clickhouse, dataDir, events)
      elapsedMs = copy.elapsedMs
      return { ...copy, daemonSeconds: copy.daemonSeconds - (await idle(elapsedMs)) }
    },
    () => context.measureParseLoop(EVENTS_PER_REQUEST, events),
  ])
  const all = copies.filter((copy): copy is Copy => typeof copy !== 'number')
  const us = (seconds: number): number => (seconds * 1e6) / events
  context.report({
    figure: 'CPU of the daemon for each event copied to ClickHouse, against JSON.parse alone (c)',
    value: median(all.map((copy) => us(copy.daemonSeconds))),
    unit: 'us',
    baseline: median(parses.filter((parse) => typeof parse === 'number')),
    target: { of: 'value', bound: 'at most', limit: 12 },
    note:
      `median of ${rounds} rounds with ${events} events each, reading, encoding and sending; ClickHouse ` +
      `${median(all.map((copy) => us(copy.clickhouseSeconds))).toFixed(1)} us, ` +
      `${(events / (median(all.map((copy) => copy.elapsedMs)) / 1000)).toFixed(0)} events/s`,
  })
}

async function startClickHouse(context: BenchContext): Promise<ClickHouse> {
  const clickhouse = new ClickHouse(context.newFolder(), await freePort(), await freePort())
  context.cleanUpWith(() => clickhouse.kill())
  clickhouse.begin()
  const deadline = performance.now() + COPIED_MS_MAX
  while ((await clickhouse.ask('SELECT 1')) === null) {
    if (performance.now() > deadline) throw new Error('ClickHouse does not answer')
    await sleep(LOOK_MS)
  }
  return clickhouse
}

/** Stores events and returns their number. */
async function fill(context: BenchContext, dataDir: string): Promise<number> {
  const daemon: Daemon = await context.startDaemon({ dataDir })
  const report = await runLoad(
    closedLoop({
      url: daemon.url,
      request: context.requests(EVENTS_PER_REQUEST),
      connections: CONNECTIONS,
      seconds: 600,
      requestsMax: context.events(10_000, 200_000) / EVENTS_PER_REQUEST,
    }),
  )
  expectOnlyOk(report)
  await expectAllStored(daemon, report.eventsAcknowledged)
  await daemon.stop()
  return report.eventsAcknowledged
}

async function copyAll(
  context: BenchContext,
  clickhouse: ClickHouse,
  dataDir: string,
  events: number,
): Promise<Copy> {
  await clickhouse.ask('DROP DATABASE IF EXISTS events')
  const args = ['--workers', '1', '--warehouse', clickhouse.address('127.0.0.1')]
  const clickhouseBefore = cpuSeconds(clickhouse.pid)
  const daemon = await context.startDaemon({ dataDir, args })
  const startedAtMs = performance.now()
  const before = daemon.cpuSeconds()
  while (Number(await clickhouse.ask(NEWEST)) < events) {
    if (performance.now() > startedAtMs + COPIED_MS_MAX) throw new Error('not all was copied')
    await sleep(LOOK_MS)
  }
  const elapsedMs = performance.now() - startedAtMs
  const daemonSeconds = daemon.cpuSeconds() - before
  const clickhouseSeconds = cpuSeconds(clickhouse.pid) - clickhouseBefore
  await daemon.stop()
  const rows = 'SELECT uniqExact(project, sequence) FROM events.tenrec_events'
  if (Number(await clickhouse.ask(rows)) !== events) throw new Error('rows are missing')
  return { daemonSeconds, clickhouseSeconds, elapsedMs }
}
