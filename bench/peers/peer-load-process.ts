/** The helper process of `peer-load.ts`. It uses raw sockets and prepared requests. */
import { connect, type Socket } from 'node:net'
import { writeUuid } from '../ingest/bodies.ts'
import { EventGenerator } from '../ingest/events.ts'
import { Samples } from '../samples.ts'
import type { PeerLoadOptions, PeerLoadReport } from './peer-load.ts'
import {
  greeting,
  type PeerReader,
  type PeerRequest,
  peerReader,
  peerRequest,
  stampTime,
} from './peer-protocols.ts'

/** The longest time for which the process waits for outstanding answers after the window, in milliseconds. */
const STRAGGLERS_MS_MAX = 20_000
/** The pause of a connection after a refusal, and before it is opened again, in milliseconds. */
const REFUSED_MS = 100
/** The greeting of a server arrives within this time, in milliseconds. */
const GREETING_MS = 200

/** Runs in the helper process: receives options, waits for the message 'go', and returns one report. */
export function servePeerLoad(): void {
  let run: PeerRun | null = null
  process.on('disconnect', () => process.exit(0))
  process.on('message', (message: unknown) => {
    if (message === 'go') run?.start((report) => process.send?.(report))
    else {
      // peer-load.ts of the same build writes the message.
      run = new PeerRun(message as PeerLoadOptions)
      run.open(() => process.send?.('ready'))
    }
  })
}

class PeerRun {
  readonly #options: PeerLoadOptions
  readonly #connections: PeerConnection[] = []
  readonly #latencies = new Samples()
  #ordinal = 0
  #inFlight = 0
  #requests = 0
  #events = 0
  #acknowledged = 0
  #refused = 0
  #lost = 0
  #refusal = ''
  #windowStartMs = Number.POSITIVE_INFINITY
  #windowMs = 0
  #isStopped = false
  #cpuAtStart = 0
  #cores = 0
  #finish: (() => void) | null = null

  constructor(options: PeerLoadOptions) {
    this.#options = options
    const { connections, eventsPerRequest, distinctEvents, seed } = options
    const generator = new EventGenerator({ seed })
    const each = Math.max(1, Math.round(distinctEvents / eventsPerRequest / connections))
    for (let connection = 0; connection < connections; connection++) {
      const requests = Array.from({ length: each }, () =>
        peerRequest(generator, { ...options, connection }),
      )
      this.#connections.push(new PeerConnection(this, options, connection, requests))
    }
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  open(onReady: () => void): void {
    let missing = this.#connections.length
    for (const connection of this.#connections) {
      connection.open(() => {
        if (--missing === 0) setTimeout(onReady, GREETING_MS)
      })
    }
  }

  start(onReport: (report: PeerLoadReport) => void): void {
    const { warmupSeconds, seconds } = this.#options
    this.#finish = () => {
      this.#finish = null
      onReport(this.#report())
    }
    setTimeout(() => this.#openWindow(), warmupSeconds * 1000)
    setTimeout(() => this.#closeWindow(), (warmupSeconds + seconds) * 1000)
    for (const connection of this.#connections) this.next(connection)
  }

  /** Sends the next request of a connection, unless the run is over. */
  next(connection: PeerConnection): void {
    if (this.#isStopped) return
    const { stream } = this.#options
    const { bytes, uuidOffsets, timeOffsets, events } = connection.nextRequest()
    for (let index = 0; index < events; index++) {
      const ordinal = this.#ordinal++
      writeUuid(bytes, uuidOffsets[index] ?? 0, stream, ordinal)
      const timeOffset = timeOffsets[index]
      if (timeOffset !== undefined) stampTime(bytes, timeOffset, stream, ordinal)
    }
    this.#inFlight++
    connection.send()
  }

  /** Called by a connection for each answer. */
  answered(connection: PeerConnection, events: number, refusal: string): void {
    const nowMs = performance.now()
    this.#inFlight--
    if (refusal === '') {
      this.#acknowledged += events
      if (!this.#isStopped && nowMs >= this.#windowStartMs) {
        this.#latencies.add(nowMs - connection.sentAtMs)
        this.#requests++
        this.#events += events
      }
      this.next(connection)
    } else {
      this.#refused++
      this.#refusal ||= refusal
      setTimeout(() => this.next(connection), REFUSED_MS)
    }
    this.#finishIfDone()
  }

  /** Called by a connection that was aborted in the middle of a request. */
  lost(): void {
    this.#inFlight--
    this.#lost++
    this.#finishIfDone()
  }

  #openWindow(): void {
    this.#windowStartMs = performance.now()
    this.#cpuAtStart = ownCpuSeconds()
  }

  #closeWindow(): void {
    this.#windowMs = performance.now() - this.#windowStartMs
    this.#cores = ((ownCpuSeconds() - this.#cpuAtStart) * 1000) / this.#windowMs
    this.#isStopped = true
    setTimeout(() => this.#finish?.(), STRAGGLERS_MS_MAX)
    this.#finishIfDone()
  }

  #finishIfDone(): void {
    if (this.#isStopped && this.#inFlight === 0) this.#finish?.()
  }

  #report(): PeerLoadReport {
    const { p50, p99 } = this.#latencies.percentiles()
    return {
      requestsPerSecond: (this.#requests * 1000) / this.#windowMs,
      eventsPerSecond: (this.#events * 1000) / this.#windowMs,
      p50Ms: p50,
      p99Ms: p99,
      eventsAcknowledged: this.#acknowledged,
      requestsRefused: this.#refused,
      requestsLost: this.#lost + this.#inFlight,
      refusal: this.#refusal,
      generatorCores: this.#cores,
    }
  }
}

class PeerConnection {
  readonly #run: PeerRun
  readonly #options: PeerLoadOptions
  readonly #index: number
  readonly #requests: readonly PeerRequest[]
  #reader: PeerReader
  #socket: Socket | null = null
  #request: PeerRequest
  #turn = 0
  #isBusy = false
  sentAtMs = 0

  constructor(
    run: PeerRun,
    options: PeerLoadOptions,
    index: number,
    requests: readonly PeerRequest[],
  ) {
    const first = requests[0]
    if (first === undefined) throw new Error('a connection has no requests')
    this.#run = run
    this.#options = options
    this.#index = index
    this.#requests = requests
    this.#request = first
    this.#reader = this.#newReader()
  }

  open(onOpen: () => void): void {
    this.#reader = this.#newReader()
    const socket = connect({ host: '127.0.0.1', port: this.#options.port, noDelay: true })
    this.#socket = socket
    socket.once('connect', () => {
      const hello = greeting(this.#options.protocol, this.#index)
      if (hello !== '') socket.write(hello)
      onOpen()
    })
    // The close event follows, and its listener handles the loss of the connection.
    socket.on('error', () => {})
    socket.on('data', (chunk) => this.#take(chunk))
    socket.on('close', () => this.#closed())
  }

  nextRequest(): PeerRequest {
    this.#request = this.#requests[this.#turn++ % this.#requests.length] ?? this.#request
    return this.#request
  }

  send(): void {
    this.#reader.begin(this.#request.events)
    this.#isBusy = true
    this.sentAtMs = performance.now()
    this.#socket?.write(this.#request.bytes)
  }

  #newReader(): PeerReader {
    return peerReader(this.#options.protocol, (text) => void this.#socket?.write(text))
  }

  #take(chunk: Buffer): void {
    const outcome = this.#reader.take(chunk)
    if (outcome === null || !this.#isBusy) return
    this.#isBusy = false
    this.#run.answered(this, this.#request.events, outcome)
  }

  #closed(): void {
    if (this.#isBusy) this.#run.lost()
    this.#isBusy = false
    if (!this.#run.isStopped) {
      setTimeout(() => this.open(() => this.#run.next(this)), REFUSED_MS)
    }
  }
}

function ownCpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
