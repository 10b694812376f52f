/**
 * The interface of the load generator: it takes options and returns one report. `load-process.ts` generates the load in
 * a separate process, so that the work of the main process never delays a request.
 */

import type { EventRequestOptions, GetRequestOptions, PostRequestOptions } from './ingest/bodies.ts'
import { startRole } from './operate/roles.ts'

/** The options of one run, which are sent between the processes as JSON. */
export interface LoadOptions {
  /** The base URL of the server, `http://address:port`. */
  readonly url: string
  readonly request: EventRequestOptions | PostRequestOptions | GetRequestOptions
  /** The number of persistent connections, each with one request in flight. */
  readonly connections: number
  /**
   * The rate of an open loop. Requests are then sent at this rate, independently of the answers, and latency counts
   * from the time at which a request was due. Null means a closed loop, in which a connection sends its next request
   * after the answer to the previous one.
   */
  readonly requestsPerSecond: number | null
  /** The length of the warm-up, which is not measured. */
  readonly warmupSeconds: number
  /** The length of the measured window. With `requestsMax`, it is an upper bound. */
  readonly seconds: number
  /** The number of requests after which the run stops. Null means that only the window decides. */
  readonly requestsMax: number | null
  /** The process ID of the server. Its CPU time is read at both ends of the window. Null means that it is not read. */
  readonly serverPid: number | null
}

/** Percentiles in milliseconds, from an exact sample. They are 0 if the sample is empty. */
export interface Percentiles {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

export interface LoadReport {
  /** The number of requests that were answered with 200 in the measured window. */
  readonly requests: number
  /** The number of events in these requests. */
  readonly events: number
  /** The length of the measured window. */
  readonly seconds: number
  readonly requestsPerSecond: number
  readonly eventsPerSecond: number
  readonly latencyMs: Percentiles
  /** In an open loop, how late the generator itself sent requests. */
  readonly latenessMs: Percentiles
  /** The number of answers with each status over the whole run, including the warm-up and late answers. */
  readonly statuses: Readonly<Record<string, number>>
  /** The number of events that were acknowledged with 200 over the whole run. */
  readonly eventsAcknowledged: number
  /** The number of bytes of request bodies that were acknowledged with 200 over the whole run. */
  readonly bytesAcknowledged: number
  /** The number of requests that a lost connection aborted, or that had no answer when the run ended. */
  readonly requestsLost: number
  /**
   * The number of cores that the generator kept busy in the window. If it is near 1, the generator was the bottleneck.
   */
  readonly generatorCores: number
  /** The CPU time of all threads of the server in the window, user and system. Null without `serverPid`. */
  readonly serverCpuSeconds: number | null
}

/** A load generator with prepared requests and open connections. */
export interface PreparedLoad {
  /** Starts to send requests. Resolves after the last answer. */
  run(): Promise<LoadReport>
}

/** Starts a generator, and waits until it is ready to send requests. */
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

/** Prepares a load and runs it. */
export async function runLoad(options: LoadOptions): Promise<LoadReport> {
  const load = await prepareLoad(options)
  return load.run()
}

/** Returns the options of a closed loop: the usual settings, changed by the given ones. */
export function closedLoop(
  options: Pick<LoadOptions, 'url' | 'request' | 'connections' | 'seconds'> & Partial<LoadOptions>,
): LoadOptions {
  const usual = { requestsPerSecond: null, warmupSeconds: 0, requestsMax: null, serverPid: null }
  return { ...usual, ...options }
}

/** Returns the options of an open loop: the usual settings, changed by the given ones. */
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
  // load-process.ts of the same build writes the message.
  return message as LoadReport
}
