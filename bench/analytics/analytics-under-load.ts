/**
 * The part of the bench `analytics` that measures the effect on other clients: the latency of decisions and
 * acknowledgments while four clients ask analytic questions without a pause, compared with the latency without these
 * questions.
 */

import type { Daemon } from '../daemon.ts'
import {
  createProject,
  DECISION_PATH,
  type FlagProject,
  sendPersons,
} from '../decide/decide-setup.ts'
import { decisionBody } from '../decide/decide-workload.ts'
import { type BenchContext, expectAllStored, expectOnlyOk, interleaved, sleep } from '../harness.ts'
import { type LoadReport, openLoop, prepareLoad } from '../load.ts'
import { median } from '../samples.ts'
import type { AnalyticQuestion } from './analytics-questions.ts'
import { daemonSide } from './analytics-sides.ts'

const CLIENTS = 4
const FLAGS = 50
const PERSONS = 1000
const REQUESTS_PER_SECOND = 300
const CONNECTIONS = 32
/** The clients begin to ask this long before the first measured request. */
const LEAD_MS = 1000

interface Round {
  readonly decisions: LoadReport
  readonly captures: LoadReport
  /** The number of questions that were answered during the measurement. */
  readonly answered: number
}

/** Reports both latencies. Throws if an event is lost or a question fails. */
export async function measureBesideQuestions(
  context: BenchContext,
  daemon: Daemon,
  questions: readonly AnalyticQuestion[],
): Promise<void> {
  const project = await createProject(daemon, FLAGS)
  let acknowledged = await sendPersons(daemon, project, PERSONS)
  const round = async (clients: number): Promise<Round> => {
    const asking = new Asking(daemon, questions, clients)
    if (clients > 0) await sleep(LEAD_MS)
    const found = await besideLoad(context, daemon, project)
    acknowledged += found.captures.eventsAcknowledged
    const answered = await asking.end()
    await daemon.drain()
    return { ...found, answered }
  }
  const [alone = [], beside = []] = await interleaved(context.rounds(5), [
    () => round(0),
    () => round(CLIENTS),
  ])
  await expectAllStored(daemon, acknowledged)
  const answered = beside.map((one) => one.answered).join(', ')
  for (const kind of ['decisions', 'captures'] as const) {
    const p99 = (rounds: readonly Round[]): number =>
      median(rounds.map((one) => one[kind].latencyMs.p99))
    const late = median(beside.map((one) => one[kind].latenessMs.p99))
    const what = kind === 'decisions' ? `decisions about ${FLAGS} flags` : 'acknowledgments'
    context.report({
      figure: `p99 of ${what} while ${CLIENTS} clients ask, against without`,
      value: p99(beside),
      unit: 'ms',
      baseline: p99(alone),
      target: { of: 'ratio', bound: 'at most', limit: 2 },
      note:
        `median of ${beside.length}, ${REQUESTS_PER_SECOND} requests/s of both at once, open loop; ` +
        `p50 ${median(beside.map((one) => one[kind].latencyMs.p50)).toFixed(2)} ms, ` +
        `${answered} questions answered meanwhile; the generator itself was late by p99 ` +
        `${late.toFixed(2)} ms`,
    })
  }
}

/** Measures decisions and single events at the same time. */
async function besideLoad(
  context: BenchContext,
  daemon: Daemon,
  project: FlagProject,
): Promise<{ decisions: LoadReport; captures: LoadReport }> {
  const usual = {
    url: daemon.url,
    connections: CONNECTIONS,
    requestsPerSecond: REQUESTS_PER_SECOND,
    warmupSeconds: 0.5,
    seconds: context.size(1, 8),
  }
  const bodies = Array.from({ length: PERSONS }, (_, person) =>
    decisionBody(project.apiKey, person),
  )
  const request = { kind: 'post', path: DECISION_PATH, bodies, headers: {} } as const
  const decisions = await prepareLoad(openLoop({ ...usual, request }))
  const captures = await prepareLoad(openLoop({ ...usual, request: context.requests(1) }))
  const reports = await Promise.all([decisions.run(), captures.run()])
  for (const report of reports) expectOnlyOk(report)
  return { decisions: reports[0], captures: reports[1] }
}

/** Clients that ask one question after the other. Each client begins with a different question. */
class Asking {
  readonly #clients: Promise<void>[]
  #isOver = false
  #answered = 0

  constructor(daemon: Daemon, questions: readonly AnalyticQuestion[], clients: number) {
    const parts = questions.flatMap((question) => question.parts)
    const ask = async (client: number): Promise<void> => {
      const side = daemonSide(daemon.url)
      for (let next = client * 3; !this.#isOver; next++) {
        const part = parts[next % parts.length]
        if (part === undefined) break
        await side.page(part)
        this.#answered++
      }
      side.close()
    }
    this.#clients = Array.from({ length: clients }, (_, client) => ask(client))
  }

  /** Waits for the last answers and returns their number. If a client has failed, throws its error. */
  async end(): Promise<number> {
    this.#isOver = true
    await Promise.all(this.#clients)
    return this.#answered
  }
}
