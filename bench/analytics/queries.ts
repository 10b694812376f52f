/**
 * Question: are events and persons counted as quickly as in the column databases that people would otherwise install for
 * it?
 * Workload: 10 million events (`--events` for fewer) of 200,000 persons over 90 days, with 40 event names. Each
 * question is asked over HTTP, one after the other, with decoded columns in memory. (a) For the first time: each
 * request has another text, so that cached results do not help. (b) Again, after a thousandth as many new events. All
 * numbers of every answer are compared with those of the baselines before the measurement, and after the last of the new
 * events.
 * Baselines: Debian's clickhouse-server, and DuckDB with as many threads as cores in a process of its own. Both have the
 * same events on the same machine, the statements of `query-questions.ts`, interleaved.
 * Reconsider: dividing queries among threads and caching their parts, if they are slower than the baselines.
 */
import { availableParallelism, loadavg } from 'node:os'
import { startClickHouse } from '../baselines/clickhouse.ts'
import { startDuckDb } from '../baselines/duckdb.ts'
import { type Bench, type BenchContext, interleaved } from '../harness.ts'
import { cpuSeconds } from '../proc.ts'
import { median } from '../samples.ts'
import { clickHouseTable } from './analytics-clickhouse.ts'
import { duckDbTable } from './analytics-duckdb.ts'
import { fillAll, MemoryWatch } from './analytics-fill.ts'
import type { EventTable } from './event-table.ts'
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
/** Before a question is asked again, one event in this many is new. */
const NEW_SHARE = 1000
const SPEED_AGAIN_MIN = 20
/** How many times as fast as DuckDB the daemon must be when a question is asked for the first time. */
const DUCKDB_SPEED_MIN = 2
const BREAKDOWN_P95_MS_MAX = 150
const BREAKDOWN_ASKED = 20

/** A database that answers the same questions as the daemon. */
interface Peer {
  readonly name: string
  /** The version text of the database. */
  readonly version: string
  readonly pid: number
  readonly table: EventTable
  /** Returns the lines that the statement of a question returns, in any order. */
  lines(question: NumberQuestion): Promise<readonly string[]>
  /** Runs the statement of a question, and ignores its result. */
  run(question: NumberQuestion): Promise<unknown>
  /** How many times as fast as this database the daemon must be when a question is asked for the first time. */
  speedMin(question: NumberQuestion): number
  stop(): Promise<void>
}

/** Starts ClickHouse and DuckDB, each with an empty table. They run until the bench ends. */
async function startPeers(context: BenchContext): Promise<readonly Peer[]> {
  const threads = availableParallelism()
  const server = await startClickHouse(context.newFolder(), threads)
  context.cleanUpWith(() => server.stop())
  const database = await startDuckDb(context.newFolder(), threads)
  context.cleanUpWith(() => database.stop())
  return [
    {
      name: 'ClickHouse',
      version: server.version,
      pid: server.pid,
      table: await clickHouseTable(server),
      async lines({ clickHouse }) {
        const text = await server.query(`${clickHouse} FORMAT TabSeparated`)
        return text === '' ? [] : text.trimEnd().split('\n')
      },
      run: ({ clickHouse }) => server.query(`${clickHouse} FORMAT Null`),
      speedMin: ({ speedMin }) => speedMin,
      stop: () => server.stop(),
    },
    {
      name: 'DuckDB',
      version: database.version,
      pid: database.pid,
      table: await duckDbTable(database),
      lines: ({ duckDb }) => database.lines(duckDb),
      run: ({ duckDb }) => database.run(duckDb),
      speedMin: () => DUCKDB_SPEED_MIN,
      stop: () => database.stop(),
    },
  ]
}

async function measure(context: BenchContext): Promise<void> {
  const events = context.events(40_000, 10_000_000)
  const newEvents = Math.ceil(events / NEW_SHARE)
  const againRounds = context.rounds(7, 2)
  const peers = await startPeers(context)
  const tables = peers.map(({ table }) => table)
  // There is one round more than the rounds that are timed.
  const filled = await fillAll(context, events, tables, newEvents * (againRounds + 1))
  const daemon = await context.startDaemon({ dataDir: filled.dataDir })
  const memory = new MemoryWatch(daemon)
  context.cleanUpWith(async () => void memory.stop())
  const asker = new Questioner(daemon)
  const sides: Sides = { asker, peers }
  const questions = numberQuestions()
  for (const question of questions) await expectSame(sides, question)
  for (const question of questions) await measureFirst(context, question, sides)
  await measureBreakdown(context, questions, asker)
  const addLater = () => filled.addLater(newEvents, daemon)
  await measureAgain(context, questions, sides, { rounds: againRounds, newEvents, addLater })
  for (const question of questions) await expectSame(sides, question)
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
  for (const peer of peers) await peer.stop()
  await measureWeb(context)
}

/** Asks a daemon questions, in one of the forms of their queries. */
class Questioner extends Asker {
  #variant = 0

  /** Asks a question with a text that was not used before. Returns the answer. */
  first({ body }: NumberQuestion): Promise<string> {
    return this.ask(body(++this.#variant))
  }

  /** Asks a question with the same text each time. */
  again({ body }: NumberQuestion): Promise<string> {
    return this.ask(body(0))
  }

  /** Starts again with the first form. The next question has no cached results yet, so it can use the same forms. */
  beginQuestion(): void {
    this.#variant = 0
  }
}

/** The daemon, and the databases that it is compared with. */
interface Sides {
  readonly asker: Questioner
  readonly peers: readonly Peer[]
}

/** Throws unless all sides return the same numbers, for every form of the query. */
async function expectSame({ asker, peers }: Sides, question: NumberQuestion): Promise<void> {
  const { shown = (lines) => lines } = question
  asker.beginQuestion()
  const texts = [await asker.first(question), await asker.again(question)]
  for (const peer of peers) {
    const theirs = [...shown(await peer.lines(question))].sort()
    for (const text of texts) {
      const { results } = JSON.parse(text) as { readonly results: readonly AnsweredItem[] }
      const ours = [...question.lines(results)].sort()
      const differing = theirs.findIndex((line, index) => line !== ours[index])
      if (differing < 0 && ours.length === theirs.length && ours.length > 0) continue
      const example = `${ours[differing]} and ${theirs[differing]}`
      throw new Error(
        `${question.name}: ${ours.length} lines and ${theirs.length} of ${peer.name} differ: ${example}`,
      )
    }
  }
}

/**
 * The times and processor times of a question, in milliseconds. Index 0 is the daemon; the databases follow in their
 * order.
 */
class Times {
  readonly #sides: Sides
  readonly #pids: readonly number[]
  readonly #ms: readonly number[][]
  readonly #cpuMs: number[]

  constructor(sides: Sides) {
    this.#sides = sides
    this.#pids = [sides.asker.daemon.pid, ...sides.peers.map(({ pid }) => pid)]
    this.#ms = this.#pids.map(() => [])
    this.#cpuMs = this.#pids.map(() => 0)
  }

  async time(side: number, action: () => Promise<unknown>): Promise<void> {
    const pid = this.#pids[side] ?? Number.NaN
    const before = cpuSeconds(pid)
    const startMs = performance.now()
    await action()
    this.#ms[side]?.push(performance.now() - startMs)
    this.#cpuMs[side] = (this.#cpuMs[side] ?? 0) + (cpuSeconds(pid) - before) * 1000
  }

  /** Reports one figure for each database. `speedMin` is the target of the ratio. */
  report(context: BenchContext, figure: string, speedMin: (peer: Peer) => number): void {
    const medians = this.#ms.map(median)
    const rounds = this.#ms[0]?.length ?? 0
    const cpu = this.#cpuMs.map((ms) => (ms / rounds).toFixed(0))
    const [oursMs = Number.NaN] = medians
    for (const [index, peer] of this.#sides.peers.entries()) {
      const theirsMs = medians[index + 1] ?? Number.NaN
      context.report({
        figure: `${figure}, against ${peer.name}`,
        value: 1000 / oursMs,
        unit: 'answers/s',
        baseline: 1000 / theirsMs,
        target: { of: 'ratio', bound: 'at least', limit: speedMin(peer) },
        note:
          `${oursMs.toFixed(1)} ms against ${theirsMs.toFixed(1)} ms, medians of ${rounds}; processor ` +
          `time ${cpu[0]} ms against ${cpu[index + 1]} ms; load average ` +
          `${(loadavg()[0] ?? 0).toFixed(1)}; ${peer.name} ${peer.version}`,
      })
    }
  }
}

async function measureFirst(
  context: BenchContext,
  question: NumberQuestion,
  sides: Sides,
): Promise<void> {
  const asks = [
    (): Promise<unknown> => sides.asker.first(question),
    ...sides.peers.map((peer) => () => peer.run(question)),
  ]
  sides.asker.beginQuestion()
  for (let done = 0; done < WARM_UPS; done++) for (const ask of asks) await ask()
  const times = new Times(sides)
  await interleaved(
    context.rounds(9, 3),
    asks.map((ask, side) => () => times.time(side, ask)),
  )
  times.report(context, `${question.name}: answers a second, asked first`, (peer) =>
    peer.speedMin(question),
  )
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
  /** The number of new events before each round. */
  readonly newEvents: number
  readonly addLater: () => Promise<void>
}

/** Asks each question again and again. Between two requests of a question, all sides get new events. */
async function measureAgain(
  context: BenchContext,
  questions: readonly NumberQuestion[],
  sides: Sides,
  { rounds, newEvents, addLater }: NewEvents,
): Promise<void> {
  const times = questions.map(() => new Times(sides))
  // The first round is not timed.
  for (let round = 0; round <= rounds; round++) {
    await addLater()
    for (const [index, question] of questions.entries()) {
      const asks = [
        (): Promise<unknown> => sides.asker.again(question),
        ...sides.peers.map((peer) => () => peer.run(question)),
      ]
      for (const [side, ask] of asks.entries()) {
        if (round === 0) await ask()
        else await times[index]?.time(side, ask)
      }
    }
  }
  for (const [index, { name }] of questions.entries()) {
    const figure = `${name}: answers a second, asked again after ${newEvents} new events`
    times[index]?.report(context, figure, () => SPEED_AGAIN_MIN)
  }
}
