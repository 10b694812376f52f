/**
 * The load generator as its users see it: options in, one report out. The work is done by
 * `load-process.ts` in a process of its own, so that the runner's work never delays a request.
 */

import type { EventRequestOptions, GetRequestOptions, PostRequestOptions } from './ingest/bodies.ts'
import { startRole } from './operate/roles.ts'

/** Everything about one run of the load generator. Crosses the process boundary as JSON. */
export interface LoadOptions {
  /** Base URL of the server, `http://address:port`. */
  readonly url: string
  readonly request: EventRequestOptions | PostRequestOptions | GetRequestOptions
  /** Kept alive; one request in flight on each. */
  readonly connections: number
  /**
   * Null: closed loop, the next request of a connection follows its answer. Otherwise open loop:
   * this many requests a second whatever the answers do, latency counted from the intended time.
   */
  readonly requestsPerSecond: number | null
  /** Not measured. */
  readonly warmupSeconds: number
  /** Length of the measured window; with `requestsMax` an upper bound. */
  readonly seconds: number
  /** Stop after this many requests; null: the window alone decides. */
  readonly requestsMax: number | null
  /** The server's process, whose CPU time is read at both ends of the window; null: not read. */
  readonly serverPid: number | null
}

/** Milliseconds, from an exact sample. Zero when the sample is empty. */
export interface Percentiles {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

export interface LoadReport {
  /** Answered 200 in the measured window. */
  readonly requests: number
  /** Events in those requests. */
  readonly events: number
  /** Length of the measured window. */
  readonly seconds: number
  readonly requestsPerSecond: number
  readonly eventsPerSecond: number
  readonly latencyMs: Percentiles
  /** Open loop: how late requests were written for the generator's own slowness. */
  readonly latenessMs: Percentiles
  /** Answers by status, over the whole run, warm-up and stragglers included. */
  readonly statuses: Readonly<Record<string, number>>
  /** Events acknowledged with 200 over the whole run. */
  readonly eventsAcknowledged: number
  /** Bytes of request bodies acknowledged with 200 over the whole run. */
  readonly bytesAcknowledged: number
  /** Requests cut off by a lost connection, or unanswered when the run was given up. */
  readonly requestsLost: number
  /** Cores the generator kept busy in the window; near 1 it was the bottleneck. */
  readonly generatorCores: number
  /** CPU time of the server in the window, user and system, all threads. Null without `serverPid`. */
  readonly serverCpuSeconds: number | null
}

/** A load generator with its requests built and its connections open. */
export interface PreparedLoad {
  /** Starts to send; resolves after the last answer. */
  run(): Promise<LoadReport>
}

/** Starts a generator and waits until it is ready to send. */
export async function prepareLoad(options: LoadOptions): Promise<PreparedLoad> {
  const role = startRole('load')
  role.send(options)
  await role.receive()
  return {
    async run() {
      role.send('go')
      const report = parseLoadReport(await role.receive())
      await role.stop()
      return report
    },
  }
}

/** Prepares and runs. */
export async function runLoad(options: LoadOptions): Promise<LoadReport> {
  const load = await prepareLoad(options)
  return load.run()
}

/** A closed loop with the usual settings; say what differs. */
export function closedLoop(
  options: Pick<LoadOptions, 'url' | 'request' | 'connections' | 'seconds'> & Partial<LoadOptions>,
): LoadOptions {
  const usual = { requestsPerSecond: null, warmupSeconds: 0, requestsMax: null, serverPid: null }
  return { ...usual, ...options }
}

/** An open loop with the usual settings; say what differs. */
export function openLoop(
  options: Pick<LoadOptions, 'url' | 'request' | 'connections' | 'seconds'> &
    Partial<LoadOptions> & { readonly requestsPerSecond: number },
): LoadOptions {
  return { warmupSeconds: 0, requestsMax: null, serverPid: null, ...options }
}

function parseLoadReport(message: unknown): LoadReport {
  if (typeof message !== 'object' || message === null || !('latencyMs' in message)) {
    throw new Error('the load generator sent no report')
  }
  // Written by load-process.ts of the same build.
  return message as LoadReport
}
