/**
 * Answers of `node:http` in the form of `front.ts`. They are written directly to the socket, including the head,
 * because Node's own way would write each answer in two steps and add headers. Node keeps all bytes in memory that a
 * socket does not accept. Therefore only one slice of an answer is passed to Node at a time, so that a client that does
 * not read occupies no more memory than one slice.
 */
import type { FrontResponse } from './front.ts'
import { BODY_DRAIN_BYTES_MAX } from './limits.ts'
import type { BodyTaker } from './node-request.ts'

/** The connection to which an answer is written. */
export interface ResponseConnection {
  /** True if the connection has ended, so that nothing can be written to it. */
  readonly isClosed: boolean
  /** How many bytes were written but not accepted by the socket yet. */
  readonly waitingBytes: number
  /** Writes bytes, or a text in Latin-1. The bytes must not be changed later. */
  write(data: string | Uint8Array, onTaken?: (error?: Error | null) => void): void
  /** Calls `write`, and sends everything that it writes together. */
  together(write: () => void): void
  close(): void
  /** Closes the connection after all bytes that were written have been sent. */
  closeWhenTaken(): void
  /** From now on, ignores all bytes that the client sends. */
  takeNoMore(): void
  pause(): void
  getRemoteAddress(): ArrayBuffer
}

/** The facts about a request on which its answer depends. */
export interface AboutRequest {
  readonly isHead: boolean
  /** The declared length of the body, as in `NodeRequest`. */
  readonly declaredBytes: number
  /** True if the client waits for `100 Continue` before it sends its body. */
  readonly expectsContinue: boolean
  /**
   * `isLast` is true if the connection is closed after the answer. If `isToldSo` is true, the answer gets the header
   * `Connection: close`, which tells this to the client.
   */
  readonly isLast: boolean
  readonly isToldSo: boolean
  /**
   * Called when the whole request has been received, so that Node can release it. `isLong` is true if more of the
   * answer follows, and false if the answer is complete.
   */
  readonly onDone: (isLong: boolean) => void
}

/** How many bytes are passed to the socket at a time. */
const SLICE_BYTES = 64 * 1024
/** A body of at most this many bytes is written together with its head, as one text. */
const JOINED_BYTES = 16 * 1024
const NO_BYTES = new ArrayBuffer(0)
/** Matches a header value that needs no encoding. */
const PLAIN = /^[\t\x20-\x7e]*$/

/** One answer. It also receives the body of the request. */
export class NodeResponse implements FrontResponse, BodyTaker {
  /** True if the answer is complete, or if the client has left. */
  isEnded = false
  /** True if the whole body of the request has been received. */
  isBodyComplete: boolean
  /** How many bytes of the request's body have been received. */
  receivedBytes = 0
  isHeadOut = false
  readonly #connection: ResponseConnection
  readonly #isHead: boolean
  readonly #declaredBytes: number
  /** Null after its first call, so that the objects that it refers to can be garbage-collected. */
  #onDone: ((isLong: boolean) => void) | null
  #expectsContinue: boolean
  #isClosing: boolean
  /** True if the head of the answer says that the connection will be closed. */
  #isToldSo = false
  #isDone = false
  #status = '200 OK'
  #headers = ''
  #isChunked = false
  #offset = 0
  #isFull = false
  #onAborted: (() => void) | null = null
  #onData: ((chunk: ArrayBuffer, isLast: boolean) => void) | null = null
  #onWritable: ((offset: number) => boolean) | null = null

  constructor(connection: ResponseConnection, about: AboutRequest) {
    this.#connection = connection
    this.#isHead = about.isHead
    this.#declaredBytes = about.declaredBytes
    this.#onDone = about.onDone
    this.isBodyComplete = about.declaredBytes === 0
    this.#expectsContinue = about.expectsContinue
    this.#isClosing = about.isLast
    if (about.isToldSo) this.writeHeader('Connection', 'close')
  }

  /** True if the body of the request is chunked. */
  get isInChunks(): boolean {
    return this.#declaredBytes < 0
  }

  /** True if the handler of the request has asked for its body. */
  get isBodyAsked(): boolean {
    return this.#onData !== null
  }

  /**
   * Called after the handler has returned. If the request has no body but the handler has asked for one, the handler
   * gets an empty body.
   */
  begin(): void {
    if (this.isBodyComplete) this.#onData?.(NO_BYTES, true)
  }

  /** Makes this the last answer of the connection, because the bytes after the request are not a valid request. */
  closeBehind(): void {
    this.#connection.takeNoMore()
    if (!this.isHeadOut) this.writeHeader('Connection', 'close')
    this.#isClosing = true
  }

  /** Called when the connection has ended. */
  abort(): void {
    if (this.isEnded) return
    this.isEnded = true
    this.#onAborted?.()
  }

  takeBody(chunk: Buffer): void {
    this.receivedBytes += chunk.length
    if (this.receivedBytes === this.#declaredBytes) this.isBodyComplete = true
    this.#onData?.(memoryOf(chunk), this.isBodyComplete)
    if (this.isBodyComplete && this.isEnded) this.#done()
  }

  endBody(hasTrailer: boolean): void {
    // If the length of the body was declared, `takeBody` has already ended the body with its last byte.
    if (!this.isInChunks) return
    this.isBodyComplete = true
    // A request with header lines after its body (a trailer) is not executed. uWebSockets.js does the same.
    if (hasTrailer) {
      this.#connection.close()
      return
    }
    this.#onData?.(NO_BYTES, true)
    if (this.isEnded) this.#done()
  }

  onData(take: (chunk: ArrayBuffer, isLast: boolean) => void): void {
    this.#onData = take
    if (!this.#expectsContinue || this.isEnded || this.#connection.isClosed) return
    this.#expectsContinue = false
    this.#connection.write('HTTP/1.1 100 Continue\r\n\r\n')
  }

  onAborted(abort: () => void): void {
    this.#onAborted = abort
  }

  onWritable(resume: (offset: number) => boolean): void {
    this.#onWritable = resume
  }

  cork(write: () => void): void {
    write()
  }

  writeStatus(status: string): void {
    this.#status = status
  }

  writeHeader(name: string, value: string): void {
    if (name === 'Connection' && value === 'close') {
      if (this.#isToldSo) return
      this.#isToldSo = true
      this.#isClosing = true
    }
    this.#headers += `${name}: ${PLAIN.test(value) ? value : inUtf8(value)}\r\n`
  }

  write(chunk: Uint8Array): boolean {
    if (this.isEnded || this.#connection.isClosed) return false
    const head = this.isHeadOut ? '' : this.#beginChunks()
    if (chunk.length === 0 || this.#isHead) {
      if (head !== '') this.#connection.write(head)
      return true
    }
    const start = `${head}${chunk.length.toString(16)}\r\n`
    // A short chunk is copied into one text with its length, so that one call writes everything.
    if (chunk.length <= JOINED_BYTES) {
      this.#connection.write(`${start}${bufferOf(chunk).toString('latin1')}\r\n`, this.#onTaken)
    } else {
      this.#connection.together(() => {
        this.#connection.write(start)
        this.#connection.write(Buffer.from(chunk))
        this.#connection.write('\r\n', this.#onTaken)
      })
    }
    return this.#isTaken()
  }

  end(body: string | Uint8Array = '', closesConnection = false): void {
    if (this.isEnded || this.#connection.isClosed) return
    if (this.isHeadOut) {
      if (this.#isChunked && !this.#isHead) this.#connection.write('0\r\n\r\n')
      this.#end(closesConnection)
      return
    }
    if (closesConnection) this.writeHeader('Connection', 'close')
    const bytes = typeof body === 'string' ? Buffer.from(body) : bufferOf(body)
    this.#headers += `Content-Length: ${bytes.length}\r\n`
    const head = this.#head()
    if (this.#isHead) this.#connection.write(head)
    // A short body is copied into one text with the head, so that one call writes both.
    else if (bytes.length <= JOINED_BYTES) this.#connection.write(head + bytes.toString('latin1'))
    else {
      this.#connection.together(() => {
        this.#connection.write(head)
        this.#connection.write(Buffer.from(bytes))
      })
    }
    this.#end(closesConnection)
  }

  endWithoutBody(reportedLength?: number, closesConnection = false): void {
    if (this.isEnded || this.#connection.isClosed) return
    if (closesConnection) this.writeHeader('Connection', 'close')
    if (reportedLength !== undefined) this.#headers += `Content-Length: ${reportedLength}\r\n`
    this.#connection.write(this.#head())
    this.#end(closesConnection)
  }

  tryEnd(chunk: string | Uint8Array, totalBytes: number): readonly [boolean, boolean] {
    if (this.isEnded || this.#connection.isClosed) return [false, false]
    if (!this.isHeadOut && chunk.length === totalBytes && totalBytes <= SLICE_BYTES) {
      // Head and body are sent together. All bytes count as accepted, because they were copied.
      this.end(chunk)
      return [true, true]
    }
    if (!this.isHeadOut) {
      this.#headers += `Content-Length: ${totalBytes}\r\n`
      this.#connection.write(this.#head())
    }
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    let isTaken = true
    for (let start = 0; isTaken && start < bytes.length; start += SLICE_BYTES) {
      const slice = bytes.subarray(start, start + SLICE_BYTES)
      this.#connection.write(Buffer.from(slice), this.#onTaken)
      this.#offset += slice.length
      isTaken = this.#isTaken()
    }
    if (this.#offset < totalBytes) return [isTaken, false]
    // The answer counts as complete, although the last slice may not be sent yet. Its bytes were copied.
    this.#end(false)
    return [true, true]
  }

  getWriteOffset(): number {
    return this.#offset
  }

  close(): void {
    this.#connection.close()
  }

  pause(): void {
    this.#connection.pause()
  }

  getRemoteAddress(): ArrayBuffer {
    return this.#connection.getRemoteAddress()
  }

  #head(): string {
    this.isHeadOut = true
    if (this.#isClosing) this.#connection.takeNoMore()
    const headers = this.#headers
    this.#headers = ''
    return `HTTP/1.1 ${this.#status}\r\n${dateHeader()}${headers}\r\n`
  }

  /**
   * Returns the head of an answer in chunks. Such an answer may last for days. If the whole request has been received,
   * Node is therefore told early that the answer is finished, so that it releases its own request and response.
   * `setImmediate` delays this until Node's parser has reached the end of the request. `process.nextTick` would be too
   * early, because its queue also runs after each chunk of a body.
   */
  #beginChunks(): string {
    this.#isChunked = true
    this.writeHeader('Transfer-Encoding', 'chunked')
    if (this.isBodyComplete) {
      setImmediate(() => {
        if (!this.#connection.isClosed) this.#tellDone(true)
      })
    }
    return this.#head()
  }

  #tellDone(isLong: boolean): void {
    const onDone = this.#onDone
    this.#onDone = null
    onDone?.(isLong)
  }

  #isTaken(): boolean {
    this.#isFull = this.#connection.waitingBytes > 0
    return !this.#isFull
  }

  readonly #onTaken = (error?: Error | null): void => {
    const isOver = this.isEnded || this.#connection.isClosed || error instanceof Error
    if (isOver || !this.#isFull || this.#connection.waitingBytes > 0) return
    this.#isFull = false
    this.#onWritable?.(this.#offset)
  }

  /**
   * Ends the answer. The rest of the request's body is read and discarded, unless it is too long or the connection is
   * closed at once.
   */
  #end(isCut: boolean): void {
    this.isEnded = true
    if (this.#declaredBytes - this.receivedBytes > BODY_DRAIN_BYTES_MAX) this.#isClosing = true
    else if (!this.isBodyComplete && !isCut) return
    this.#done()
  }

  #done(): void {
    if (this.#isDone || this.#connection.isClosed) return
    this.#isDone = true
    if (this.#isClosing) this.#connection.closeWhenTaken()
    else this.#tellDone(false)
  }
}

/** Returns the memory of a chunk if Node has allocated it only for this chunk. Otherwise returns a copy. */
function memoryOf({ buffer, byteOffset, byteLength }: Buffer): ArrayBuffer {
  if (byteOffset === 0 && byteLength === buffer.byteLength) return buffer as ArrayBuffer
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

/**
 * Encodes a header value as UTF-8, with one character for each byte. Characters that would end the header line are
 * removed.
 */
function inUtf8(text: string): string {
  return Buffer.from(text.replace(/[\0\r\n]/g, '')).toString('latin1')
}

let dateSecond = 0
let dateLine = ''

/** Returns the header line with the date. It is made once a second. */
function dateHeader(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateLine = `Date: ${new Date(second * 1000).toUTCString()}\r\n`
  }
  return dateLine
}
