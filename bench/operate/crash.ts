/**
 * Question: is every acknowledged event there exactly once after kill -9 at random moments?
 * Workload: 24 clients post 1 to 50 events in a request without pause. The daemon is killed at random moments and
 * started again on the same data. Clients resend unanswered events with the same uuids, as SDKs do. The bench runs with
 * `--durability fsync` and with `commit`. Then all events are read back.
 * Reconsider: the log, if one event is lost or duplicated.
 */
import { type Daemon, PERSONAL_KEY, PROJECT_KEY } from '../daemon.ts'
import { type Bench, type BenchContext, sleep } from '../harness.ts'
import { EventGenerator } from '../ingest/events.ts'

export const CRASH: Bench = {
  name: 'crash',
  group: 'ingest',
  question: 'Is every acknowledged event there exactly once after kill -9 at random moments?',
  workload: '24 clients, 1 to 50 events a request, resent after a crash; fsync and commit',
  needsDaemon: true,
  run: measure,
}

const CLIENTS = 24
const EVENTS_PER_REQUEST_MAX = 50
const UPTIME_MS_MIN = 150
const UPTIME_MS_MAX = 1500
const RETRY_MS = 20
const PAGE_EVENTS = 1000

async function measure(context: BenchContext): Promise<void> {
  for (const durability of ['fsync', 'commit']) {
    const traffic = new Traffic(context.seed)
    const crashes = context.rounds(30, 3)
    const dataDir = context.newFolder()
    const args = ['--durability', durability]
    let daemon = await context.startDaemon({ dataDir, args })
    traffic.start(daemon.url)
    const restartsMs: number[] = []
    for (let crash = 0; crash < crashes; crash++) {
      await sleep(UPTIME_MS_MIN + traffic.random() * (UPTIME_MS_MAX - UPTIME_MS_MIN))
      await daemon.kill()
      daemon = await context.startDaemon({ dataDir, args })
      restartsMs.push(daemon.startMs)
      traffic.url = daemon.url
    }
    await traffic.stop()
    await daemon.drain()
    const stored = await readAllUuids(daemon)
    await daemon.stop()
    report(context, durability, crashes, traffic, stored, Math.max(...restartsMs))
  }
}

function report(
  context: BenchContext,
  durability: string,
  crashes: number,
  traffic: Traffic,
  stored: ReadonlyMap<string, number>,
  slowestMs: number,
): void {
  let missing = 0
  let doubled = 0
  let unknown = 0
  for (const uuid of traffic.acknowledged) if (!stored.has(uuid)) missing++
  for (const [uuid, count] of stored) {
    if (count > 1) doubled++
    if (!traffic.acknowledged.has(uuid)) unknown++
  }
  const acknowledged = traffic.acknowledged.size
  context.report({
    figure: `--durability ${durability}: acknowledged events found exactly once, against all`,
    value: acknowledged - missing - doubled,
    unit: 'events',
    baseline: acknowledged,
    target: { of: 'ratio', bound: 'at least', limit: 1 },
    note:
      `${crashes} kills; ${missing} missing, ${doubled} doubled, ${unknown} stored without having ` +
      `been sent; ${traffic.resent} requests sent again; slowest start after a kill ${Math.round(slowestMs)} ms`,
  })
  if (missing + doubled + unknown > 0) throw new Error('events were lost, doubled or invented')
}

/** Clients that send a request again and again until it is acknowledged. */
class Traffic {
  /** The uuids of all events that were answered with 200. */
  readonly acknowledged = new Set<string>()
  url = ''
  resent = 0
  readonly #generator: EventGenerator
  readonly #clients: Promise<void>[] = []
  #isStopped = false
  #failure: Error | null = null
  #state: number

  constructor(seed: number) {
    this.#generator = new EventGenerator({ seed })
    this.#state = seed
  }

  start(url: string): void {
    this.url = url
    const fail = (error: unknown): void => {
      this.#failure ??= error instanceof Error ? error : new Error(String(error))
      this.#isStopped = true
    }
    for (let index = 0; index < CLIENTS; index++) this.#clients.push(this.#client().catch(fail))
  }

  /**
   * Stops the clients. Each client first sends its current request until it is acknowledged. If a client has failed,
   * throws its error.
   */
  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#clients)
    if (this.#failure !== null) throw this.#failure
  }

  /** Returns a number from 0 to 1. The same seed gives the same sequence. */
  random(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0
    return this.#state / 2 ** 32
  }

  async #client(): Promise<void> {
    while (!this.#isStopped) {
      const count = 1 + Math.floor(this.random() * EVENTS_PER_REQUEST_MAX)
      const batch = Array.from({ length: count }, () => this.#generator.event())
      const body = JSON.stringify({ api_key: PROJECT_KEY, batch })
      while (!(await this.#post(body))) {
        this.resent++
        await sleep(RETRY_MS)
      }
      for (const event of batch) this.acknowledged.add(event.uuid)
    }
  }

  /** Sends a request. Returns true if it was answered with 200, and false if it must be sent again. */
  async #post(body: string): Promise<boolean> {
    let status: number
    try {
      const response = await fetch(`${this.url}/batch/`, { method: 'POST', body })
      await response.arrayBuffer()
      status = response.status
    } catch {
      return false
    }
    if (status !== 200 && status !== 503) throw new Error(`a batch was answered ${status}`)
    return status === 200
  }
}

/** Reads the list of events page by page, and counts how often each uuid occurs. */
async function readAllUuids(daemon: Daemon): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  let next: string | null = `${daemon.url}/api/projects/1/events/?limit=${PAGE_EVENTS}`
  while (next !== null) {
    const page: EventPage = await readPage(next)
    for (const { uuid } of page.results) counts.set(uuid, (counts.get(uuid) ?? 0) + 1)
    next = page.next
  }
  return counts
}

interface EventPage {
  readonly next: string | null
  readonly results: readonly { readonly uuid: string }[]
}

async function readPage(url: string): Promise<EventPage> {
  const response = await fetch(url, { headers: { authorization: `Bearer ${PERSONAL_KEY}` } })
  const page = await response.json()
  if (!response.ok || typeof page !== 'object' || page === null || !('results' in page)) {
    throw new Error(`the list of events answered ${response.status}`)
  }
  // docs/COMPATIBILITY.md defines this format. If the format were different, uuids would be missing.
  return page as EventPage
}
