/**
 * The kills of a proof, and the comparison behind them. An event that was acknowledged is never sent again before the
 * first comparison: that would hide its loss.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../base/clock.ts'
import { OperatorError } from '../../base/errors.ts'
import { parseJson } from '../../base/json.ts'
import { PROOF_PROCESSING_MS_MAX } from '../limits.ts'
import type { ProofDaemon, ProofLauncher } from './proof-daemon.ts'
import { type Comparison, ProofLedger, type Random, seededRandom } from './proof-ledger.ts'
import { type LoadOptions, ProofLoad, type Statuses, settle } from './proof-load.ts'

/** When a daemon is killed. */
const KILL_MOMENTS = ['at_random', 'after_an_answer', 'while_stopping', 'while_starting'] as const
/** One of `KILL_MOMENTS`. */
export type KillMoment = (typeof KILL_MOMENTS)[number]

/** Of 100 kills, so many come at this moment; the others come at random. */
const CHANCES: readonly (readonly [KillMoment, number])[] = [
  ['after_an_answer', 35],
  ['while_stopping', 15],
  ['while_starting', 15],
]
/** The part of runs under load that begin with an answer. */
const ANSWERED_PART = 0.85
/** The shortest run under load. */
const RUN_MS_MIN = 20
/** A stop is cut short within this time. */
const STOPPING_LATEST_MS = 100
/** A start is cut short within this time, or within what the last start took. */
const STARTING_EARLIEST_MS = 20
const STARTING_LATEST_MS = 2000
/** The part of acknowledged events that is sent again at the end: each must still be there once. */
const REPEATED_PART = 0.05
const LOOK_MS = 50
const MARK_EVENT = 'end of the proof'

/** What is to be done. */
export interface KillPlan {
  readonly launcher: ProofLauncher
  readonly clock: Pick<Clock, 'monotonic'>
  readonly kills: number
  /** The longest run under load. */
  readonly seconds: number
  readonly connections: number
  readonly seed: number
  readonly projectKey: string
  readonly personalKey: string
  /** Told after each kill. */
  readonly onKill: (kill: number, moment: KillMoment, acknowledgedCount: number) => void
  /** Asked now and then: true ends the proof with an `OperatorError`. */
  readonly isStopped: () => boolean
}

/** What came of it. */
export interface KillOutcome {
  readonly moments: Readonly<Record<KillMoment, number>>
  readonly sentCount: number
  readonly acknowledgedCount: number
  /** Events that had no answer when the kills were over. They were sent again. */
  readonly unansweredCount: number
  readonly lost: readonly string[]
  readonly doubled: readonly string[]
  readonly altered: readonly string[]
  readonly inventedCount: number
  readonly unexpected: Statuses
  /** Daemons that ended before they were killed. */
  readonly endedByThemselves: number
  readonly longestRecoveryMs: number
}

/** Carries a plan out. Throws `OperatorError` when a daemon does not start, or when it is stopped. */
export async function killAndCompare(plan: KillPlan): Promise<KillOutcome> {
  const rounds = new KillRounds(plan)
  // Some daemons end before they are killed: those that were stopping, or are in trouble.
  const roundsMax = plan.kills * 2 + 10
  let kills = 0
  for (let round = 0; kills < plan.kills && round < roundsMax; round++) {
    const moment = await rounds.run()
    if (moment !== null) plan.onKill(++kills, moment, rounds.ledger.acknowledgedCount)
  }
  return rounds.finish()
}

class KillRounds {
  readonly ledger: ProofLedger
  readonly #plan: KillPlan
  /** Chooses the kills; what the load draws depends on the machine. */
  readonly #random: Random
  readonly #loadRandom: Random
  readonly #moments = Object.fromEntries(KILL_MOMENTS.map((moment) => [moment, 0])) as Record<
    KillMoment,
    number
  >
  readonly #unexpected: Statuses = new Map()
  #endedByThemselves = 0
  #startMs = STARTING_LATEST_MS
  #longestRecoveryMs = 0
  #isFirst = true

  constructor(plan: KillPlan) {
    this.#plan = plan
    this.#random = seededRandom(plan.seed)
    this.#loadRandom = seededRandom(plan.seed + 1)
    this.ledger = new ProofLedger(this.#loadRandom)
  }

  /** One start and one kill. Null when the daemon ended before it was killed. */
  async run(): Promise<KillMoment | null> {
    const moment = this.#chooseMoment()
    const isKilled =
      moment === 'while_starting' ? await this.#killStart() : await this.#killLoad(moment)
    if (!isKilled) return null
    this.#moments[moment]++
    return moment
  }

  async #killStart(): Promise<boolean> {
    this.#check()
    const latestMs = Math.max(STARTING_EARLIEST_MS, Math.min(STARTING_LATEST_MS, this.#startMs))
    const delayMs = this.#between(STARTING_EARLIEST_MS, latestMs)
    return (await this.#plan.launcher.startAndKill(delayMs)) === 'SIGKILL'
  }

  async #killLoad(moment: KillMoment): Promise<boolean> {
    const daemon = await this.#start()
    const load = new ProofLoad(this.#loadOptions(daemon))
    try {
      // Now and then a kill comes so early that nothing was acknowledged.
      if (this.#random() < ANSWERED_PART) await this.#answered(daemon, load)
      await this.#pause(daemon, this.#between(RUN_MS_MIN, this.#plan.seconds * 1000))
      if (moment === 'after_an_answer') await this.#answered(daemon, load)
      const wasRunning = daemon.isRunning
      if (!wasRunning) this.#endedByThemselves++
      if (moment === 'while_stopping') {
        daemon.signal('SIGTERM')
        await sleep(this.#between(0, STOPPING_LATEST_MS))
      }
      daemon.signal('SIGKILL')
      return (await daemon.ended) === 'SIGKILL' && wasRunning
    } finally {
      daemon.signal('SIGKILL')
      await load.stop()
    }
  }

  async finish(): Promise<KillOutcome> {
    const daemon = await this.#start()
    try {
      await this.#untilProcessed(daemon)
      const first = await this.#compare(daemon)
      const { acknowledgedCount, sentCount } = this.ledger
      await settle(this.#loadOptions(daemon), REPEATED_PART)
      await this.#untilProcessed(daemon)
      const last = await this.#compare(daemon)
      const uuids = (of: (comparison: Comparison) => readonly number[]): readonly string[] =>
        [...new Set([...of(first), ...of(last)])].map((number) => this.ledger.uuidOf(number))
      return {
        moments: this.#moments,
        sentCount,
        acknowledgedCount,
        unansweredCount: sentCount - acknowledgedCount,
        lost: uuids(({ lost }) => lost),
        doubled: uuids(({ doubled }) => doubled),
        altered: uuids(({ altered }) => altered),
        inventedCount: Math.max(first.inventedCount, last.inventedCount),
        unexpected: this.#unexpected,
        endedByThemselves: this.#endedByThemselves,
        longestRecoveryMs: this.#longestRecoveryMs,
      }
    } finally {
      daemon.signal('SIGTERM')
      await daemon.ended
    }
  }

  async #start(): Promise<ProofDaemon> {
    this.#check()
    const daemon = await this.#plan.launcher.start()
    this.#startMs = daemon.startMs
    // The first start makes the store; the others recover it.
    if (!this.#isFirst) {
      this.#longestRecoveryMs = Math.max(this.#longestRecoveryMs, daemon.startMs)
    }
    this.#isFirst = false
    return daemon
  }

  #loadOptions({ url }: ProofDaemon): LoadOptions {
    const { projectKey, connections } = this.#plan
    return {
      url,
      projectKey,
      connections,
      ledger: this.ledger,
      random: this.#loadRandom,
      unexpected: this.#unexpected,
    }
  }

  #chooseMoment(): KillMoment {
    let rest = this.#random() * 100
    for (const [moment, chance] of CHANCES) {
      rest -= chance
      if (rest < 0) return moment
    }
    return 'at_random'
  }

  #between(low: number, high: number): number {
    return low + this.#random() * (high - low)
  }

  async #answered({ ended }: ProofDaemon, load: ProofLoad): Promise<void> {
    await Promise.race([load.nextAcknowledgement(), ended])
  }

  /** Ends early with the daemon, or when the proof is stopped. */
  async #pause({ ended }: ProofDaemon, ms: number): Promise<void> {
    const { clock, isStopped } = this.#plan
    const endMs = clock.monotonic() + ms
    let hasEnded = false
    void ended.then(() => {
      hasEnded = true
    })
    while (!hasEnded && !isStopped()) {
      const leftMs = endMs - clock.monotonic()
      if (leftMs <= 0) return
      await sleep(Math.min(LOOK_MS, leftMs))
    }
  }

  #check(): void {
    if (this.#plan.isStopped()) throw new OperatorError('stopped before the proof was complete')
  }

  /** Resolves when reads show everything that was accepted before. Throws `OperatorError`. */
  async #untilProcessed({ url }: ProofDaemon): Promise<void> {
    const { projectKey, clock } = this.#plan
    const uuid = crypto.randomUUID()
    const mark = { api_key: projectKey, uuid, event: MARK_EVENT, distinct_id: 'proof' }
    const { status } = await fetch(`${url}/capture/`, {
      method: 'POST',
      body: JSON.stringify(mark),
    })
    if (status !== 200) throw new OperatorError(`the daemon answered ${status} at the end`)
    const deadlineMs = clock.monotonic() + PROOF_PROCESSING_MS_MAX
    while (clock.monotonic() < deadlineMs) {
      this.#check()
      const answer = await this.#ask(`${url}/api/projects/1/events/${uuid}/`)
      await answer.arrayBuffer()
      if (answer.status === 200) return
      await sleep(LOOK_MS)
    }
    throw new OperatorError('events that were accepted cannot be read after minutes')
  }

  async #compare({ url }: ProofDaemon): Promise<Comparison> {
    const answer = await this.#ask(`${url}/api/projects/1/events/export/?format=ndjson`)
    if (answer.status === 200 && answer.body !== null) {
      return this.ledger.compare(eventsIn(answer.body))
    }
    throw new OperatorError(`the events cannot be read: the daemon answered ${answer.status}`)
  }

  #ask(url: string): Promise<Response> {
    return fetch(url, { headers: { Authorization: `Bearer ${this.#plan.personalKey}` } })
  }
}

/** The events of an export but for the marks of the proof. An export that is cut off throws. */
async function* eventsIn(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true })
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const event = parseJson(line) as { readonly event?: unknown } | undefined
      if (event?.event !== MARK_EVENT) yield event
    }
  }
}
