/** Ordinary clients beside an attack. They count their answers and measure the waiting time. */
import { Client, pause, type Reply } from './client.ts'

const FIRST_ADDRESS = 3
const CLIENTS = 3
const PERIOD_MS = 100
const READ_PERIOD_MS = 500

/** The outcomes of one kind of request. */
export interface Waits {
  readonly sent: number
  /** Answers other than 200. */
  readonly refused: number
  /** Connections that were refused or closed. */
  readonly failed: number
  readonly longestMs: number
  readonly p99Ms: number
  /** The first answer other than 200. */
  readonly firstRefusal: string
  /** The times of the first and the last answer other than 200, in milliseconds since the start. */
  readonly refusedMs: readonly [number, number] | null
}

class WaitList {
  readonly #times: number[] = []
  #refused = 0
  #failed = 0
  #firstRefusal = ''
  #refusedMs: [number, number] | null = null
  readonly #startMs = performance.now()

  add({ ms, status, text }: Reply): void {
    this.#times.push(ms)
    if (status === 0) this.#failed++
    else if (status !== 200) this.#noteRefusal()
    if (status !== 0 && status !== 200 && this.#firstRefusal === '') {
      this.#firstRefusal = `${status} ${text.slice(0, 300)}`
    }
  }

  #noteRefusal(): void {
    const nowMs = Math.round(performance.now() - this.#startMs)
    this.#refused++
    this.#refusedMs = [this.#refusedMs?.[0] ?? nowMs, nowMs]
  }

  result(): Waits {
    const sorted = this.#times.toSorted((a, b) => a - b)
    return {
      sent: sorted.length,
      refused: this.#refused,
      failed: this.#failed,
      longestMs: Math.round(sorted.at(-1) ?? 0),
      p99Ms: Math.round(sorted[Math.floor(sorted.length * 0.99)] ?? 0),
      firstRefusal: this.#firstRefusal,
      refusedMs: this.#refusedMs,
    }
  }
}

/**
 * Three clients, each from its own loopback address. Each sends a batch of three events and requests its flags every
 * 100 ms, and waits for an answer before the next request of the same kind. The first one also reads the newest events
 * with a personal key.
 */
export class OrdinaryClients {
  readonly #captures = new WaitList()
  readonly #flags = new WaitList()
  readonly #reads = new WaitList()
  readonly #clients: readonly Client[]
  readonly #loops: Promise<void>[]
  #isStopped = false

  constructor(url: string, isForwarded: boolean) {
    this.#clients = Array.from({ length: CLIENTS }, (_, index) => {
      const last = FIRST_ADDRESS + index
      const options = { url, address: `127.0.0.${last}`, connectionsMax: 4 }
      return new Client(isForwarded ? { ...options, forwardedFor: `203.0.113.${last}` } : options)
    })
    this.#loops = this.#clients.flatMap((client, index) => [
      this.#repeat(PERIOD_MS, this.#captures, (turn) => {
        const batch = Array.from({ length: 3 }, (_, event) => ({
          event: 'ordinary',
          distinct_id: `ordinary ${index}`,
          properties: { turn, event },
        }))
        return client.post('/batch/', { batch })
      }),
      this.#repeat(PERIOD_MS, this.#flags, () =>
        client.post('/flags/?v=2', { distinct_id: `ordinary ${index}` }),
      ),
    ])
    const [first] = this.#clients
    if (first === undefined) throw new Error('there are no ordinary clients')
    const read = (): Promise<Reply> => first.api('GET', 'events/?limit=2&event=ordinary')
    this.#loops.push(this.#repeat(READ_PERIOD_MS, this.#reads, read))
  }

  /** Waits for the last answers and returns the time that all of them took. */
  async stop(): Promise<{ captures: Waits; flags: Waits; reads: Waits }> {
    this.#isStopped = true
    await Promise.all(this.#loops)
    for (const client of this.#clients) client.close()
    return {
      captures: this.#captures.result(),
      flags: this.#flags.result(),
      reads: this.#reads.result(),
    }
  }

  async #repeat(
    periodMs: number,
    waits: WaitList,
    ask: (turn: number) => Promise<Reply>,
  ): Promise<void> {
    for (let turn = 0; !this.#isStopped; turn++) {
      const startMs = performance.now()
      waits.add(await ask(turn))
      await pause(Math.max(1, periodMs - (performance.now() - startMs)))
    }
  }
}
