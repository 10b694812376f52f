/**
 * The process of the load generator. It uses raw sockets, prepared requests and one buffer for each write. For a
 * request, it allocates nothing and creates no promises, except those of Node itself. Against a bare server, a request
 * takes 10 us, most of it in the kernel. That is less than the server takes.
 */
import { connect, type Socket } from 'node:net'
import { type Answer, AnswerLayout, AnswerReader } from './answers.ts'
import {
  eventRequests,
  getRequest,
  postRequests,
  type RequestTemplate,
  stampUuids,
} from './ingest/bodies.ts'
import type { LoadOptions, LoadReport } from './load.ts'
import { cpuSeconds } from './proc.ts'
import { Samples } from './samples.ts'
import { startTicker } from './ticker.ts'

/** The longest time for which the process waits for outstanding answers after the window, in milliseconds. */
const STRAGGLERS_MS_MAX = 60_000
const RECONNECT_MS = 20
const READ_BYTES = 256 * 1024
/** In a closed loop, the pause of a connection after an answer other than 200, in milliseconds. */
const REFUSED_MS = 100
const NO_USAGE = { ownSeconds: 0, serverSeconds: 0 }

/** Runs in the helper process: receives options, waits for the message 'go', and returns one report. */
export function serveLoad(): void {
  let generator: Generator | null = null
  process.on('disconnect', () => process.exit(0))
  process.on('message', (message: unknown) => {
    if (message === 'go') {
      generator?.start((report) => process.send?.(report))
      return
    }
    // load.ts of the same build writes the message.
    generator = new Generator(message as LoadOptions)
    generator.connect(() => process.send?.('ready'))
  })
}

/** Sends and counts the requests of one run. */
export class Generator {
  readonly #options: LoadOptions
  readonly #connections: Connection[] = []
  readonly #templates: Templates
  /**
   * In an open loop, the idle connections. The connection that has been idle for longest comes first. Each connection
   * is in the list at most once.
   */
  readonly #idle = new Set<Connection>()
  readonly #latencies = new Samples()
  readonly #lateness = new Samples()
  readonly #statuses = new Map<number, number>()
  readonly #stream: number
  /** In an open loop, the intended times of requests that found no idle connection, oldest first. */
  readonly #waiting: number[] = []
  #waitingHead = 0
  #ordinal = 0
  #sent = 0
  #inFlight = 0
  #lost = 0
  #requests = 0
  #events = 0
  #eventsAcknowledged = 0
  #bytesAcknowledged = 0
  #startedAtMs = 0
  #windowStartMs = Number.POSITIVE_INFINITY
  #windowEndMs = Number.POSITIVE_INFINITY
  #isStarted = false
  #isStopped = false
  #usageAtStart: Usage = NO_USAGE
  #usageAtEnd: Usage = NO_USAGE
  #finish: (() => void) | null = null

  constructor(options: LoadOptions) {
    this.#options = options
    const request = options.request
    this.#stream = request.kind === 'events' ? request.stream : 0
    const url = new URL(options.url)
    this.#templates = new Templates(templatesOf(url.host, request, options.connections))
    const layout = new AnswerLayout()
    const buffer = Buffer.allocUnsafe(READ_BYTES)
    for (let index = 0; index < options.connections; index++) {
      this.#connections.push(new Connection(this, url, layout, buffer))
    }
  }

  connect(onReady: () => void): void {
    const { requestsPerSecond } = this.#options
    let missing = this.#connections.length + (requestsPerSecond === null ? 0 : 1)
    const opened = (): void => {
      missing--
      if (missing === 0) onReady()
    }
    for (const connection of this.#connections) connection.open(opened)
    if (requestsPerSecond === null) return
    // If the clock starts late, all requests that are due by then would be sent at once and distort the measurement.
    let isTicking = false
    startTicker(requestsPerSecond, () => {
      if (!isTicking) opened()
      isTicking = true
      if (this.#isStarted) this.#tick(requestsPerSecond)
    })
  }

  start(onReport: (report: LoadReport) => void): void {
    const { warmupSeconds, seconds } = this.#options
    this.#finish = () => {
      this.#finish = null
      onReport(this.#report())
    }
    this.#startedAtMs = performance.now()
    if (warmupSeconds === 0) this.#openWindow()
    else setTimeout(() => this.#openWindow(), warmupSeconds * 1000)
    setTimeout(() => this.#closeWindow(), (warmupSeconds + seconds) * 1000).unref()
    this.#isStarted = true
    for (const connection of this.#connections) this.#release(connection)
  }

  /** True if no more requests are started. */
  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Called by a connection for each answer. */
  answered(connection: Connection, answer: Answer): void {
    const nowMs = performance.now()
    this.#inFlight--
    this.#statuses.set(answer.status, (this.#statuses.get(answer.status) ?? 0) + 1)
    const isOk = answer.status === 200
    const template = connection.template
    this.#templates.release(template)
    const events = template.uuidOffsets.length
    if (isOk) {
      this.#eventsAcknowledged += events
      this.#bytesAcknowledged += template.bodyBytes
    }
    const isOpenLoop = this.#options.requestsPerSecond !== null
    const countedAtMs = isOpenLoop ? connection.intendedAtMs : nowMs
    if (countedAtMs >= this.#windowStartMs && countedAtMs < this.#windowEndMs && isOk) {
      this.#latencies.add(nowMs - connection.intendedAtMs)
      this.#requests++
      this.#events += events
    }
    if (answer.isClosing) connection.reopen()
    else if (isOk) this.#release(connection)
    else setTimeout(() => this.#release(connection), isOpenLoop ? 0 : REFUSED_MS)
    this.#finishIfDone()
  }

  /** Called by a connection that the server closed between two requests. */
  closed(connection: Connection): void {
    this.#idle.delete(connection)
  }

  /** Called by a connection that was aborted in the middle of a request. */
  lost({ template }: Connection): void {
    this.#templates.release(template)
    this.#inFlight--
    this.#lost++
    this.#finishIfDone()
  }

  /** Called by a connection that is open again. */
  reopened(connection: Connection): void {
    this.#release(connection)
  }

  /**
   * Gives a connection its next request. A connection that the server closed while it was idle is opened again, and
   * this method is called again when it is open. A connection must not get two requests at once, or a request before
   * the start.
   */
  #release(connection: Connection): void {
    if (!this.#isStarted || !connection.isFree) return
    if (this.#options.requestsPerSecond === null) this.#sendNext(connection)
    else if (this.#waitingHead < this.#waiting.length) {
      const intendedAtMs = this.#waiting[this.#waitingHead++] ?? 0
      this.#send(connection, intendedAtMs)
    } else this.#idle.add(connection)
  }

  #sendNext(connection: Connection): void {
    if (this.#isStopped) return
    const requestsMax = this.#options.requestsMax
    if (requestsMax !== null && this.#sent >= requestsMax) {
      this.#isStopped = true
      return
    }
    this.#sent++
    this.#send(connection, performance.now())
  }

  #send(connection: Connection, intendedAtMs: number): void {
    const template = this.#templates.take()
    stampUuids(template, this.#stream, this.#ordinal)
    this.#ordinal += template.uuidOffsets.length
    this.#inFlight++
    connection.send(template, intendedAtMs)
  }

  /** In an open loop, sends the requests that are due. */
  #tick(requestsPerSecond: number): void {
    if (this.#isStopped) return
    const nowMs = performance.now()
    const due = 1 + Math.floor(((nowMs - this.#startedAtMs) * requestsPerSecond) / 1000)
    const limit = Math.min(due, this.#options.requestsMax ?? due)
    while (this.#sent < limit) {
      const intendedAtMs = this.#startedAtMs + (this.#sent * 1000) / requestsPerSecond
      this.#sent++
      const [connection] = this.#idle
      if (connection === undefined) this.#waiting.push(intendedAtMs)
      else {
        this.#idle.delete(connection)
        if (intendedAtMs >= this.#windowStartMs)
          this.#lateness.add(performance.now() - intendedAtMs)
        this.#send(connection, intendedAtMs)
      }
    }
    if (this.#sent === this.#options.requestsMax) this.#isStopped = true
    this.#finishIfDone()
  }

  #openWindow(): void {
    this.#windowStartMs = performance.now()
    this.#usageAtStart = readUsage(this.#options.serverPid)
  }

  #closeWindow(): void {
    if (Number.isFinite(this.#windowEndMs)) return
    this.#windowEndMs = performance.now()
    this.#usageAtEnd = readUsage(this.#options.serverPid)
    this.#isStopped = true
    setTimeout(() => this.#finish?.(), STRAGGLERS_MS_MAX).unref()
    this.#finishIfDone()
  }

  #finishIfDone(): void {
    if (!this.#isStopped || this.#inFlight > 0 || this.#waitingHead < this.#waiting.length) return
    this.#closeWindow()
    this.#finish?.()
  }

  #report(): LoadReport {
    const seconds = (this.#windowEndMs - this.#windowStartMs) / 1000
    const [before, after] = [this.#usageAtStart, this.#usageAtEnd]
    const serverCpuSeconds = after.serverSeconds - before.serverSeconds
    return {
      requests: this.#requests,
      events: this.#events,
      seconds,
      requestsPerSecond: this.#requests / seconds,
      eventsPerSecond: this.#events / seconds,
      latencyMs: this.#latencies.percentiles(),
      latenessMs: this.#lateness.percentiles(),
      statuses: Object.fromEntries(this.#statuses),
      eventsAcknowledged: this.#eventsAcknowledged,
      bytesAcknowledged: this.#bytesAcknowledged,
      requestsLost: this.#lost + this.#inFlight + this.#waiting.length - this.#waitingHead,
      generatorCores: (after.ownSeconds - before.ownSeconds) / seconds,
      serverCpuSeconds: this.#options.serverPid === null ? null : serverCpuSeconds,
    }
  }
}

/**
 * The requests, which are sent in turn. No request is sent again before all others were sent, and none is in flight
 * twice.
 */
class Templates {
  readonly #queue: RequestTemplate[]
  #taken = 0
  #given: number

  constructor(templates: readonly RequestTemplate[]) {
    this.#queue = [...templates]
    this.#given = templates.length
  }

  take(): RequestTemplate {
    const template = this.#queue[this.#taken++ % this.#queue.length]
    if (template === undefined) throw new Error('there are no requests')
    return template
  }

  release(template: RequestTemplate): void {
    this.#queue[this.#given++ % this.#queue.length] = template
  }
}

/** Returns at least `count` requests, one for each connection. */
function templatesOf(
  host: string,
  request: LoadOptions['request'],
  count: number,
): RequestTemplate[] {
  switch (request.kind) {
    case 'events':
      return eventRequests(host, request, count)
    case 'post':
      return postRequests(host, request, count)
    case 'get':
      return Array.from({ length: count }, () => getRequest(host, request.path))
  }
}

/** A keep-alive connection. */
class Connection {
  readonly #generator: Generator
  readonly #url: URL
  readonly #layout: AnswerLayout
  readonly #buffer: Buffer
  #reader: AnswerReader
  #socket: Socket | null = null
  /** An answer that arrived before its request was completely written, because the server stopped reading. */
  #early: Answer | null = null
  #template: RequestTemplate | null = null
  #isOpen = false
  #isBusy = false
  intendedAtMs = 0

  constructor(generator: Generator, url: URL, layout: AnswerLayout, buffer: Buffer) {
    this.#generator = generator
    this.#url = url
    this.#layout = layout
    this.#reader = new AnswerReader(layout)
    this.#buffer = buffer
  }

  /** The last request that was sent. */
  get template(): RequestTemplate {
    if (this.#template === null) throw new Error('the connection has sent nothing')
    return this.#template
  }

  /** True if the connection is open and no request is in flight on it. */
  get isFree(): boolean {
    return this.#isOpen && !this.#isBusy
  }

  open(onOpen: () => void): void {
    this.#reader = new AnswerReader(this.#layout)
    // All sockets read into one buffer, because each chunk is processed before the next read.
    const socket = connect({
      host: this.#url.hostname,
      port: Number(this.#url.port),
      noDelay: true,
      onread: { buffer: this.#buffer, callback: (size) => this.#take(size) },
    })
    this.#socket = socket
    socket.once('connect', () => {
      this.#isOpen = true
      onOpen()
    })
    // The close event follows, and its listener handles the loss of the connection.
    socket.on('error', () => {})
    socket.on('close', () => this.#closed(socket))
  }

  /** Abandons the socket, which the server closes, and opens another socket. */
  reopen(): void {
    const socket = this.#socket
    this.#socket = null
    this.#isOpen = false
    socket?.destroy()
    this.open(() => this.#generator.reopened(this))
  }

  send(template: RequestTemplate, intendedAtMs: number): void {
    this.#template = template
    this.intendedAtMs = intendedAtMs
    this.#isBusy = true
    this.#socket?.write(template.bytes)
  }

  #take(size: number): boolean {
    const status = this.#layout.match(this.#buffer, size)
    const answer =
      status === 0 ? this.#reader.take(this.#buffer, size) : { status, isClosing: false }
    if (answer === null) return true
    const socket = this.#socket
    // The bytes of a request must not change while they are being written.
    if (socket !== null && socket.writableLength > 0 && !answer.isClosing) {
      this.#early = answer
      socket.once('drain', () => this.#done(answer))
    } else this.#done(answer)
    return true
  }

  #done(answer: Answer): void {
    this.#isBusy = false
    this.#early = null
    this.#generator.answered(this, answer)
  }

  #closed(socket: Socket): void {
    if (socket !== this.#socket) return
    this.#isOpen = false
    if (this.#early !== null) {
      this.#done({ ...this.#early, isClosing: true })
      return
    }
    const wasBusy = this.#isBusy
    this.#isBusy = false
    if (wasBusy) this.#generator.lost(this)
    else this.#generator.closed(this)
    if (this.#generator.isStopped) return
    setTimeout(() => this.open(() => this.#generator.reopened(this)), RECONNECT_MS)
  }
}

/** The CPU time at one end of the window, user and system. */
interface Usage {
  readonly ownSeconds: number
  readonly serverSeconds: number
}

function readUsage(serverPid: number | null): Usage {
  const { user, system } = process.cpuUsage()
  const serverSeconds = serverPid === null ? 0 : cpuSeconds(serverPid)
  return { ownSeconds: (user + system) / 1e6, serverSeconds }
}
