/**
 * The load generator of the bench `peers`: the same closed loop for every peer, with one request in flight on each
 * connection, in a separate process. It is simpler than `load.ts`, which only supports HTTP.
 */

import { startRole } from '../operate/roles.ts'
import type { Protocol } from './peer-protocols.ts'

/** The options of one run, passed between the processes as JSON. */
export interface PeerLoadOptions {
  readonly protocol: Protocol
  /** On loopback. */
  readonly port: number
  readonly eventsPerRequest: number
  readonly connections: number
  readonly projectKey: string
  readonly seed: number
  /** Requests repeat this many events with new uuids. */
  readonly distinctEvents: number
  /** See `EventRequestOptions`. */
  readonly stream: number
  /** Not measured. */
  readonly warmupSeconds: number
  readonly seconds: number
}

/** The results of a run. */
export interface PeerLoadReport {
  /** Events acknowledged in the measured window. */
  readonly requestsPerSecond: number
  readonly eventsPerSecond: number
  /** Milliseconds. */
  readonly p50Ms: number
  readonly p99Ms: number
  /** Over the whole run, warm-up and stragglers included. */
  readonly eventsAcknowledged: number
  readonly requestsRefused: number
  /** Requests that had no answer when the run was ended or aborted. */
  readonly requestsLost: number
  /** The first refusal in the peer's words. Empty if there was none. */
  readonly refusal: string
  /** The number of cores that the generator kept busy in the window. */
  readonly generatorCores: number
}

/** Runs a load. `onReady` is called when its connections are open and before the first request. */
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
    // Written by peer-load-process.ts of the same build.
    return (await role.receive()) as PeerLoadReport
  } finally {
    await role.stop()
  }
}
