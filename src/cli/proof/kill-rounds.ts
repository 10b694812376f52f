/**
 * Kills the daemon of a proof again and again, and compares the stored events with the acknowledged ones. No
 * acknowledged event is sent again before the first comparison, because that would hide its loss.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../base/clock.ts'
import { OperatorError } from '../../base/errors.ts'
import { parseJson } from '../../base/json.ts'
import { PROOF_PROCESSING_MS_MAX } from '../limits.ts'
import type { ProofDaemon, ProofLauncher } from './proof-daemon.ts'
import { type Comparison, ProofLedger, type Random, seededRandom } from './proof-ledger.ts'
import { type LoadOptions, ProofLoad, type Statuses, settle } from './proof-load.ts'

/** The moments in the life of a daemon at which it is killed. */
const KILL_MOMENTS = ['at_random', 'after_an_answer', 'while_stopping', 'while_starting'] as const
/** One of `KILL_MOMENTS`. */
export type KillMoment = (typeof KILL_MOMENTS)[number]

/** The percentage of all kills that happen at each of these moments. The other kills are at random. */
const CHANCES: readonly (readonly [KillMoment, number])[] = [
  ['after_an_answer', 35],
  ['while_stopping', 15],
  ['while_starting', 15],
]
/**
 * The fraction of the rounds under load that wait for at least one answer before the kill. In the other rounds, the
 * kill may come before any event is acknowledged.
 */
const ANSWERED_PART = 0.85
/** The shortest time under load before a kill, in milliseconds. */
const RUN_MS_MIN = 20
/** The longest time between SIGTERM and the kill of a daemon that stops, in milliseconds. */
const STOPPING_LATEST_MS = 100
/**
 * The shortest time between the start of a daemon and its kill while it starts, in milliseconds. The longest time is
 * the duration of the last start, but at most `STARTING_LATEST_MS`.
 */
const STARTING_EARLIEST_MS = 20
const STARTING_LATEST_MS = 2000
/** The fraction of the acknowledged events that are sent again at the end. Each must still be stored only once. */
const REPEATED_PART = 0.05
const LOOK_MS = 50
const MARK_EVENT = 'end of the proof'

/** The plan of a proof. */
export interface KillPlan {
  readonly launcher: ProofLauncher
  readonly clock: Pick<Clock, 'monotonic'>
  readonly kills: number
  /** The longest time under load before a kill, in seconds. */
  readonly seconds: number
  readonly connections: number
  readonly seed: number
  readonly projectKey: string
  readonly personalKey: string
  /** Called after each kill. `kill` is the number of kills so far. */
  readonly onKill: (kill: number, moment: KillMoment, acknowledgedCount: number) => void
  /** Called regularly. If it returns true, the proof ends with an `OperatorError`. */
  readonly isStopped: () => boolean
}

/** The result of a proof. */
export interface KillOutcome {
  readonly moments: Readonly<Record<KillMoment, number>>
  readonly sentCount: number
  readonly acknowledgedCount: number
  /** The number of events that had no answer after the last kill. They were sent again. */
  readonly unansweredCount: number
  readonly lost: readonly string[]
  readonly doubled: readonly string[]
  readonly altered: readonly string[]
  readonly inventedCount: number
  readonly unexpected: Statuses
  /** The number of daemons that ended without being killed. */
  readonly endedByThemselves: number
  readonly longestRecoveryMs: number
}

/** Executes a plan. Throws `OperatorError` if a daemon does not start, or if the proof is stopped. */
export async function killAndCompare(plan: KillPlan): Promise<KillOutcome> {
  const rounds = new KillRounds(plan)
  // Some daemons end before they are killed, because they were stopping or have failed. More rounds than kills are
  // therefore allowed.
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
  /**
   * The random numbers for the kills. The load uses other ones: how many it uses depends on the speed of the machine,
   * and this must not change the kills.
   */
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

  /** Starts a daemon and kills it. Returns null if the daemon ended before it was killed. */
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
      // Some kills should come before anything is acknowledged, so not every round waits for an answer.
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
    // The first start creates the store. Only later starts recover it, so only these are measured.
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
    await Promise.race([load.nextAcknowledgment(), ended])
  }

  /** Waits for some milliseconds. Returns early if the daemon ends or the proof is stopped. */
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
    if (this.#plan.isStopped())
      throw new OperatorError('The proof was stopped before it was complete.')
  }

  /** Resolves when all accepted events are processed, so that they can be read. Throws `OperatorError`. */
  async #untilProcessed({ url }: ProofDaemon): Promise<void> {
    const { projectKey, clock } = this.#plan
    const uuid = crypto.randomUUID()
    const mark = { api_key: projectKey, uuid, event: MARK_EVENT, distinct_id: 'proof' }
    const { status } = await fetch(`${url}/capture/`, {
      method: 'POST',
      body: JSON.stringify(mark),
    })
    if (status !== 200)
      throw new OperatorError(
        `The daemon refused the last event of the proof with the HTTP status ${status}, so the proof is incomplete.`,
      )
    const deadlineMs = clock.monotonic() + PROOF_PROCESSING_MS_MAX
    while (clock.monotonic() < deadlineMs) {
      this.#check()
      const answer = await this.#ask(`${url}/api/projects/1/events/${uuid}/`)
      await answer.arrayBuffer()
      if (answer.status === 200) return
      await sleep(LOOK_MS)
    }
    throw new OperatorError(
      'The daemon has not processed all accepted events within several minutes, so they cannot be compared.',
    )
  }

  async #compare({ url }: ProofDaemon): Promise<Comparison> {
    const answer = await this.#ask(`${url}/api/projects/1/events/export/?format=ndjson`)
    if (answer.status === 200 && answer.body !== null) {
      return this.ledger.compare(eventsIn(answer.body))
    }
    throw new OperatorError(
      `The stored events cannot be compared, because the daemon answered the export with the HTTP status ${answer.status}.`,
    )
  }

  #ask(url: string): Promise<Response> {
    return fetch(url, { headers: { Authorization: `Bearer ${this.#plan.personalKey}` } })
  }
}

/**
 * Yields the events of an export. Events that the proof itself sent as marks are left out. Throws if the export is
 * incomplete.
 */
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
