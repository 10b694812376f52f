/**
 * Tells clients that the flags of their project have changed. A message contains only the new version of the flags. The
 * client then requests its flags. In a cluster, each machine informs its own listeners after a short delay. The
 * client's next request may go to another machine, and by then that machine has the new flags as well.
 *
 * Only the latest version matters, so there is no queue. If a client does not read for a moment, it is sent the latest
 * version when it reads again. If it does not read for too long, its connection is closed.
 */
import { createHash } from 'node:crypto'
import { networkOf } from '../../base/addresses.ts'
import type { Clock } from '../../base/clock.ts'
import type { ServiceError } from '../../base/errors.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { Counter, Gauge } from '../../base/metrics.ts'
import { refusal } from '../../base/refusals.ts'
import type { FlagSnapshot, FlagSnapshots } from './flag-snapshots.ts'
import {
  FLAG_LISTENER_STALL_MS_MAX,
  FLAG_LISTENERS_OF_ADDRESS_MAX,
  FLAG_LISTENERS_OF_PROJECT_MAX,
  FLAG_LISTENERS_TOLD_AT_ONCE_MAX,
} from './limits.ts'

/** The interval, in milliseconds, at which listeners are checked: whether they read, and whether they need a ping. */
const LOOK_MS = 1000
/**
 * If nothing was sent to a listener for this time, in milliseconds, it gets a ping. Pings keep quiet connections open
 * in proxies, and reveal dead connections.
 */
const PING_MS = 25_000
/**
 * One check sends a ping to at most 1 / `LOOKS_PER_PING` of the listeners, for example to 50 of 1000. Pings are thus
 * spread over several checks.
 */
const LOOKS_PER_PING = 20
/**
 * A listener that opens its stream within this time after a change, in milliseconds, is told about the change, because
 * it may have requested its flags before the change.
 */
const RECENT_MS = 10_000
/**
 * Clients are asked to wait for a random time between `RETRY_MS` and `RETRY_MS + RETRY_SPREAD_MS` before they connect
 * again, so that they do not all connect at once.
 */
const RETRY_MS = 1000
const RETRY_SPREAD_MS = 5000
const RETRY_STEP_MS = 37
const VERSION_CHARACTERS = 16

const PING = Buffer.from(': ping\n\n')

/** The format of the messages: `ofrep` is the format of the OpenFeature protocol, `plain` is Tenrec's own. */
export type FlagMessageForm = 'ofrep' | 'plain'

/** The connection of a listener. */
export interface FlagListenerConnection {
  /**
   * Copies the bytes and sends them. Returns false if too many bytes are waiting for the client to read them. In that
   * case, `FlagListener.drained` is called as soon as the client has read all bytes.
   */
  send(bytes: Uint8Array): boolean
  /** Ends the stream after everything was sent. */
  end(): void
  /** Closes the connection at once. */
  cut(): void
}

/** A client that wants to be informed about changes of flags. */
export interface FlagListenerRequest {
  readonly projectId: number
  /** The IP address of the client. */
  readonly address: string
  readonly form: FlagMessageForm
  /**
   * The value of the header `Last-Event-ID`: the last version that was sent to the client. '' if the client connects
   * for the first time.
   */
  readonly lastVersion: string
  /** Called before anything is sent. If it returns false, the stream is ended. */
  readonly isAllowed: () => boolean
}

/** The metrics of listeners. */
export interface FlagListenerMetrics {
  readonly flagListeners: Gauge
  readonly flagListenersTold: Counter
  readonly flagListenersCut: Counter
}

/** The dependencies of listeners. */
export interface FlagListenersOptions {
  readonly snapshots: Pick<FlagSnapshots, 'of'>
  readonly clock: Pick<Clock, 'monotonic'>
  readonly metrics: FlagListenerMetrics
  /** The largest number of listeners. 0 switches the streams off. */
  readonly listenersMax: number
  /** The time between a change and the messages about it, in milliseconds. */
  readonly delayMs: number
}

/** The listeners of one project. */
interface Audience {
  readonly listeners: Set<FlagListener>
  version: string
  readonly messages: Record<FlagMessageForm, Uint8Array>
  /** The listeners that must still be told about the last change. Null if all of them were told. */
  rest: Iterator<FlagListener> | null
}

/** All listeners of a daemon, in the main thread. */
export class FlagListeners {
  readonly #options: FlagListenersOptions
  readonly #audiences = new Map<number, Audience>()
  /** The number of listeners by the network of their IP address. */
  readonly #networks = new Map<string, number>()
  /** The time of the last change since the start of this process, in monotonic milliseconds. The key is the project. */
  readonly #changedAtMs = new Map<number, number>()
  #count = 0
  #opened = 0
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: FlagListenersOptions) {
    this.#options = options
  }

  /** True if the streams are switched on. */
  get isOn(): boolean {
    return this.#options.listenersMax > 0
  }

  /** Returns the error with which a further listener must be refused, or null if it may listen. */
  refusalFor({
    projectId,
    address,
  }: Pick<FlagListenerRequest, 'projectId' | 'address'>): ServiceError | null {
    const { listenersMax } = this.#options
    const ofProject = this.#audiences.get(projectId)?.listeners.size ?? 0
    const ofNetwork = this.#networks.get(networkOf(address)) ?? 0
    if (ofNetwork >= FLAG_LISTENERS_OF_ADDRESS_MAX) {
      return refusal('address_listeners', { limit: FLAG_LISTENERS_OF_ADDRESS_MAX })
    }
    if (ofProject >= FLAG_LISTENERS_OF_PROJECT_MAX) {
      return refusal('project_listeners', { limit: FLAG_LISTENERS_OF_PROJECT_MAX })
    }
    if (this.#count >= listenersMax) return refusal('listeners_full', { limit: listenersMax })
    return null
  }

  /** Opens the stream of a listener and sends its first bytes. Call it only if `refusalFor` has returned null. */
  open(request: FlagListenerRequest, connection: FlagListenerConnection): FlagListener {
    const { projectId, form, lastVersion } = request
    const audience = getOrAdd(this.#audiences, projectId, () => this.#audienceOf(projectId))
    const nowMs = this.#options.clock.monotonic()
    const network = networkOf(request.address)
    const listener = new FlagListener({
      request,
      connection,
      network,
      version: audience.version,
      nowMs,
      resume: () => this.#tell(audience, listener),
      remove: () => this.#remove(audience, listener),
    })
    audience.listeners.add(listener)
    this.#networks.set(network, (this.#networks.get(network) ?? 0) + 1)
    this.#count++
    this.#options.metrics.flagListeners.value = this.#count
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS)
    const hasMissed =
      lastVersion === ''
        ? form === 'plain' || nowMs - (this.#changedAtMs.get(projectId) ?? -Infinity) < RECENT_MS
        : lastVersion !== audience.version
    const retryMs = RETRY_MS + ((this.#opened++ * RETRY_STEP_MS) % RETRY_SPREAD_MS)
    const opening = Buffer.from(`retry: ${retryMs}\n: open\n\n`)
    listener.send(hasMissed ? Buffer.concat([opening, audience.messages[form]]) : opening, nowMs)
    if (this.#isClosed) listener.end()
    return listener
  }

  /**
   * Informs all listeners of a project that its flags have changed. Without listeners, this costs one entry in a map.
   */
  changed(projectId: number): void {
    this.#changedAtMs.set(projectId, this.#options.clock.monotonic())
    const audience = this.#audiences.get(projectId)
    if (audience === undefined) return
    const version = versionOf(this.#options.snapshots.of(projectId))
    if (version === audience.version) return
    audience.version = version
    audience.messages.ofrep = messageOf('ofrep', version)
    audience.messages.plain = messageOf('plain', version)
    const isTelling = audience.rest !== null
    audience.rest = audience.listeners.values()
    if (isTelling) return
    const { delayMs } = this.#options
    const tell = (): void => this.#tellSome(audience)
    // The messages are sent only after the request that made the change was answered.
    if (delayMs === 0) setImmediate(tell)
    else setTimeout(tell, delayMs).unref()
  }

  /** Ends all streams, and also any stream that is opened later. */
  close(): void {
    this.#isClosed = true
    for (const { listeners } of this.#audiences.values()) {
      for (const listener of listeners) listener.end()
    }
  }

  #audienceOf(projectId: number): Audience {
    const version = versionOf(this.#options.snapshots.of(projectId))
    const messages = { ofrep: messageOf('ofrep', version), plain: messageOf('plain', version) }
    return { listeners: new Set(), version, messages, rest: null }
  }

  /** Informs some listeners about a change. Other requests have their turn before the next listeners are informed. */
  #tellSome(audience: Audience): void {
    for (let told = 0; told < FLAG_LISTENERS_TOLD_AT_ONCE_MAX; told++) {
      const next = audience.rest?.next()
      if (next === undefined || next.done === true) {
        audience.rest = null
        return
      }
      this.#tell(audience, next.value)
    }
    setImmediate(() => this.#tellSome(audience))
  }

  #tell(audience: Audience, listener: FlagListener): void {
    if (listener.version === audience.version || listener.isFull) return
    listener.version = audience.version
    const isSent = listener.send(audience.messages[listener.form], this.#options.clock.monotonic())
    if (isSent) this.#options.metrics.flagListenersTold.value++
  }

  #look(): void {
    const nowMs = this.#options.clock.monotonic()
    let pings = Math.ceil(this.#count / LOOKS_PER_PING)
    for (const { listeners } of this.#audiences.values()) {
      for (const listener of listeners) {
        const waitedMs = nowMs - listener.sentAtMs
        if (listener.isFull) {
          if (waitedMs < FLAG_LISTENER_STALL_MS_MAX) continue
          this.#options.metrics.flagListenersCut.value++
          listener.cut()
        } else if (waitedMs >= PING_MS && pings > 0) {
          pings--
          listener.send(PING, nowMs)
        }
      }
    }
  }

  #remove(audience: Audience, listener: FlagListener): void {
    if (!audience.listeners.delete(listener)) return
    const { projectId, network } = listener
    if (audience.listeners.size === 0) this.#audiences.delete(projectId)
    const left = (this.#networks.get(network) ?? 1) - 1
    if (left === 0) this.#networks.delete(network)
    else this.#networks.set(network, left)
    this.#count--
    this.#options.metrics.flagListeners.value = this.#count
    if (this.#count > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

interface FlagListenerParts {
  readonly request: FlagListenerRequest
  readonly connection: FlagListenerConnection
  readonly network: string
  readonly version: string
  readonly nowMs: number
  /** Sends the latest version to the listener, unless the listener already has it. */
  readonly resume: () => void
  readonly remove: () => void
}

/** A client that is informed about changes of flags. */
export class FlagListener {
  readonly projectId: number
  readonly form: FlagMessageForm
  readonly network: string
  /** The version that was last sent to the client. The message may still be on its way. */
  version: string
  /** True if the client has not read what was sent. Nothing more is sent until it has read everything. */
  isFull = false
  /** The time at which something was last sent, in monotonic milliseconds. */
  sentAtMs: number
  readonly #connection: FlagListenerConnection
  readonly #isAllowed: () => boolean
  readonly #resume: () => void
  readonly #remove: () => void

  constructor({ request, connection, network, version, nowMs, resume, remove }: FlagListenerParts) {
    this.projectId = request.projectId
    this.form = request.form
    this.network = network
    this.version = version
    this.sentAtMs = nowMs
    this.#isAllowed = request.isAllowed
    this.#connection = connection
    this.#resume = resume
    this.#remove = remove
  }

  /**
   * Sends bytes and returns true. If the client is no longer allowed to listen, this ends the stream and returns false.
   */
  send(bytes: Uint8Array, nowMs: number): boolean {
    if (!this.#isAllowed()) {
      this.end()
      return false
    }
    this.sentAtMs = nowMs
    this.isFull = !this.#connection.send(bytes)
    return true
  }

  /** Tells the listener that the client has read everything that was sent. */
  drained(): void {
    this.isFull = false
    this.#resume()
  }

  /** Tells the listener that the client has closed the connection. */
  left(): void {
    this.#remove()
  }

  /** Ends the stream as HTTP requires. The client then connects again. */
  end(): void {
    this.#remove()
    this.#connection.end()
  }

  /** Closes the connection of a client that does not read. */
  cut(): void {
    this.#remove()
    this.#connection.cut()
  }
}

const versions = new WeakMap<FlagSnapshot, string>()

/**
 * Returns the version of a snapshot, which is a hash of its content. Equal flags have equal versions, even after a
 * restart and on other machines. The hash is computed once for each snapshot. The time is linear in the number of flags
 * and cohorts.
 */
function versionOf(snapshot: FlagSnapshot | null): string {
  if (snapshot === null) return ''
  const known = versions.get(snapshot)
  if (known !== undefined) return known
  const { flags, cohorts, groupTypes, timezone } = snapshot.set
  const hash = createHash('sha256').update(timezone)
  // Every change of a flag raises its version number, so the filters of flags need not be hashed.
  for (const { id, version, updatedAtMs } of flags) hash.update(`,${id}:${version}:${updatedAtMs}`)
  const byId = [...cohorts].sort(([one], [other]) => one - other)
  for (const [id, { isStatic, filters }] of byId)
    hash.update(JSON.stringify([id, isStatic, filters]))
  hash.update(JSON.stringify([...groupTypes].sort(([one], [other]) => one - other)))
  const version = hash.digest('hex').slice(0, VERSION_CHARACTERS)
  versions.set(snapshot, version)
  return version
}

/**
 * Returns the message about a change. In the format of OpenFeature, the data contains the type of the message, and the
 * name of the event is always `message`. Source: open-feature/protocol, service/openapi.yaml, `sseEvent`.
 */
function messageOf(form: FlagMessageForm, version: string): Uint8Array {
  const data =
    form === 'ofrep'
      ? JSON.stringify({ type: 'refetchEvaluation', etag: `"${version}"` })
      : JSON.stringify({ version })
  const event = form === 'ofrep' ? 'message' : 'flags'
  return Buffer.from(`id: ${version}\nevent: ${event}\ndata: ${data}\n\n`)
}
