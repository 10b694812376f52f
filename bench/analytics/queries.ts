/**
 * Question: are events and persons counted as quickly as in the column database that people would otherwise install for
 * it?
 * Workload: 10 million events (`--events` for fewer) of 200,000 persons over 90 days, with 40 event names. Each
 * question is asked over HTTP, one after the other, with decoded columns in memory. (a) For the first time: each
 * request has another text, so that cached results do not help. (b) Again, after a thousandth as many new events. All
 * numbers of every answer are compared with those of the baseline before the measurement, and after the last of the new
 * events.
 * Baseline: Debian's clickhouse-server with the same events on the same machine, the statements of
 * `query-questions.ts`, interleaved.
 * Reconsider: dividing queries among threads and caching their parts, if they are slower than the baseline.
 */
import { availableParallelism, loadavg } from 'node:os'
import { type ClickHouse, startClickHouse } from '../baselines/clickhouse.ts'
import type { Daemon } from '../daemon.ts'
import { type Bench, type BenchContext, interleaved } from '../harness.ts'
import { cpuSeconds } from '../proc.ts'
import { median } from '../samples.ts'
import { createTable } from './analytics-clickhouse.ts'
import { fillBoth, MemoryWatch } from './analytics-fill.ts'
import { measureNames, measureWeb } from './queries-web.ts'
import { Asker } from './query-asker.ts'
import { type AnsweredItem, type NumberQuestion, numberQuestions } from './query-questions.ts'

export const QUERIES: Bench = {
  name: 'queries',
  group: 'analytics',
  question: 'Are counts as quick as in a column database, the first time and again?',
  workload:
    'events of 200,000 persons over 90 days, 40 names, 10 million unless --events says less; each ' +
    'question for the first time, and again after a thousandth as many new events; numbers compared; ' +
    'what the page of a site asks, over 3 million events',
  needsDaemon: true,
  run: measure,
}

const MEMORY_MIB_MAX = 600
const WARM_UPS = 4
/** One in this many events is new when a question is asked again. */
const NEW_SHARE = 1000
const SPEED_AGAIN_MIN = 20
const BREAKDOWN_P95_MS_MAX = 150
const BREAKDOWN_ASKED = 20

async function measure(context: BenchContext): Promise<void> {
  const events = context.events(40_000, 10_000_000)
  const newEvents = Math.ceil(events / NEW_SHARE)
  const againRounds = context.rounds(7, 2)
  const server = await startClickHouse(context.newFolder(), availableParallelism())
  context.cleanUpWith(() => server.stop())
  await createTable(server)
  // One request more than is timed.
  const filled = await fillBoth(context, events, server, newEvents * (againRounds + 1))
  const daemon = await context.startDaemon({ dataDir: filled.dataDir })
  const memory = new MemoryWatch(daemon)
  context.cleanUpWith(async () => void memory.stop())
  const asker = new Questioner(daemon)
  const questions = numberQuestions()
  for (const question of questions) await expectSame(asker, server, question)
  for (const question of questions) await measureFirst(context, question, asker, server)
  await measureBreakdown(context, questions, asker)
  const addLater = () => filled.addLater(newEvents, daemon, server)
  await measureAgain(context, questions, asker, server, {
    rounds: againRounds,
    newEvents,
    addLater,
  })
  for (const question of questions) await expectSame(asker, server, question)
  asker.close()
  await measureNames(context, daemon)
  context.report({
    figure: 'daemon memory of its own during all of this, the highest seen',
    value: memory.end() / 1024 ** 2,
    unit: 'MiB',
    target: { of: 'value', bound: 'at most', limit: MEMORY_MIB_MAX },
    note: `${daemon.memory().fileBytes >> 20} MiB of mapped files besides: page cache`,
  })
  await daemon.stop()
  await server.stop()
  await measureWeb(context)
}

/** Asks questions in one of their forms. */
class Questioner extends Asker {
  #variant = 0

  /** Written in a new form. Returns the bytes of the answer. */
  first({ body }: NumberQuestion): Promise<string> {
    return this.ask(body(++this.#variant))
  }

  /** Always written in the same form. */
  again({ body }: NumberQuestion): Promise<string> {
    return this.ask(body(0))
  }

  /** Variants are used again by the next question. */
  beginQuestion(): void {
    this.#variant = 0
  }
}

/** Throws unless both sides return the same numbers, in every form of the query. */
async function expectSame(
  asker: Questioner,
  server: ClickHouse,
  question: NumberQuestion,
): Promise<void> {
  const answer = await server.query(`${question.statement} FORMAT TabSeparated`)
  const { shown = (lines) => lines } = question
  const theirs = [...shown(answer === '' ? [] : answer.trimEnd().split('\n'))].sort()
  asker.beginQuestion()
  for (const text of [await asker.first(question), await asker.again(question)]) {
    const { results } = JSON.parse(text) as { readonly results: readonly AnsweredItem[] }
    const ours = [...question.lines(results)].sort()
    const differing = theirs.findIndex((line, index) => line !== ours[index])
    if (differing < 0 && ours.length === theirs.length && ours.length > 0) continue
    const example = `${ours[differing]} and ${theirs[differing]}`
    throw new Error(
      `${question.name}: ${ours.length} and ${theirs.length} lines differ: ${example}`,
    )
  }
}

/** Times and processor times of both sides, in milliseconds. */
class BothTimes {
  readonly #pids: readonly [number, number]
  readonly #ms: [number[], number[]] = [[], []]
  readonly #cpuMs: [number, number] = [0, 0]

  constructor(daemon: Daemon, server: ClickHouse) {
    this.#pids = [daemon.pid, server.pid]
  }

  async time(side: 0 | 1, action: () => Promise<unknown>): Promise<void> {
    const before = cpuSeconds(this.#pids[side])
    const startMs = performance.now()
    await action()
    this.#ms[side].push(performance.now() - startMs)
    this.#cpuMs[side] += (cpuSeconds(this.#pids[side]) - before) * 1000
  }

  report(context: BenchContext, figure: string, speedMin: number, version: string): void {
    const [oursMs = Number.NaN, theirsMs = Number.NaN] = this.#ms.map(median)
    const rounds = this.#ms[0].length
    const [oursCpu, theirsCpu] = this.#cpuMs.map((ms) => (ms / rounds).toFixed(0))
    context.report({
      figure,
      value: 1000 / oursMs,
      unit: 'answers/s',
      baseline: 1000 / theirsMs,
      target: { of: 'ratio', bound: 'at least', limit: speedMin },
      note:
        `${oursMs.toFixed(1)} ms against ${theirsMs.toFixed(1)} ms, medians of ${rounds}; processor ` +
        `time ${oursCpu} ms against ${theirsCpu} ms; load average ` +
        `${(loadavg()[0] ?? 0).toFixed(1)}; ClickHouse ${version}`,
    })
  }
}

async function measureFirst(
  context: BenchContext,
  question: NumberQuestion,
  asker: Questioner,
  server: ClickHouse,
): Promise<void> {
  const ours = (): Promise<unknown> => asker.first(question)
  const theirs = (): Promise<unknown> => server.query(`${question.statement} FORMAT Null`)
  asker.beginQuestion()
  for (let done = 0; done < WARM_UPS; done++) for (const side of [ours, theirs]) await side()
  const times = new BothTimes(asker.daemon, server)
  await interleaved(context.rounds(9, 3), [() => times.time(0, ours), () => times.time(1, theirs)])
  const figure = `${question.name}: answers a second, asked first, against ClickHouse`
  times.report(context, figure, question.speedMin, server.version)
}

async function measureBreakdown(
  context: BenchContext,
  questions: readonly NumberQuestion[],
  asker: Questioner,
): Promise<void> {
  const question = questions.find(({ name }) => name.includes('browser'))
  if (question === undefined) throw new Error('no question is split by browser')
  const times: number[] = []
  for (let done = 0; done < BREAKDOWN_ASKED; done++) {
    const startMs = performance.now()
    await asker.first(question)
    times.push(performance.now() - startMs)
  }
  times.sort((a, b) => a - b)
  context.report({
    figure: `${question.name}: p95 of ${BREAKDOWN_ASKED} first askings`,
    value: times[Math.ceil(BREAKDOWN_ASKED * 0.95) - 1] ?? Number.NaN,
    unit: 'ms',
    target: { of: 'value', bound: 'at most', limit: BREAKDOWN_P95_MS_MAX },
  })
}

interface NewEvents {
  readonly rounds: number
  /** The values of each round. */
  readonly newEvents: number
  readonly addLater: () => Promise<void>
}

/** Between two requests of a question both sides get new events. */
async function measureAgain(
  context: BenchContext,
  questions: readonly NumberQuestion[],
  asker: Questioner,
  server: ClickHouse,
  { rounds, newEvents, addLater }: NewEvents,
): Promise<void> {
  const times = questions.map(() => new BothTimes(asker.daemon, server))
  // The first round is not timed.
  for (let round = 0; round <= rounds; round++) {
    await addLater()
    for (const [index, question] of questions.entries()) {
      const ask = (): Promise<unknown> => asker.again(question)
      const theirs = (): Promise<unknown> => server.query(`${question.statement} FORMAT Null`)
      if (round === 0) await Promise.all([ask(), theirs()])
      else {
        await times[index]?.time(0, ask)
        await times[index]?.time(1, theirs)
      }
    }
  }
  for (const [index, { name }] of questions.entries()) {
    const figure = `${name}: answers a second, asked again after ${newEvents} new events`
    times[index]?.report(context, figure, SPEED_AGAIN_MIN, server.version)
  }
}
