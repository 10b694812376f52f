/**
 * Shared streams on NATS JetStream. Only this file knows the client. A stream has three replicas, or one if there are
 * fewer than three brokers. The connection is made in the background and retried, so that nothing waits for a broker to
 * start.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ConsumerMessages,
  DeliverPolicy,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  StorageType,
  type StreamInfo,
} from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import type { Logger } from '../base/log.ts'
import { getOrAdd } from '../base/maps.ts'
import { SALT_DAYS_MS, STREAM_AGE_MS_MAX } from './limits.ts'
import {
  type Announcements,
  type MessagePlace,
  type Messages,
  type NodeReport,
  OvertakenError,
  type SharedStream,
  type StreamListener,
  type StreamState,
} from './shared-stream.ts'

/** Returns the options of the event stream of a partition. */
export function eventStream(partition: number): StreamOptions {
  return {
    name: `TENREC_EVENTS_${partition}`,
    subject: `tenrec.events.${partition}`,
    what: `events of partition ${partition}`,
    ageMsMax: STREAM_AGE_MS_MAX,
  }
}

/** The options of the stream of the catalogue. */
export const CONTROL_STREAM: StreamOptions = {
  name: 'TENREC_CONTROL',
  subject: 'tenrec.control',
  what: 'changes of the catalogue',
  ageMsMax: 0,
}
/** The options of the stream of daily salts. A salt is kept as long as events that need it can be processed again. */
export const SALT_STREAM: StreamOptions = {
  name: 'TENREC_SALTS',
  subject: 'tenrec.salts',
  what: 'secrets of days',
  ageMsMax: STREAM_AGE_MS_MAX + SALT_DAYS_MS,
}
const REPORTS = 'tenrec.reports'
const COPIES = 3
const AGAIN_MS = 250
/** The interval of checks whether the stream is still the same. */
const LOOK_MS = 1000
/**
 * A stream is created after it was missing for this long, plus a random time of up to the same length; see README.md.
 */
const MISSING_MS = 1000
/** The number of times that brokers are made to store the list of streams. They do so every two seconds at most. */
const NOTED_TIMES = 3
/** The longest time for closing a connection. */
const CLOSE_MS = 1000
/** If no message was taken for this long although the stream has more, following starts again. */
const STALLED_MS = 3000
const DUPLICATE_WINDOW_MS = 120_000
/**
 * The number of messages that are requested at a time. With a limit in bytes, servers of version 2.9 sometimes stop
 * sending.
 */
const PULL_MESSAGES = 200
const NANOSECONDS = 1e6

interface Link {
  readonly connection: NatsConnection
  readonly streams: JetStreamClient
  readonly manager: JetStreamManager
}

/** A stream that the brokers store, and that is created if it does not exist. */
export interface StreamOptions {
  readonly name: string
  readonly subject: string
  /** The name of its content in the log. */
  readonly what: string
  /** The time for which messages are kept, in milliseconds. 0: until they are cut off. */
  readonly ageMsMax: number
}

/** The brokers at a list of addresses such as `nats://host:port`. */
export class NatsBrokers implements Announcements, Messages {
  readonly #servers: readonly string[]
  readonly #log: Logger
  readonly #streams = new Map<string, NatsStream>()
  readonly #reportListeners: ((report: NodeReport) => void)[] = []
  readonly #listeners = new Set<Listener>()
  #link: Link | null = null
  /** False without a connection. The client would otherwise buffer messages in memory until one is made. */
  #isConnected = false
  #isClosed = false

  constructor(servers: readonly string[], log: Logger) {
    this.#servers = servers
    this.#log = log
    this.listen(REPORTS, (data) => {
      // Written by `announce`.
      const report = JSON.parse(String(data)) as NodeReport
      for (const hear of this.#reportListeners) hear(report)
    })
    void this.#connect()
  }

  /** Returns a stream; all callers share it. It exists until `close`. */
  stream(options: StreamOptions): SharedStream {
    return getOrAdd(this.#streams, options.name, () => {
      const stream = this.#open(options)
      if (this.#link !== null) void stream.look()
      return stream
    })
  }

  /**
   * Returns the state of a stream, or null if it does not exist. It is not created. Rejects without a majority of
   * brokers.
   */
  async look(options: StreamOptions): Promise<StreamState | null> {
    return await this.#open(options).known()
  }

  #open(options: StreamOptions): NatsStream {
    const copies = this.#servers.length < COPIES ? 1 : COPIES
    return new NatsStream(options, copies, () => this.#link, this.#log)
  }

  /** The version of the connected server, or null. */
  get serverVersion(): string | null {
    return this.#link?.connection.info?.version ?? null
  }

  /** The largest message in bytes. Null: no broker is connected. */
  get messageBytesMax(): number | null {
    return this.#link?.connection.info?.max_payload ?? null
  }

  announce(report: NodeReport): void {
    this.#link?.connection.publish(REPORTS, JSON.stringify(report))
  }

  onReport(listener: (report: NodeReport) => void): void {
    this.#reportListeners.push(listener)
  }

  send(subject: string, data: Uint8Array, answerTo?: string): boolean {
    if (!this.#isConnected || this.#link === null) return false
    const options = answerTo === undefined ? {} : { reply: answerTo }
    this.#link.connection.publish(subject, data, options)
    return true
  }

  listen(subject: string, on: Listener['on'], group?: string): () => void {
    const listener: Listener = { subject, on, group, end: () => {} }
    this.#listeners.add(listener)
    if (this.#link !== null) subscribe(this.#link.connection, listener)
    return () => {
      this.#listeners.delete(listener)
      listener.end()
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#isConnected = false
    for (const stream of this.#streams.values()) await stream.close()
    // The client may wait for a broker that is gone.
    await Promise.race([this.#link?.connection.close(), sleep(CLOSE_MS)])
    this.#link = null
  }

  async #connect(): Promise<void> {
    while (!this.#isClosed) {
      try {
        const connection = await connect({
          servers: [...this.#servers],
          maxReconnectAttempts: -1,
          reconnectTimeWait: AGAIN_MS,
          ignoreClusterUpdates: false,
          pingInterval: 2000,
          maxPingOut: 2,
        })
        if (this.#isClosed) return await connection.close()
        // The manager's check may find no majority, so it is skipped.
        const manager = await jetstreamManager(connection, { checkAPI: false })
        for (const listener of this.#listeners) subscribe(connection, listener)
        void this.#watch(connection)
        this.#link = { connection, manager, streams: jetstream(connection) }
        this.#log.info({ server: connection.getServer() }, 'Connected to a broker.')
        for (const stream of this.#streams.values()) void stream.look()
        return
      } catch {
        await sleep(AGAIN_MS)
      }
    }
  }

  async #watch(connection: NatsConnection): Promise<void> {
    this.#isConnected = true
    for await (const { type } of connection.status()) {
      if (type === 'reconnect') this.#isConnected = !this.#isClosed
      if (type === 'disconnect' || type === 'close') this.#isConnected = false
    }
  }
}

interface Listener {
  readonly subject: string
  readonly on: (data: Buffer | null, place: MessagePlace) => void
  readonly group: string | undefined
  end: () => void
}

/** The status of a broker's answer if nobody listens to a subject. */
const NO_RESPONDERS = 503

function subscribe(connection: NatsConnection, listener: Listener): void {
  const { subject, group, on } = listener
  const subscription = connection.subscribe(subject, {
    ...(group === undefined ? {} : { queue: group }),
    callback: (error, { subject, reply = '', data, headers }) => {
      if (error !== null) return
      const isNobody = data.length === 0 && headers?.code === NO_RESPONDERS
      const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
      on(isNobody ? null : bytes, { subject, answerTo: reply })
    },
  })
  listener.end = () => {
    if (!connection.isClosed()) subscription.unsubscribe()
  }
}

class NatsStream implements SharedStream {
  readonly #options: StreamOptions
  readonly #copies: number
  readonly #linkOf: () => Link | null
  readonly #log: Logger
  #isClosed = false
  /** Counts the times that following was started. Messages of an earlier one are ignored. */
  #generation = 0
  incarnation = ''
  seen = 0
  #listener: StreamListener | null = null
  #messages: ConsumerMessages | null = null
  #following: Promise<void> = Promise.resolve()
  /** Ends the current following. */
  #breakOff: (() => void) | null = null
  /** The last message that was taken, and the time of it. While a message is being taken, nothing counts as late. */
  #taken = { sequence: 0, atMs: 0, isBusy: false }
  readonly #incarnationListeners: (() => void)[] = []
  /**
   * The time at which the stream will be created unless it exists before. Null: it was not missing at the last check.
   */
  #makingMs: number | null = null
  #unnoted = 0
  /** True if the stream ended before the last taken message at the last check. */
  #isCut = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: StreamOptions, copies: number, linkOf: () => Link | null, log: Logger) {
    this.#options = options
    this.#copies = copies
    this.#linkOf = linkOf
    this.#log = log
  }

  async publish(
    data: Uint8Array,
    id: string,
    timeoutMs: number,
    expected?: number,
  ): Promise<number> {
    const link = this.#linkOf()
    if (link === null || this.incarnation === '') throw new Error('no broker is connected')
    const expect = expected === undefined ? {} : { expect: { lastSequence: expected } }
    const options = { msgID: id, timeout: timeoutMs, ...expect }
    try {
      return (await link.streams.publish(this.#options.subject, data, options)).seq
    } catch (cause) {
      if (!/wrong last sequence/i.test(String(cause))) throw cause
      throw new OvertakenError('another message was first', { cause })
    }
  }

  follow(listener: StreamListener): void {
    this.#listener = listener
    this.#following = this.#followOn(listener)
  }

  onIncarnation(listener: () => void): void {
    this.#incarnationListeners.push(listener)
  }

  async state(): Promise<StreamState> {
    return this.#stateOf(await this.#info())
  }

  /** Like `state`, but returns null if the stream does not exist. It is not created. */
  async known(): Promise<StreamState | null> {
    const info = await this.#linkOf()?.manager.streams.info(this.#options.name)
    return info === undefined ? null : this.#stateOf(info)
  }

  #stateOf({ created, state, cluster }: StreamInfo): StreamState {
    const { leader, replicas = [] } = cluster ?? {}
    const others = replicas.map(({ name, current, offline }) => ({
      name,
      isCurrent: current && offline !== true,
    }))
    return {
      incarnation: created,
      first: state.first_seq,
      last: state.last_seq,
      bytes: state.bytes,
      oldestMs: state.messages === 0 ? null : Date.parse(state.first_ts),
      brokers: leader === undefined ? others : [{ name: leader, isCurrent: true }, ...others],
    }
  }

  async cut(before: number): Promise<void> {
    await this.#linkOf()?.manager.streams.purge(this.#options.name, { seq: before })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#breakOff?.()
    await this.#following
  }

  /** Determines the current incarnation, and creates the stream if it does not exist. Repeats itself. */
  async look(): Promise<void> {
    let delayMs = LOOK_MS
    try {
      const { sequence: before } = this.#taken
      const { created, state } = await this.#info()
      this.seen = state.last_seq
      // This must be seen twice, because a former leader may report it too. The client would wait for messages after
      // its position.
      const isCutAgain = this.#isCut && before > state.last_seq
      this.#isCut = before > state.last_seq
      const { sequence, atMs, isBusy } = this.#taken
      const isStalled =
        sequence < state.last_seq && !isBusy && performance.now() - atMs > STALLED_MS
      if (created !== this.incarnation || isStalled || isCutAgain) this.#breakOff?.()
      if (created !== this.incarnation) {
        this.incarnation = created
        this.#unnoted = NOTED_TIMES
        for (const listener of this.#incarnationListeners) listener()
      }
      if (this.#unnoted > 0) await this.#note()
    } catch {
      delayMs = AGAIN_MS
    }
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.look(), delayMs)
  }

  async #info(): Promise<StreamInfo> {
    const link = this.#linkOf()
    if (link === null) throw new Error('no broker is connected')
    const { name, subject, what, ageMsMax } = this.#options
    try {
      const info = await link.manager.streams.info(name)
      this.#makingMs = null
      return info
    } catch (cause) {
      if (!/not found/i.test(String(cause))) this.#makingMs = null
      else this.#makingMs ??= performance.now() + MISSING_MS * (1 + Math.random())
      if (this.#makingMs === null || performance.now() < this.#makingMs) throw cause
      this.#makingMs = null
      const making = link.manager.streams.add({
        name,
        subjects: [subject],
        num_replicas: this.#copies,
        storage: StorageType.File,
        max_age: ageMsMax * NANOSECONDS,
        duplicate_window: DUPLICATE_WINDOW_MS * NANOSECONDS,
      })
      this.#log.warn(
        `The stream of ${what} does not exist: ${await making.then(() => 'it was created.', String)}`,
      )
      // If two machines create it at the same moment, this one may be told of another stream. So the actual state is
      // read again.
      throw cause
    }
  }

  /**
   * Creates and removes a stream, so that all brokers store the list of streams. Brokers that are killed earlier may
   * lose new streams.
   */
  async #note(): Promise<void> {
    const streams = this.#linkOf()?.manager.streams
    const name = `${this.#options.name}_MADE`
    await streams?.add({ name, subjects: [name], storage: StorageType.Memory })
    await streams?.delete(name)
    this.#unnoted--
  }

  async #followOn(listener: StreamListener): Promise<void> {
    while (!this.#isClosed && this.#listener === listener) {
      const isOver = new Promise<void>((resolve) => {
        this.#breakOff = resolve
      })
      this.#taken = { ...this.#taken, atMs: performance.now(), isBusy: false }
      const following = this.#followOnce(listener)
      try {
        // The client may wait forever for the answer of a broker that is gone.
        await Promise.race([following, isOver])
      } catch (cause) {
        this.#log.debug({ err: cause }, 'Subscribing to the stream again.')
      }
      following.catch(() => undefined)
      this.#generation++
      this.#messages?.stop()
      this.#messages = null
      await sleep(AGAIN_MS)
    }
  }

  async #followOnce(listener: StreamListener): Promise<void> {
    const link = this.#linkOf()
    const incarnation = this.incarnation
    const generation = this.#generation
    if (link === null || incarnation === '') return
    const { state } = await this.#info()
    const position = listener.position()
    // If the position is after the end, the stream has lost its newest messages. It is read from the start; known
    // blocks are recognised by their places.
    const isKnown = position.incarnation === incarnation && position.sequence <= state.last_seq
    const after = isKnown ? position.sequence : 0
    this.#taken = { ...this.#taken, sequence: after }
    const consumer = await link.streams.consumers.get(this.#options.name, {
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: after + 1,
    })
    const messages = await consumer.consume({
      max_messages: PULL_MESSAGES,
      abort_on_missing_resource: true,
    })
    if (generation !== this.#generation) return messages.stop()
    this.#messages = messages
    for await (const { seq: sequence, data } of messages) {
      if (generation !== this.#generation) break
      const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
      this.#taken = { ...this.#taken, isBusy: true }
      await listener.take({ sequence, data: bytes }, incarnation)
      if (generation !== this.#generation) break
      this.#taken = { sequence, atMs: performance.now(), isBusy: false }
    }
  }
}
