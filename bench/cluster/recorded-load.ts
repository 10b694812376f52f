/**
 * A load of events that are sent to several machines, with a record of the acknowledged events. Clients never give up:
 * they send an unanswered request again, to a machine chosen at random.
 */
import { randomBytes } from 'node:crypto'
import { PROJECT_KEY } from '../daemon.ts'
import { sleep } from '../harness.ts'

const CLIENTS = 24
const EVENTS_MAX = 40
const PERSONS = 400
const GUESTS = 2000
const ANSWER_MS_MAX = 4000
const AGAIN_MS = 30
/** The share of events that identify a visitor. */
const IDENTIFIES = 0.1

/** The options of a load. */
export interface RecordedLoadOptions {
  /** Returns the URL of each machine, or null for a machine that is not available. */
  readonly urls: () => readonly (string | null)[]
  readonly eventsPerSecond: number
  /** Returns a random number from 0 to 1. */
  readonly random: () => number
}

/** Clients that send events until the load is stopped. */
export class RecordedLoad {
  /** The uuids of all events that were answered with 200. */
  readonly acknowledged = new Set<string>()
  /** For each answered request, the milliseconds since its first attempt. */
  readonly answeredMs: number[] = []
  /** The number of requests that were sent again. */
  again = 0
  readonly #options: RecordedLoadOptions
  readonly #avoided = new Set<number>()
  readonly #busy: number[] = []
  readonly #clients: Promise<void>[] = []
  #isHeld = false
  #isStopped = false
  #number = 0

  constructor(options: RecordedLoadOptions) {
    this.#options = options
    for (let index = 0; index < CLIENTS; index++) this.#clients.push(this.#run())
  }

  /** Stops the load. Each client first sends its current request until it is acknowledged. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#isHeld = false
    await Promise.all(this.#clients)
  }

  /**
   * Stops requests to a machine and resolves when none is in flight. If `isAvoided` is false, requests are allowed
   * again.
   */
  async avoid(machine: number, isAvoided: boolean): Promise<void> {
    if (!isAvoided) this.#avoided.delete(machine)
    else this.#avoided.add(machine)
    while (isAvoided && (this.#busy[machine] ?? 0) > 0) await sleep(AGAIN_MS)
  }

  /**
   * Stops requests to all machines and resolves when none is in flight. If `isHeld` is false, requests are allowed
   * again.
   */
  async hold(isHeld: boolean): Promise<void> {
    this.#isHeld = isHeld
    while (isHeld && this.#busy.some((count) => count > 0)) await sleep(AGAIN_MS)
  }

  async #run(): Promise<void> {
    const { random, eventsPerSecond } = this.#options
    while (!this.#isStopped) {
      const count = 1 + Math.floor(random() * EVENTS_MAX)
      const pauseMs = (count * 1000 * CLIENTS) / eventsPerSecond
      const uuids = Array.from({ length: count }, newUuid)
      const body = JSON.stringify({
        api_key: PROJECT_KEY,
        batch: uuids.map((uuid) => this.#event(uuid)),
      })
      const startedAtMs = performance.now()
      while (!(await this.#send(body))) await sleep(AGAIN_MS)
      const elapsedMs = performance.now() - startedAtMs
      this.answeredMs.push(elapsedMs)
      for (const uuid of uuids) this.acknowledged.add(uuid)
      // A client that had to wait for its answer continues immediately.
      if (elapsedMs < pauseMs) await sleep((pauseMs - elapsedMs) * (0.5 + random()))
    }
  }

  /** Sends a request to one machine. Returns whether the answer was 200. */
  async #send(body: string): Promise<boolean> {
    const { urls, random } = this.#options
    if (this.#isHeld) return false
    const open = urls().flatMap((url, machine) =>
      url === null || this.#avoided.has(machine) ? [] : [{ url, machine }],
    )
    const chosen = open[Math.floor(random() * open.length)]
    if (chosen === undefined) return false
    const { url, machine } = chosen
    this.#busy[machine] = (this.#busy[machine] ?? 0) + 1
    let status = 0
    try {
      const signal = AbortSignal.timeout(ANSWER_MS_MAX)
      const answer = await fetch(`${url}/batch/`, { method: 'POST', body, signal })
      await answer.arrayBuffer()
      status = answer.status
    } catch {
      // The machine was killed, is paused or is slow, so the request is sent again.
    }
    this.#busy[machine] = (this.#busy[machine] ?? 0) - 1
    if (status === 200) return true
    if (status !== 0 && status !== 503) throw new Error(`a batch was answered ${status}`)
    this.again++
    return false
  }

  #event(uuid: string): object {
    const { random } = this.#options
    const number = this.#number++
    const isIdentify = random() < IDENTIFIES
    const guest = `guest ${Math.floor(random() * GUESTS)}`
    return {
      uuid,
      event: isIdentify ? '$identify' : 'seen',
      distinct_id: random() < 0.5 && !isIdentify ? guest : `user ${Math.floor(random() * PERSONS)}`,
      timestamp: new Date().toISOString(),
      properties: {
        number,
        $set: { number },
        $set_once: { first: number },
        ...(isIdentify ? { $anon_distinct_id: guest } : {}),
      },
    }
  }
}

function newUuid(): string {
  const hex = randomBytes(16).toString('hex')
  const variant = hex.slice(17, 20)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${variant}-${hex.slice(20)}`
}
