/**
 * The shared log on NATS JetStream: the only file that knows the client. One stream, as many copies as there are
 * brokers, three at most. It connects in the background and again and again: nobody waits for a broker to start.
 */
import {
  type ConsumerMessages,
  DeliverPolicy,
  DiscardPolicy,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamInfo,
} from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import type { Logger } from '../base/log.ts'
import { STREAM_AGE_MS_MAX } from './limits.ts'
import type { SharedLog, StoredPlaces, StreamListener } from './shared-log.ts'

const STREAM = 'TENREC_EVENTS_0'
const EVENTS = 'tenrec.events.0'
const STORED = 'tenrec.stored.0'
const COPIES = 3
const AGAIN_MS = 250
/** How often it is looked whether the stream is still the same one. */
const LOOK_MS = 1000
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

/** The shared log of a list of brokers, as `nats://host:port,...`. */
export class NatsLog implements SharedLog {
  readonly #servers: readonly string[]
  readonly #log: Logger
  #link: Link | null = null
  #isClosed = false
  /** Of followings: what an earlier one still gets does not count. */
  #generation = 0
  #incarnation = ''
  #listener: StreamListener | null = null
  #messages: ConsumerMessages | null = null
  #following: Promise<void> = Promise.resolve()
  /** Ends the following that is on its way. */
  #breakOff: (() => void) | null = null
  /** What was taken last, and since when nothing; while something is taken nothing is late. */
  #taken = { sequence: 0, atMs: 0, isBusy: false }
  readonly #incarnationListeners: (() => void)[] = []
  readonly #storedListeners: ((stored: StoredPlaces) => void)[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(servers: readonly string[], log: Logger) {
    this.#servers = servers
    this.#log = log
    void this.#connect()
  }

  get isConnected(): boolean {
    return this.#link !== null && this.#incarnation !== ''
  }

  async publish(data: Uint8Array, id: string, timeoutMs: number): Promise<void> {
    const link = this.#link
    if (link === null || this.#incarnation === '') throw new Error('no broker is connected')
    await link.streams.publish(EVENTS, data, { msgID: id, timeout: timeoutMs })
  }

  follow(listener: StreamListener): void {
    this.#listener = listener
    this.#following = this.#followOn(listener)
  }

  onIncarnation(listener: () => void): void {
    this.#incarnationListeners.push(listener)
  }

  announce(stored: StoredPlaces): void {
    this.#link?.connection.publish(STORED, JSON.stringify(stored))
  }

  onStored(listener: (stored: StoredPlaces) => void): void {
    this.#storedListeners.push(listener)
  }

  /** The sequence of the newest message. Rejects without a majority of brokers. */
  async newest(): Promise<number> {
    if (this.#link === null) throw new Error('no broker is connected')
    return (await this.#streamOf(this.#link)).state.last_seq
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#breakOff?.()
    await this.#following
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
        this.#link = { connection, manager, streams: jetstream(connection) }
        this.#hearStored(connection)
        this.#log.info({ server: connection.getServer() }, 'connected to a broker')
        return await this.#look()
      } catch {
        await sleep(AGAIN_MS)
      }
    }
  }

  /** Finds out which incarnation there is, makes the stream when there is none; again and again. */
  async #look(): Promise<void> {
    let delayMs = LOOK_MS
    try {
      const link = this.#link
      if (link === null) return
      const { created, state } = await this.#streamOf(link)
      const { sequence, atMs, isBusy } = this.#taken
      const isLate = !isBusy && performance.now() - atMs > STALLED_MS
      const isStalled = sequence < state.last_seq && isLate
      if (created !== this.#incarnation || isStalled) this.#breakOff?.()
      if (created !== this.#incarnation) {
        this.#incarnation = created
        for (const listener of this.#incarnationListeners) listener()
      }
    } catch {
      delayMs = AGAIN_MS
    }
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#look(), delayMs)
  }

  async #streamOf({ manager }: Link): Promise<StreamInfo> {
    try {
      return await manager.streams.info(STREAM)
    } catch (cause) {
      if (!/not found/i.test(String(cause))) throw cause
      this.#log.warn('the brokers have no stream of events: it is made')
      return await manager.streams.add({
        name: STREAM,
        subjects: [EVENTS],
        storage: StorageType.File,
        retention: RetentionPolicy.Limits,
        discard: DiscardPolicy.Old,
        num_replicas: this.#servers.length < COPIES ? 1 : COPIES,
        max_age: STREAM_AGE_MS_MAX * NANOSECONDS,
        duplicate_window: DUPLICATE_WINDOW_MS * NANOSECONDS,
      })
    }
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
    const link = this.#link
    const incarnation = this.#incarnation
    const generation = this.#generation
    if (link === null || incarnation === '') return
    const { state } = await this.#streamOf(link)
    const position = listener.position()
    // Behind the end is a stream that has lost its newest messages: what comes is told by its places.
    const isKnown = position.incarnation === incarnation && position.sequence <= state.last_seq
    const after = isKnown ? position.sequence : 0
    this.#taken = { ...this.#taken, sequence: after }
    const consumer = await link.streams.consumers.get(STREAM, {
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

  #hearStored(connection: NatsConnection): void {
    connection.subscribe(STORED, {
      callback: (error, message) => {
        if (error !== null) return
        // Written by `announce`.
        const stored = message.json<StoredPlaces>()
        for (const listener of this.#storedListeners) listener(stored)
      },
    })
  }
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}
