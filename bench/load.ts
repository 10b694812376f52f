/**
 * The interface of the load generator: it takes options and returns one report. `load-process.ts` does the work in a
 * separate process, so that the runner's work never delays a request.
 */

import type { EventRequestOptions, GetRequestOptions, PostRequestOptions } from './ingest/bodies.ts'
import { startRole } from './operate/roles.ts'

/** The options of one run, passed between the processes as JSON. */
export interface LoadOptions {
  /** Base URL of the server, `http://address:port`. */
  readonly url: string
  readonly request: EventRequestOptions | PostRequestOptions | GetRequestOptions
  /** Persistent connections with one request in flight on each. */
  readonly connections: number
  /**
   * Null: closed loop, in which the next request of a connection follows its answer. Otherwise open loop: this many
   * requests a second, independent of the answers, with latency measured from the intended time.
   */
  readonly requestsPerSecond: number | null
  /** Not measured. */
  readonly warmupSeconds: number
  /** The length of the measured window. With `requestsMax` it is an upper bound. */
  readonly seconds: number
  /** Stops after this many requests. Null: the window alone decides. */
  readonly requestsMax: number | null
  /** The server's process, whose CPU time is read at both ends of the window. Null: it is not read. */
  readonly serverPid: number | null
}

/** Milliseconds, from an exact sample. Zero if the sample is empty. */
export interface Percentiles {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

export interface LoadReport {
  /** Requests answered with 200 in the measured window. */
  readonly requests: number
  /** Events in those requests. */
  readonly events: number
  /** Length of the measured window. */
  readonly seconds: number
  readonly requestsPerSecond: number
  readonly eventsPerSecond: number
  readonly latencyMs: Percentiles
  /** Open loop: the delay of requests that the generator itself caused. */
  readonly latenessMs: Percentiles
  /** Answers by status over the whole run, including warm-up and late answers. */
  readonly statuses: Readonly<Record<string, number>>
  /** Events acknowledged with 200 over the whole run. */
  readonly eventsAcknowledged: number
  /** Bytes of request bodies acknowledged with 200 over the whole run. */
  readonly bytesAcknowledged: number
  /** Requests that were aborted by a lost connection, or unanswered when the run was ended. */
  readonly requestsLost: number
  /** The number of cores that the generator kept busy in the window. Near 1, the generator was the bottleneck. */
  readonly generatorCores: number
  /** CPU time of the server in the window, user and system, all threads. Null without `serverPid`. */
  readonly serverCpuSeconds: number | null
}

/** A load generator with prepared requests and open connections. */
export interface PreparedLoad {
  /** Starts to send. Resolves after the last answer. */
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

/** A closed loop with the usual settings and the given differences. */
export function closedLoop(
  options: Pick<LoadOptions, 'url' | 'request' | 'connections' | 'seconds'> & Partial<LoadOptions>,
): LoadOptions {
  const usual = { requestsPerSecond: null, warmupSeconds: 0, requestsMax: null, serverPid: null }
  return { ...usual, ...options }
}

/** An open loop with the usual settings and the given differences. */
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
