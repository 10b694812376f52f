/**
 * Shared streams on NATS JetStream: the only file that knows the client. A stream has three copies, or one with less
 * than three brokers. It connects in the background, again and again: nobody waits for a broker to start.
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
} from './shared-log.ts'

/** The stream of events of a partition. */
export function eventStream(partition: number): StreamOptions {
  return {
    name: `TENREC_EVENTS_${partition}`,
    subject: `tenrec.events.${partition}`,
    what: `events of partition ${partition}`,
    ageMsMax: STREAM_AGE_MS_MAX,
  }
}

/** The stream of the catalogue. */
export const CONTROL_STREAM: StreamOptions = {
  name: 'TENREC_CONTROL',
  subject: 'tenrec.control',
  what: 'changes of the catalogue',
  ageMsMax: 0,
}
/** The stream of the secrets of days: each is needed for as long as events that need it can be processed again. */
export const SALT_STREAM: StreamOptions = {
  name: 'TENREC_SALTS',
  subject: 'tenrec.salts',
  what: 'secrets of days',
  ageMsMax: STREAM_AGE_MS_MAX + SALT_DAYS_MS,
}
const REPORTS = 'tenrec.reports'
const COPIES = 3
const AGAIN_MS = 250
/** How often it is looked whether the stream is still the same one. */
const LOOK_MS = 1000
/** A stream is made when there was none for that long, and up to as long again by chance: README.md. */
const MISSING_MS = 1000
/** How often brokers are made to write down which streams there are: they do it every two seconds at most. */
const NOTED_TIMES = 3
/** How long the end of a connection may take. */
const CLOSE_MS = 1000
/** When the stream has more than was taken for that long, following begins anew. */
const STALLED_MS = 3000
const DUPLICATE_WINDOW_MS = 120_000
/** Messages that are asked for at a time: asked for by bytes, servers of version 2.9 stop sending at times. */
const PULL_MESSAGES = 200
const NANOSECONDS = 1e6

interface Link {
  readonly connection: NatsConnection
  readonly streams: JetStreamClient
  readonly manager: JetStreamManager
}

/** A stream that the brokers keep, and make when there is none. */
export interface StreamOptions {
  readonly name: string
  readonly subject: string
  /** For the log. */
  readonly what: string
  /** How long messages are kept, milliseconds; 0: until they are cut off. */
  readonly ageMsMax: number
}

/** The brokers of a list of addresses such as `nats://host:port`. */
export class NatsBrokers implements Announcements, Messages {
  readonly #servers: readonly string[]
  readonly #log: Logger
  readonly #streams = new Map<string, NatsStream>()
  readonly #reportListeners: ((report: NodeReport) => void)[] = []
  readonly #listeners = new Set<Listener>()
  #link: Link | null = null
  /** What is sent without a connection would wait for one in memory. */
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

  /** A stream, the same for all who want it; it is there until `close`. */
  stream(options: StreamOptions): SharedStream {
    return getOrAdd(this.#streams, options.name, () => {
      const stream = this.#open(options)
      if (this.#link !== null) void stream.look()
      return stream
    })
  }

  /** How a stream is; null: there is none, and none is made. Rejects without a majority of brokers. */
  async look(options: StreamOptions): Promise<StreamState | null> {
    return await this.#open(options).known()
  }

  #open(options: StreamOptions): NatsStream {
    const copies = this.#servers.length < COPIES ? 1 : COPIES
    return new NatsStream(options, copies, () => this.#link, this.#log)
  }

  /** Of the server that is connected; null: none is. */
  get serverVersion(): string | null {
    return this.#link?.connection.info?.version ?? null
  }

  /** Bytes that a message may have; null: no broker is connected. */
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
        // The manager's first question may find no majority: none is asked here.
        const manager = await jetstreamManager(connection, { checkAPI: false })
        for (const listener of this.#listeners) subscribe(connection, listener)
        void this.#watch(connection)
        this.#link = { connection, manager, streams: jetstream(connection) }
        this.#log.info({ server: connection.getServer() }, 'connected to a broker')
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

/** What a broker answers in place of somebody who listens. */
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
  /** Of followings: what an earlier one still gets does not count. */
  #generation = 0
  incarnation = ''
  seen = 0
  #listener: StreamListener | null = null
  #messages: ConsumerMessages | null = null
  #following: Promise<void> = Promise.resolve()
  /** Ends the following that is on its way. */
  #breakOff: (() => void) | null = null
  /** What was taken last, and since when nothing; while something is taken nothing is late. */
  #taken = { sequence: 0, atMs: 0, isBusy: false }
  readonly #incarnationListeners: (() => void)[] = []
  /** When it is made unless it is there before; null: it was not missing when it was looked for last. */
  #makingMs: number | null = null
  #unnoted = 0
  /** The stream ended before what was taken when it was looked for last. */
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

  /** The same, and null when there is no such stream; it is not made. */
  async known(): Promise<StreamState | null> {
    const info = await this.#linkOf()?.manager.streams.info(this.#options.name)
    return info === undefined ? null : this.#stateOf(info)
  }

  #stateOf({ created, state, cluster }: StreamInfo): StreamState {
    const { leader, replicas = [] } = cluster ?? {}
    const others = replicas.map(({ name, current, offline }) => ({
      ...{ name, isCurrent: current && offline !== true },
    }))
    return {
      ...{ incarnation: created, first: state.first_seq, last: state.last_seq, bytes: state.bytes },
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

  /** Finds out which incarnation there is, makes the stream when there is none; again and again. */
  async look(): Promise<void> {
    let delayMs = LOOK_MS
    try {
      const { sequence: before } = this.#taken
      const { created, state } = await this.#info()
      this.seen = state.last_seq
      // Twice, as who leads no more may tell so, too. The client would wait for what comes behind its place.
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
        ...{ name, subjects: [subject], num_replicas: this.#copies, storage: StorageType.File },
        max_age: ageMsMax * NANOSECONDS,
        duplicate_window: DUPLICATE_WINDOW_MS * NANOSECONDS,
      })
      this.#log.warn(`no stream of ${what}: ${await making.then(() => 'it is made', String)}`)
      // Who makes it at the same moment may be told of another one: what there is is asked for again.
      throw cause
    }
  }

  /** Removes a stream, upon which all brokers write down which there are: killed before, they may forget new ones. */
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
        // The client may wait for ever for an answer of a broker that is gone.
        await Promise.race([following, isOver])
      } catch (cause) {
        this.#log.debug({ err: cause }, 'following the stream begins anew')
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
    // Behind the end is a stream that has lost its newest messages: what comes is told by its places.
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
