/**
 * Shared streams on NATS JetStream. Only this file uses the NATS client. A stream has three replicas, or one if there
 * are fewer than three brokers. The connection is made and retried in the background, so that a start does not wait for
 * a broker.
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
/**
 * The options of the stream of daily salts. A salt is kept for as long as events that need it may still be processed.
 */
export const SALT_STREAM: StreamOptions = {
  name: 'TENREC_SALTS',
  subject: 'tenrec.salts',
  what: 'secrets of days',
  ageMsMax: STREAM_AGE_MS_MAX + SALT_DAYS_MS,
}
const REPORTS = 'tenrec.reports'
const COPIES = 3
const AGAIN_MS = 250
/** The interval, in milliseconds, at which the state of a stream is checked. */
const LOOK_MS = 1000
/**
 * If a stream is missing for this time, plus a random time of up to the same length, this node creates it. README.md
 * explains why it waits.
 */
const MISSING_MS = 1000
/**
 * After a stream was created, each of this number of checks makes the brokers store the list of streams; see `#note`.
 * Brokers store the list at most every two seconds, so one attempt may not be enough.
 */
const NOTED_TIMES = 3
/** The longest time, in milliseconds, that closing a connection may take. */
const CLOSE_MS = 1000
/** If the stream has further messages, but this node has received none for this time, the node subscribes again. */
const STALLED_MS = 3000
const DUPLICATE_WINDOW_MS = 120_000
/**
 * The number of messages that are requested at a time. Requesting a number of bytes would be an alternative, but
 * servers of version 2.9 sometimes stop sending then.
 */
const PULL_MESSAGES = 200
const NANOSECONDS = 1e6

interface Link {
  readonly connection: NatsConnection
  readonly streams: JetStreamClient
  readonly manager: JetStreamManager
}

/** Describes a stream that the brokers store. It is created with these options if it does not exist. */
export interface StreamOptions {
  readonly name: string
  readonly subject: string
  /** What the stream contains, in words for log lines. */
  readonly what: string
  /** The time for which messages are kept, in milliseconds. 0: until Tenrec deletes them. */
  readonly ageMsMax: number
}

/** The connection to the brokers, given by addresses such as `nats://host:port`. */
export class NatsBrokers implements Announcements, Messages {
  readonly #servers: readonly string[]
  readonly #log: Logger
  readonly #streams = new Map<string, NatsStream>()
  readonly #reportListeners: ((report: NodeReport) => void)[] = []
  readonly #listeners = new Set<Listener>()
  #link: Link | null = null
  /**
   * True while a broker is connected. Messages are sent only then; otherwise the NATS client would collect them in
   * memory.
   */
  #isConnected = false
  #isClosed = false

  constructor(servers: readonly string[], log: Logger) {
    this.#servers = servers
    this.#log = log
    this.listen(REPORTS, (data) => {
      // The cast is right: `announce` wrote the report.
      const report = JSON.parse(String(data)) as NodeReport
      for (const hear of this.#reportListeners) hear(report)
    })
    void this.#connect()
  }

  /** Returns a stream. All callers get the same object, which works until `close`. */
  stream(options: StreamOptions): SharedStream {
    return getOrAdd(this.#streams, options.name, () => {
      const stream = this.#open(options)
      if (this.#link !== null) void stream.look()
      return stream
    })
  }

  /**
   * Returns the state of a stream, or null without a connection to a broker. Unlike `stream`, it does not create the
   * stream. Rejects if the stream does not exist, or if no majority of brokers answers.
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

  /** The largest message that the brokers accept, in bytes. Null: no broker is connected. */
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
    // Wait at most `CLOSE_MS`: the client may be waiting for a broker that is gone.
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
        // With `checkAPI`, the client would ask the brokers whether JetStream works, and fail without a majority of
        // them.
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

/** The status with which a broker answers if nobody listens to a subject. */
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
  /** The number of the current subscription. Messages of earlier subscriptions are ignored. */
  #generation = 0
  incarnation = ''
  seen = 0
  #listener: StreamListener | null = null
  #messages: ConsumerMessages | null = null
  #following: Promise<void> = Promise.resolve()
  /** Ends the current subscription. Null: there is none. */
  #breakOff: (() => void) | null = null
  /**
   * The last message that was taken: its sequence number, and the time at which it was taken. `isBusy` is true while a
   * message is being taken: the subscription then does not count as stalled.
   */
  #taken = { sequence: 0, atMs: 0, isBusy: false }
  readonly #incarnationListeners: (() => void)[] = []
  /**
   * The time at which this node creates the missing stream, unless another machine creates it first. Null: the stream
   * was not missing at the last check.
   */
  #makingMs: number | null = null
  #unnoted = 0
  /**
   * True if, at the last check, the stream ended before the last message that this node has taken. The brokers have
   * then lost messages.
   */
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

  /** Returns the state of the stream, or null without a connection. Unlike `state`, it never creates the stream. */
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

  /**
   * Checks the stream: finds out its current incarnation, creates the stream if it does not exist, and subscribes again
   * if necessary. Then schedules the next check.
   */
  async look(): Promise<void> {
    let delayMs = LOOK_MS
    try {
      const { sequence: before } = this.#taken
      const { created, state } = await this.#info()
      this.seen = state.last_seq
      // If the stream ends before the position of this node, the client would wait for messages that do not come. The
      // node then subscribes again, but only after two such checks in a row: a former leader of the brokers may report
      // an old end once.
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
      // If two machines create the stream at the same moment, the answer may describe the stream of the other machine.
      // So this attempt fails, and the next check reads the actual state.
      throw cause
    }
  }

  /**
   * Creates and removes another stream, which makes all brokers store their list of streams. Without this, brokers that
   * are killed soon after a stream was created may lose the stream.
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
    // If the position is after the end of the stream, the brokers have lost its newest messages. The stream is then
    // read from its start. Blocks that this node already has are recognized by their places and skipped.
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
