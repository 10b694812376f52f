/**
 * Complete HTTP/1.1 requests as buffers, which are made before a run. Only the uuids of the events change between two
 * requests. They are written into the buffer, so that the load generator has little work and every event is still new
 * to the duplicate check.
 */
import { EventGenerator } from './events.ts'

/** A request that is ready to be written to a socket. It must not be written to two sockets at a time. */
export interface RequestTemplate {
  readonly bytes: Buffer
  /** The number of bytes of the body, without the head. */
  readonly bodyBytes: number
  /** For each event, the position of the 36 characters of its uuid. Empty for a request without events. */
  readonly uuidOffsets: Uint32Array
}

/** What the bodies of a run contain. */
export interface EventRequestOptions {
  readonly kind: 'events'
  readonly projectKey: string
  readonly seed: number
  /** The number of events in a request. If it is 1, the bodies are for `/capture/`, and otherwise for `/batch/`. */
  readonly eventsPerRequest: number
  /** The number of distinct events. Requests repeat them with new uuids. */
  readonly distinctEvents: number
  /**
   * The number of the stream of uuids, below 65,536. Runs against the same store must use different streams. A stream
   * has 2^32 uuids.
   */
  readonly stream: number
  /** The number of active users. The default is that of `EventGenerator`. */
  readonly users?: number
  /** If true, all users are equally active. */
  readonly isUniform?: boolean
  /**
   * The kind of events. `traffic` is usual traffic and the default. `arrivals` are the first events of users, one user
   * after the other from `firstUser` on. `merges` are `$identify` events, each of which joins the next two of these
   * users.
   */
  readonly content?: 'traffic' | 'arrivals' | 'merges'
  readonly firstUser?: number
  /** See `EventGeneratorOptions`. */
  readonly draw?: number
  /**
   * If true, a batch contains the time at which it is sent, so that the server treats its events as new. The default is
   * true.
   */
  readonly isSentNow?: boolean
}

/** POST requests with the given bodies, which are sent in turn. */
export interface PostRequestOptions {
  readonly kind: 'post'
  readonly path: string
  /** The bodies as JSON texts. There must be at least one. */
  readonly bodies: readonly string[]
  readonly headers: Readonly<Record<string, string>>
}

/** A request without a body. It is always the same. */
export interface GetRequestOptions {
  readonly kind: 'get'
  readonly path: string
}

const UUID_CHARACTERS = 36
const UUID_KEY = '"uuid":"'
const HEX_DIGITS = Buffer.from('0123456789abcdef')
/**
 * The time in the first uuid of stream 0. It is near the time of the events. Each stream starts an hour after the
 * previous one.
 */
const UUID_START_MS = Date.UTC(2024, 4, 1)
const STREAM_MS = 3_600_000
const UUIDS_PER_MS = 50

/** Wraps a JSON body into a POST request, and finds the uuids in the body. */
export function eventRequest(host: string, path: string, body: string): RequestTemplate {
  const bodyBytes = Buffer.from(body)
  const head = postHead(host, path, bodyBytes.length)
  const offsets: number[] = []
  let found = bodyBytes.indexOf(UUID_KEY)
  while (found >= 0) {
    offsets.push(head.length + found + UUID_KEY.length)
    found = bodyBytes.indexOf(UUID_KEY, found + UUID_KEY.length + UUID_CHARACTERS)
  }
  return {
    bytes: Buffer.concat([head, bodyBytes]),
    bodyBytes: bodyBytes.length,
    uuidOffsets: Uint32Array.from(offsets),
  }
}

/**
 * Returns at least `count` templates. Distinct bodies are drawn until there are `distinctEvents` events. The rest are
 * copies with bytes of their own. A drawn event takes about 10 us.
 */
export function eventRequests(
  host: string,
  options: EventRequestOptions,
  count: number,
): RequestTemplate[] {
  const { projectKey, eventsPerRequest } = options
  const generator = generatorOf(options)
  const templates: RequestTemplate[] = []
  const distinct = Math.max(1, Math.ceil(options.distinctEvents / eventsPerRequest))
  for (let index = 0; index < distinct; index++) {
    const isSingle = eventsPerRequest === 1
    const body = isSingle
      ? generator.capture(projectKey)
      : generator.batch(projectKey, eventsPerRequest)
    if (options.isSentNow === false) body['sent_at'] = undefined
    templates.push(eventRequest(host, isSingle ? '/capture/' : '/batch/', JSON.stringify(body)))
  }
  for (let index = 0; templates.length < count; index++) {
    const original = templates[index]
    if (original === undefined) break
    templates.push({ ...original, bytes: Buffer.from(original.bytes) })
  }
  return templates
}

/** Returns at least `count` templates: one for each body, and then copies. */
export function postRequests(
  host: string,
  { path, bodies, headers }: PostRequestOptions,
  count: number,
): RequestTemplate[] {
  return Array.from({ length: Math.max(count, bodies.length) }, (_, index) => {
    const body = Buffer.from(bodies[index % bodies.length] ?? '')
    const head = postHead(host, path, body.length, headers)
    const uuidOffsets = new Uint32Array(0)
    return { bytes: Buffer.concat([head, body]), bodyBytes: body.length, uuidOffsets }
  })
}

/** Returns the generator that draws the events of a run. */
export function generatorOf({
  seed,
  users,
  isUniform = false,
  content = 'traffic',
  firstUser = 0,
  draw = 0,
}: Pick<
  EventRequestOptions,
  'seed' | 'users' | 'isUniform' | 'content' | 'firstUser' | 'draw'
>): EventGenerator {
  const usual = { seed, isUniform, content, firstUser, draw }
  return new EventGenerator(users === undefined ? usual : { ...usual, users })
}

export function getRequest(host: string, path: string): RequestTemplate {
  const text = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: tenrec-bench\r\n\r\n`
  return { bytes: Buffer.from(text), bodyBytes: 0, uuidOffsets: new Uint32Array(0) }
}

function postHead(
  host: string,
  path: string,
  bodyBytes: number,
  headers: Readonly<Record<string, string>> = {},
): Buffer {
  const more = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: tenrec-bench\r\n${more.join('')}` +
      `Content-Type: application/json\r\nContent-Length: ${bodyBytes}\r\n\r\n`,
  )
}

/**
 * Writes the uuids `ordinal`, `ordinal + 1` and so on of a stream into the events of a request. A uuid takes about 60
 * ns.
 */
export function stampUuids(template: RequestTemplate, stream: number, ordinal: number): void {
  const { bytes, uuidOffsets } = template
  for (let index = 0; index < uuidOffsets.length; index++) {
    writeUuid(bytes, uuidOffsets[index] ?? 0, stream, ordinal + index)
  }
}

/**
 * Writes a version 7 uuid as text. Each pair of stream and ordinal has a different uuid, because its last 48 bits are a
 * permutation of the pair. As with the uuids of a client, these bits look random, and the time at the start increases.
 */
export function writeUuid(target: Buffer, offset: number, stream: number, ordinal: number): void {
  const timeMs = UUID_START_MS + stream * STREAM_MS + Math.floor(ordinal / UUIDS_PER_MS)
  // Three Feistel rounds, each with two halves of 24 bits.
  let left = ((stream << 8) | (ordinal >>> 24)) & 0xffffff
  let right = ordinal & 0xffffff
  left ^= mix(right)
  right ^= mix(left)
  left ^= mix(right)
  const filler = Math.imul(left ^ 0x5bd1e995, 0x9e3779b1) ^ right
  const timeHigh = Math.floor(timeMs / 2 ** 24)
  const timeLow = timeMs % 2 ** 24
  writeHex(target, offset, timeHigh >>> 16)
  writeHex(target, offset + 2, timeHigh >>> 8)
  writeHex(target, offset + 4, timeHigh)
  writeHex(target, offset + 6, timeLow >>> 16)
  writeHex(target, offset + 9, timeLow >>> 8)
  writeHex(target, offset + 11, timeLow)
  writeHex(target, offset + 14, 0x70 | ((filler >>> 24) & 0x0f))
  writeHex(target, offset + 16, filler >>> 16)
  writeHex(target, offset + 19, 0x80 | ((filler >>> 8) & 0x3f))
  writeHex(target, offset + 21, filler)
  writeHex(target, offset + 24, left >>> 16)
  writeHex(target, offset + 26, left >>> 8)
  writeHex(target, offset + 28, left)
  writeHex(target, offset + 30, right >>> 16)
  writeHex(target, offset + 32, right >>> 8)
  writeHex(target, offset + 34, right)
}

function mix(value: number): number {
  const product = Math.imul(value ^ (value >>> 11), 0x85ebca6b)
  return (product ^ (product >>> 15)) & 0xffffff
}

function writeHex(target: Buffer, offset: number, byte: number): void {
  target[offset] = HEX_DIGITS[(byte >>> 4) & 15] ?? 0
  target[offset + 1] = HEX_DIGITS[byte & 15] ?? 0
}
