/**
 * Sends events to the daemon of a proof (`tenrec prove-durability`). Each connection sends one request at a time, and
 * records the answers.
 */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { PROOF_ANSWER_MS_MAX } from '../limits.ts'
import type { ProofLedger, Random } from './proof-ledger.ts'

const EVENTS_PER_REQUEST = 25
/** The number of events in a request of `settle`. */
const EVENTS_PER_BATCH = 500
const PAUSE_MS = 6
const OK = 200
const NO_ANSWER = 0
/** The status with which a daemon may refuse requests for a while. */
const REFUSED = 503

/** For each status other than 200 and 503, the number of answers. */
export type Statuses = Map<number, number>

/** Options of a load. */
export interface LoadOptions {
  readonly url: string
  readonly projectKey: string
  readonly connections: number
  readonly ledger: ProofLedger
  readonly random: Random
  readonly unexpected: Statuses
}

/** Puts load on one daemon until it is stopped. */
export class ProofLoad {
  readonly #options: LoadOptions
  readonly #agent: Agent
  readonly #clients: readonly Promise<void>[]
  /** The numbers of the events that some connection is sending now. No other connection sends them at the same time. */
  readonly #onTheWay = new Set<number>()
  #isOver = false
  #onAnswer: (() => void)[] = []

  constructor(options: LoadOptions) {
    this.#options = options
    const { connections } = options
    this.#agent = new Agent({ keepAlive: true, maxSockets: connections })
    this.#clients = Array.from({ length: connections }, () => this.#drive())
  }

  /** Resolves directly after the next answer with 200, or when the load has ended. */
  nextAcknowledgment(): Promise<void> {
    return new Promise((resolve) => this.#onAnswer.push(resolve))
  }

  /** Stops sending, and waits for the outstanding answers. */
  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#clients)
    this.#tell()
    this.#agent.destroy()
  }

  async #drive(): Promise<void> {
    const { ledger, random } = this.#options
    while (!this.#isOver) {
      const numbers = this.#batch()
      if (numbers.length > 0) {
        for (const number of numbers) this.#onTheWay.add(number)
        const status = await sendEvents(this.#options, this.#agent, numbers)
        for (const number of numbers) this.#onTheWay.delete(number)
        if (status === OK) {
          ledger.acknowledge(numbers)
          this.#tell()
        }
      }
      await sleep(random() * PAUSE_MS)
    }
  }

  #tell(): void {
    for (const resolve of this.#onAnswer.splice(0)) resolve()
  }

  /**
   * Returns the numbers of the events for a request: new events and, in half of the requests, unanswered events that
   * are sent again.
   */
  #batch(): readonly number[] {
    const { ledger, random } = this.#options
    const count = 1 + Math.floor(random() * EVENTS_PER_REQUEST)
    const numbers: number[] = []
    if (random() < 0.5) {
      for (const number of ledger.unknown) {
        if (numbers.length >= count) break
        if (!this.#onTheWay.has(number)) numbers.push(number)
      }
    }
    while (numbers.length < count && ledger.hasRoom) numbers.push(ledger.add())
    return numbers
  }
}

/**
 * Sends all unanswered events again, and also a fraction of the acknowledged events, as a client does that has missed
 * the answer. Resolves when all of them are answered. The ledger records which events are acknowledged. Events that are
 * refused stay unknown.
 */
export async function settle(options: LoadOptions, repeatedPart: number): Promise<void> {
  const { ledger, random } = options
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const wanted = new Set(ledger.unknown)
  for (let number = 0; number < ledger.sentCount; number++) {
    if (random() < repeatedPart) wanted.add(number)
  }
  const numbers = [...wanted]
  try {
    for (let start = 0; start < numbers.length; start += EVENTS_PER_BATCH) {
      const batch = numbers.slice(start, start + EVENTS_PER_BATCH)
      if ((await sendEvents(options, agent, batch)) === OK) ledger.acknowledge(batch)
    }
  } finally {
    agent.destroy()
  }
}

async function sendEvents(
  { url, projectKey, ledger, unexpected }: LoadOptions,
  agent: Agent,
  numbers: readonly number[],
): Promise<number> {
  const events = numbers.map((number) => ledger.eventOf(number))
  const [first] = events
  const isSingle = events.length === 1
  const path = isSingle ? '/capture/' : '/batch/'
  const body = isSingle ? { api_key: projectKey, ...first } : { api_key: projectKey, batch: events }
  const status = await post(`${url}${path}`, JSON.stringify(body), agent)
  if (status !== OK && status !== REFUSED && status !== NO_ANSWER) {
    unexpected.set(status, (unexpected.get(status) ?? 0) + 1)
  }
  return status
}

/** Sends a request. Returns the status of the answer, or 0 if there was none. */
function post(url: string, body: string, agent: Agent): Promise<number> {
  return new Promise((resolve) => {
    const sent = request(
      url,
      {
        method: 'POST',
        agent,
        timeout: PROOF_ANSWER_MS_MAX,
        headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) },
      },
      (answer) => {
        answer.resume()
        // An answer that breaks off counts as no answer.
        answer.once('end', () => resolve(answer.complete ? (answer.statusCode ?? 0) : NO_ANSWER))
        answer.once('error', () => resolve(NO_ANSWER))
      },
    )
    sent.once('error', () => resolve(NO_ANSWER))
    sent.once('timeout', () => sent.destroy(new Error('no answer')))
    sent.end(body)
  })
}
