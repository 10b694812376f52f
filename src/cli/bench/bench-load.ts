/**
 * The open-loop load generator of `tenrec bench`. Requests are due at fixed times, independently of the answers, and
 * latency counts from the time at which a request was due. A stall of the daemon therefore affects all requests that
 * were due during the stall, and not only those in flight.
 */
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { OperatorError } from '../../base/errors.ts'
import { BENCH_STRAGGLERS_MS_MAX, BENCH_WAITING_MAX } from '../limits.ts'
import { BenchConnection, type ConnectionListener } from './bench-connection.ts'
import { benchBody } from './bench-events.ts'

const TICK_MS = 1

/** The target of the load. */
export interface LoadTarget {
  readonly baseUrl: string
  readonly projectKey: string
  readonly connections: number
  readonly eventsPerRequest: number
}

/** The measurements of one step. A latency counts from the time at which the request was due, in milliseconds. */
export interface StepResult {
  /** Events per second that were due. */
  readonly rate: number
  readonly seconds: number
  /** Requests that were answered with 200. */
  readonly requests: number
  readonly events: number
  /** The number of answers for each status other than 200. Status 0 stands for a lost connection. */
  readonly failures: ReadonlyMap<number, number>
  /** Requests that were due and never answered. */
  readonly unanswered: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /**
   * How late the generator sent requests for which a connection was free, at p99 in milliseconds. A high value means
   * that the generator was too slow.
   */
  readonly latenessMs: number
  /** Share of the time during which the generator was busy, from 0 to 1. */
  readonly generatorBusy: number
  /** Share of the requests that waited for a connection, from 0 to 1. */
  readonly heldUp: number
}

/** The connections with which a load is put on one daemon. Close them at the end. */
export class LoadGenerator implements ConnectionListener {
  readonly #target: LoadTarget
  readonly #connections: BenchConnection[] = []
  #idle: BenchConnection[] = []
  #waiting: number[] = []
  #latencies: number[] = []
  #lateness: number[] = []
  #failures = new Map<number, number>()
  #inFlight = 0
  #heldUp = 0
  readonly #head: string

  constructor(target: LoadTarget) {
    this.#target = target
    const { host, pathname } = new URL(target.baseUrl)
    const path = `${pathname.replace(/\/+$/, '')}${target.eventsPerRequest === 1 ? '/capture/' : '/batch/'}`
    this.#head = `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: tenrec-bench\r\nContent-Type: application/json\r\n`
  }

  /** Opens all connections. Throws `OperatorError`. */
  async open(): Promise<void> {
    const url = new URL(this.#target.baseUrl)
    for (let index = 0; index < this.#target.connections; index++) {
      this.#connections.push(new BenchConnection(url, this))
    }
    try {
      await Promise.all(this.#connections.map((connection) => connection.open()))
    } catch (cause) {
      this.close()
      const message = `No answer from ${this.#target.baseUrl}. Is the daemon running?`
      throw new OperatorError(message, { cause })
    }
  }

  close(): void {
    for (const connection of this.#connections) connection.close()
  }

  /** Sends `rate` events per second for the given time, and waits for the answers. */
  async step(rate: number, seconds: number): Promise<StepResult> {
    const { eventsPerRequest } = this.#target
    const periodMs = (1000 * eventsPerRequest) / rate
    const dueCount = Math.max(1, Math.round((seconds * 1000) / periodMs))
    this.#reset()
    const busyBefore = performance.eventLoopUtilization()
    const startedAtMs = performance.now()
    let sent = 0
    while (sent < dueCount) {
      const due = Math.min(dueCount, 1 + Math.floor((performance.now() - startedAtMs) / periodMs))
      for (; sent < due; sent++) this.#due(startedAtMs + sent * periodMs)
      if (this.#waiting.length > BENCH_WAITING_MAX) break
      await sleep(TICK_MS)
    }
    const elapsedSeconds = (performance.now() - startedAtMs) / 1000
    const generatorBusy = performance.eventLoopUtilization(busyBefore).utilization
    const endMs = performance.now() + BENCH_STRAGGLERS_MS_MAX
    while (this.#inFlight + this.#waiting.length > 0 && performance.now() < endMs) {
      await sleep(TICK_MS)
    }
    const unanswered = this.#inFlight + this.#waiting.length
    this.#waiting = []
    const latencies = percentiles(this.#latencies)
    return {
      rate,
      seconds: elapsedSeconds,
      requests: this.#latencies.length,
      events: this.#latencies.length * eventsPerRequest,
      failures: this.#failures,
      unanswered,
      p50Ms: latencies(0.5),
      p99Ms: latencies(0.99),
      maxMs: latencies(1),
      latenessMs: percentiles(this.#lateness)(0.99),
      generatorBusy,
      heldUp: this.#heldUp / dueCount,
    }
  }

  answered(connection: BenchConnection, status: number): void {
    this.#inFlight = Math.max(0, this.#inFlight - 1)
    if (status === 200) this.#latencies.push(performance.now() - connection.intendedAtMs)
    else this.#failures.set(status, (this.#failures.get(status) ?? 0) + 1)
    if (connection.isUsable) this.reopened(connection)
  }

  reopened(connection: BenchConnection): void {
    const intendedAtMs = this.#waiting.shift()
    if (intendedAtMs === undefined) this.#idle.push(connection)
    else this.#send(connection, intendedAtMs)
  }

  #due(intendedAtMs: number): void {
    let connection = this.#idle.shift()
    while (connection !== undefined && !connection.isUsable) connection = this.#idle.shift()
    if (connection === undefined) {
      this.#heldUp++
      this.#waiting.push(intendedAtMs)
      return
    }
    this.#lateness.push(performance.now() - intendedAtMs)
    this.#send(connection, intendedAtMs)
  }

  #send(connection: BenchConnection, intendedAtMs: number): void {
    const { projectKey, eventsPerRequest } = this.#target
    const body = benchBody(projectKey, eventsPerRequest, Date.now())
    this.#inFlight++
    const length = Buffer.byteLength(body)
    connection.send(`${this.#head}Content-Length: ${length}\r\n\r\n${body}`, intendedAtMs)
  }

  #reset(): void {
    this.#idle = this.#connections.filter((connection) => connection.isUsable)
    this.#latencies = []
    this.#lateness = []
    this.#failures = new Map()
    this.#heldUp = 0
    this.#inFlight = 0
  }
}

/** Returns a function that computes percentiles of the values. It returns 0 if there are no values. */
function percentiles(values: readonly number[]): (share: number) => number {
  const sorted = Float64Array.from(values).sort()
  return (share) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
}
