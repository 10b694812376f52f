/**
 * The protocols of the peers of the bench `peers`: how each peer receives the same events. Requests are made as bytes
 * before the run, and readers recognize the end of an answer. Each event is a row, message or entry of its own, so that
 * it can be found again. Only for `nats-batches`, the events of a request are one message.
 */
import type { EventGenerator, GeneratedEvent } from '../ingest/events.ts'

/** The protocols. `capture` is the protocol of Tenrec. */
export const PROTOCOLS = [
  'capture',
  'clickhouse',
  'influxdb',
  'nats',
  'nats-batches',
  'redis',
] as const
export type Protocol = (typeof PROTOCOLS)[number]

/** A request, and the positions of the parts that change each time it is sent. */
export interface PeerRequest {
  readonly bytes: Buffer
  readonly events: number
  /** For each event, the position of the 36 characters of its uuid. */
  readonly uuidOffsets: readonly number[]
  /**
   * For each event, the position of the last 17 digits of its nanoseconds. Empty if the protocol has no nanoseconds.
   */
  readonly timeOffsets: readonly number[]
}

/** Reads the answers of one connection, one request at a time. */
export interface PeerReader {
  /** Reads received bytes. Returns null until the request is answered. Then it returns '' for success, or the error. */
  take(chunk: Buffer): string | null
  /** Prepares for the answer to a request with this many events. */
  begin(events: number): void
}

/** The parameters of a request. */
export interface PeerRequestOptions {
  readonly protocol: Protocol
  readonly projectKey: string
  readonly eventsPerRequest: number
  /** The number of the connection that will send the request, from 0 to 999. */
  readonly connection: number
}

const JSON_TYPE = 'Content-Type: application/json\r\n'
const CLICKHOUSE_PATH = `/?query=${encodeURIComponent('INSERT INTO events FORMAT JSONEachRow')}`
/**
 * The first two digits of the nanoseconds, before the 17 digits that change. With them, times are in the year 2027 or
 * later.
 */
const TIME_HEAD = '18'
const TIME_DIGITS = 17
const REASON_CHARACTERS = 200

/** Draws the events of a request, and encodes them for the peer. */
export function peerRequest(generator: EventGenerator, options: PeerRequestOptions): PeerRequest {
  const { protocol, eventsPerRequest: count, projectKey } = options
  if (protocol === 'capture') {
    const isSingle = count === 1
    const body = isSingle ? generator.capture(projectKey) : generator.batch(projectKey, count)
    const path = isSingle ? '/capture/' : '/batch/'
    return found(post(path, JSON.stringify(body), JSON_TYPE), count, `"uuid":"`, protocol)
  }
  const events = Array.from({ length: count }, () => generator.event())
  const text = textOf(protocol, events, inboxOf(options.connection))
  return found(text, count, protocol === 'influxdb' ? `uuid="` : `"uuid":"`, protocol)
}

/** Returns the first bytes that are sent on a connection. They are empty for HTTP and Redis. */
export function greeting(protocol: Protocol, connection: number): string {
  if (protocol !== 'nats' && protocol !== 'nats-batches') return ''
  return `CONNECT {"verbose":false,"pedantic":false}\r\nSUB ${inboxOf(connection)} 1\r\n`
}

/** Returns the reader for a connection. It calls `answer` to send bytes back, which some protocols require. */
export function peerReader(protocol: Protocol, answer: (text: string) => void): PeerReader {
  switch (protocol) {
    case 'redis':
      return new RedisReader()
    case 'nats':
      return new NatsReader(answer, false)
    case 'nats-batches':
      return new NatsReader(answer, true)
    case 'capture':
    case 'clickhouse':
    case 'influxdb':
      return new HttpReader()
  }
}

/** Writes the digits that make the time of an event unique. */
export function stampTime(bytes: Buffer, offset: number, stream: number, ordinal: number): void {
  let rest = stream * 1_000_000_000 + ordinal
  for (let digit = TIME_DIGITS - 1; digit >= 0; digit--) {
    bytes[offset + digit] = 48 + (rest % 10)
    rest = Math.floor(rest / 10)
  }
}

function textOf(protocol: Protocol, events: readonly GeneratedEvent[], inbox: string): string {
  switch (protocol) {
    case 'clickhouse':
      return post(CLICKHOUSE_PATH, events.map((event) => JSON.stringify(rowOf(event))).join('\n'))
    case 'influxdb':
      return post('/write?db=bench&precision=ns', events.map(lineOf).join('\n'))
    case 'nats':
      return events.map((event) => publish(inbox, JSON.stringify(event))).join('')
    case 'nats-batches':
      return publish(inbox, JSON.stringify(events))
    case 'redis':
      return events.map((event) => xadd(JSON.stringify(event))).join('')
    case 'capture':
      throw new Error('these requests are drawn as a whole')
  }
}

function post(path: string, body: string, headers = ''): string {
  const length = Buffer.byteLength(body)
  const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: tenrec-bench\r\n`
  return `${head}${headers}Content-Length: ${length}\r\n\r\n${body}`
}

function rowOf(event: GeneratedEvent): Record<string, string> {
  const timestamp = event.timestamp.slice(0, 19).replace('T', ' ')
  const properties = JSON.stringify(detailsOf(event))
  const distinct_id = distinctIdOf(event)
  return { uuid: event.uuid, event: event.event, timestamp, distinct_id, properties }
}

/** Returns a point. The name of the event is a tag, and everything else is a field. The time is at the end. */
function lineOf(event: GeneratedEvent): string {
  const quoted = (text: string): string => `"${text.replaceAll(/["\\]/g, '\\$&')}"`
  const name = event.event.replaceAll(/[ ,=]/g, '\\$&')
  const details = quoted(JSON.stringify(detailsOf(event)))
  const fields = `uuid="${event.uuid}",distinct_id=${quoted(distinctIdOf(event))}`
  return `events,event=${name} ${fields},properties=${details} ${TIME_HEAD}${'0'.repeat(TIME_DIGITS)}`
}

function distinctIdOf(event: GeneratedEvent): string {
  return String(event.properties['distinct_id'])
}

function detailsOf({ properties, $set, $set_once }: GeneratedEvent): object {
  return { ...properties, $set, $set_once }
}

function publish(inbox: string, payload: string): string {
  return `PUB events ${inbox} ${Buffer.byteLength(payload)}\r\n${payload}\r\n`
}

function xadd(payload: string): string {
  const words = ['XADD', 'events', '*', 'e', payload]
  return `*5\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`
}

function inboxOf(connection: number): string {
  return `_I.${String(connection).padStart(3, '0')}`
}

function found(text: string, events: number, mark: string, protocol: Protocol): PeerRequest {
  const bytes = Buffer.from(text)
  const uuidOffsets = offsetsAfter(bytes, mark, events)
  const isTimed = protocol === 'influxdb'
  const timeOffsets = isTimed ? offsetsAfter(bytes, ` ${TIME_HEAD}00000`, events, 3) : []
  return { bytes, events, uuidOffsets, timeOffsets }
}

/** Returns the positions of this many occurrences after a mark. Throws unless there are `count`. */
function offsetsAfter(bytes: Buffer, mark: string, count: number, from = mark.length): number[] {
  const offsets: number[] = []
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + mark.length)) {
    offsets.push(at + from)
  }
  if (offsets.length !== count) throw new Error(`${offsets.length} of ${count} events were marked`)
  return offsets
}

/** Reads HTTP/1.1 answers that have a length, no body, or chunks. */
class HttpReader implements PeerReader {
  #text = ''

  begin(): void {
    this.#text = ''
  }

  take(chunk: Buffer): string | null {
    this.#text += chunk.toString('latin1')
    const end = this.#text.indexOf('\r\n\r\n')
    if (end < 0) return null
    const head = this.#text.slice(0, end)
    if (/^transfer-encoding: *chunked/im.test(head)) {
      if (!this.#text.endsWith('0\r\n\r\n') || this.#text.length === end + 4) return null
    } else {
      const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
      if (this.#text.length < end + 4 + length) return null
    }
    if (this.#text[9] === '2') return ''
    return `${head.slice(9, 12)} ${this.#text.slice(end + 4, end + 4 + REASON_CHARACTERS)}`
  }
}

/**
 * Reads Redis answers. For each entry, there is a line with the length and a line with the text, or a line that begins
 * with a minus.
 */
class RedisReader implements PeerReader {
  #expected = 0
  #lines = 0
  #rest = ''

  begin(events: number): void {
    this.#expected = events * 2
    this.#lines = 0
  }

  take(chunk: Buffer): string | null {
    const lines = (this.#rest + chunk.toString('latin1')).split('\r\n')
    this.#rest = lines.pop() ?? ''
    this.#lines += lines.length
    const refusal = lines.find((line) => line.startsWith('-'))
    if (refusal !== undefined) return refusal
    return this.#lines >= this.#expected ? '' : null
  }
}

/** Reads NATS acknowledgments. There is one for each message. The reader also answers the pings of the server. */
class NatsReader implements PeerReader {
  readonly #answer: (text: string) => void
  readonly #isBatch: boolean
  #missing = 0
  #rest = ''

  constructor(answer: (text: string) => void, isBatch: boolean) {
    this.#answer = answer
    this.#isBatch = isBatch
  }

  begin(events: number): void {
    this.#missing = this.#isBatch ? 1 : events
  }

  take(chunk: Buffer): string | null {
    const lines = (this.#rest + chunk.toString('latin1')).split('\r\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line.startsWith('{"stream"')) this.#missing--
      else if (line === 'PING') this.#answer('PONG\r\n')
      else if (line.startsWith('{"error"') || line.startsWith('-ERR')) return line
    }
    return this.#missing <= 0 ? '' : null
  }
}
