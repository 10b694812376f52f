/**
 * The load generator of the bench `peers`. It runs the same closed loop for every peer, with one request in flight on
 * each connection, in a separate process. It is simpler than `load.ts`, which only supports HTTP.
 */

import { startRole } from '../operate/roles.ts'
import type { Protocol } from './peer-protocols.ts'

/** The options of one run, which are sent between the processes as JSON. */
export interface PeerLoadOptions {
  readonly protocol: Protocol
  /** The port of the peer on the loopback address. */
  readonly port: number
  readonly eventsPerRequest: number
  readonly connections: number
  readonly projectKey: string
  readonly seed: number
  /** The number of distinct events. Requests repeat them with new uuids. */
  readonly distinctEvents: number
  /** The number of the stream of uuids; see `EventRequestOptions`. */
  readonly stream: number
  /** The length of the warm-up, which is not measured. */
  readonly warmupSeconds: number
  readonly seconds: number
}

/** The results of a run. */
export interface PeerLoadReport {
  /** The requests and events per second that were acknowledged in the measured window. */
  readonly requestsPerSecond: number
  readonly eventsPerSecond: number
  /** The median latency in milliseconds. */
  readonly p50Ms: number
  readonly p99Ms: number
  /** The number of events that were acknowledged over the whole run, including the warm-up and late answers. */
  readonly eventsAcknowledged: number
  readonly requestsRefused: number
  /** The number of requests that had no answer when the run ended or was aborted. */
  readonly requestsLost: number
  /** The text of the peer's first refusal. Empty if there was none. */
  readonly refusal: string
  /** The number of cores that the generator kept busy in the window. */
  readonly generatorCores: number
}

/** Runs a load. `onReady` is called when the connections are open, before the first request. */
export async function runPeerLoad(
  options: PeerLoadOptions,
  onReady: () => void,
): Promise<PeerLoadReport> {
  const role = startRole('peer-load')
  try {
    role.send(options)
    await role.receive()
    onReady()
    role.send('go')
    // peer-load-process.ts of the same build writes the message.
    return (await role.receive()) as PeerLoadReport
  } finally {
    await role.stop()
  }
}
