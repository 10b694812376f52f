/**
 * Question: are the persons behind a number found as quickly as in the column database that people would otherwise
 * install for it?
 * Workload: 10 million events (`--events` for fewer) of 200,000 persons over 90 days, with 40 event names. Each
 * question is asked for its first 100 persons over HTTP, one after the other, with warm caches. Before the measurement,
 * all persons of every answer are compared with those of the baseline.
 * Baseline: Debian's clickhouse-server with the same events on the same machine, the statements of
 * `analytics-questions.ts`, interleaved. For latencies beside questions, the same load without questions.
 * Reconsider: decoded columns and one thread for each question, if they are slower than the baseline.
 */
import { availableParallelism, loadavg } from 'node:os'
import { type ClickHouse, startClickHouse } from '../baselines/clickhouse.ts'
import type { Daemon } from '../daemon.ts'
import { type Bench, type BenchContext, interleaved } from '../harness.ts'
import { cpuSeconds } from '../proc.ts'
import { median } from '../samples.ts'
import { clickHouseTable } from './analytics-clickhouse.ts'
import { fillAll, MemoryWatch } from './analytics-fill.ts'
import {
  type AnalyticQuestion,
  analyticQuestions,
  type QuestionPart,
} from './analytics-questions.ts'
import { clickHouseSide, daemonSide, expectSame, type Side } from './analytics-sides.ts'
import { measureBesideQuestions } from './analytics-under-load.ts'

export const ANALYTICS: Bench = {
  name: 'analytics',
  group: 'analytics',
  question: 'Are the persons behind a number found as quickly as in a column database?',
  workload:
    'events of 200,000 persons over 90 days, 40 names, 10 million unless --events says less; the ' +
    'first 100 persons of each answer, everything warm, answers compared in full before',
  needsDaemon: true,
  run: measure,
}

/** The number of events in the store for the question about a smaller project. */
const SMALL_EVENTS = 1_000_000
const SMALL_ANSWER_MS_MAX = 50
const MEMORY_MIB_MAX = 600
const WARM_UPS = 8

async function measure(context: BenchContext): Promise<void> {
  const events = context.events(40_000, 10_000_000)
  const server = await startClickHouse(context.newFolder(), availableParallelism())
  context.cleanUpWith(() => server.stop())
  const table = await clickHouseTable(server)
  const { dataDir } = await fillAll(context, events, [table])
  const questions = analyticQuestions()
  const found = await compare(context, dataDir, questions, server)
  const daemon = await context.startDaemon({ dataDir })
  const memory = new MemoryWatch(daemon)
  context.cleanUpWith(async () => void memory.stop())
  await measureSpeed(context, questions, found, daemon, server)
  // The server is not needed any more, and would take processor time and memory from the daemon.
  await server.stop()
  await measureBesideQuestions(context, daemon, questions)
  context.report({
    figure: 'daemon memory of its own during all of this, the highest seen',
    value: memory.end() / 1024 ** 2,
    unit: 'MiB',
    target: { of: 'value', bound: 'at most', limit: MEMORY_MIB_MAX },
    note: `${daemon.memory().fileBytes >> 20} MiB of mapped files besides: page cache`,
  })
  await daemon.stop()
  await measureSmall(context, events <= SMALL_EVENTS ? dataDir : null, questions)
}

/**
 * Returns the number of persons that each question finds. It uses a separate daemon, because pages of this size take
 * memory.
 */
async function compare(
  context: BenchContext,
  dataDir: string,
  questions: readonly AnalyticQuestion[],
  server: ClickHouse,
): Promise<ReadonlyMap<string, string>> {
  const daemon = await context.startDaemon({ dataDir })
  const ours = daemonSide(daemon.url)
  const theirs = clickHouseSide(server)
  const found = new Map<string, string>()
  for (const { name, parts } of questions) {
    const counts: number[] = []
    for (const part of parts) {
      counts.push(expectSame(name, await ours.everybody(part), await theirs.everybody(part)))
    }
    found.set(name, counts.join(' + '))
  }
  ours.close()
  await daemon.stop()
  return found
}

async function measureSpeed(
  context: BenchContext,
  questions: readonly AnalyticQuestion[],
  found: ReadonlyMap<string, string>,
  daemon: Daemon,
  server: ClickHouse,
): Promise<void> {
  const ours = daemonSide(daemon.url)
  const theirs = clickHouseSide(server)
  for (const { name, parts, speedMin } of questions) {
    for (const side of [ours, theirs]) await repeat(WARM_UPS, () => timeMs(side, parts))
    const cpuMs = [0, 0]
    const timed = async (place: 0 | 1): Promise<number> => {
      const { pid } = place === 0 ? daemon : server
      const before = cpuSeconds(pid)
      const elapsedMs = await timeMs(place === 0 ? ours : theirs, parts)
      cpuMs[place] = (cpuMs[place] ?? 0) + (cpuSeconds(pid) - before) * 1000
      return elapsedMs
    }
    const rounds = context.rounds(9, 3)
    const times = await interleaved(rounds, [() => timed(0), () => timed(1)])
    const [oursMs = Number.NaN, theirsMs = Number.NaN] = times.map(median)
    const [oursCpuMs = '', theirsCpuMs = ''] = cpuMs.map((ms) => (ms / rounds).toFixed(0))
    context.report({
      figure: `${name}: answers a second, against ClickHouse`,
      value: 1000 / oursMs,
      unit: 'answers/s',
      baseline: 1000 / theirsMs,
      target: { of: 'ratio', bound: 'at least', limit: speedMin },
      note:
        `${oursMs.toFixed(1)} ms against ${theirsMs.toFixed(1)} ms, medians of ${rounds}; ` +
        `processor time ${oursCpuMs} ms against ${theirsCpuMs} ms; ${found.get(name) ?? 'no'} ` +
        `persons; load average ${(loadavg()[0] ?? 0).toFixed(1)}; ClickHouse ${server.version}`,
    })
  }
  ours.close()
}

/**
 * Measures the questions about a smaller project. `dataDir` is a directory that already contains a suitable number of
 * events, or null.
 */
async function measureSmall(
  context: BenchContext,
  dataDir: string | null,
  questions: readonly AnalyticQuestion[],
): Promise<void> {
  const events = context.events(40_000, SMALL_EVENTS)
  const folder = dataDir ?? (await fillAll(context, SMALL_EVENTS, [])).dataDir
  const daemon = await context.startDaemon({ dataDir: folder })
  const side = daemonSide(daemon.url)
  const times = new Map<string, number>()
  for (const { name, parts } of questions) {
    for (const [index, part] of parts.entries()) {
      await repeat(WARM_UPS, () => timeMs(side, [part]))
      const all: number[] = []
      await repeat(context.rounds(9, 3), async () => void all.push(await timeMs(side, [part])))
      times.set(parts.length > 1 ? `${name} (${index + 1})` : name, median(all))
    }
  }
  side.close()
  await daemon.stop()
  const [slowest, slowestMs] = [...times].sort((a, b) => b[1] - a[1])[0] ?? ['', Number.NaN]
  context.report({
    figure: `the slowest of all questions at ${Math.min(events, SMALL_EVENTS)} events`,
    value: slowestMs,
    unit: 'ms',
    target: { of: 'value', bound: 'at most', limit: SMALL_ANSWER_MS_MAX },
    note: `${slowest}; ${[...times].map(([name, ms]) => `${name} ${ms.toFixed(1)}`).join('; ')}`,
  })
}

async function timeMs(side: Side, parts: readonly QuestionPart[]): Promise<number> {
  const startMs = performance.now()
  for (const part of parts) {
    if ((await side.page(part)) === 0) throw new Error('nobody was found')
  }
  return performance.now() - startMs
}

async function repeat(count: number, action: () => Promise<unknown>): Promise<void> {
  for (let done = 0; done < count; done++) await action()
}
