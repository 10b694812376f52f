/**
 * Answers of `node:http` in the shape of `front.ts`. They are written directly to the socket, head included. Node's own
 * way makes two writes of each answer and adds headers. Node buffers the bytes that a socket does not accept. It
 * therefore gets one slice at a time, so that a client that does not read occupies no more than one slice.
 */
import type { FrontResponse } from './front.ts'
import { BODY_DRAIN_BYTES_MAX } from './limits.ts'
import type { BodyTaker } from './node-request.ts'

/** The connection that an answer is written to. */
export interface ResponseConnection {
  /** True if the connection has ended. Nothing is written then. */
  readonly isClosed: boolean
  /** The number of bytes that were written but not yet accepted by the socket. */
  readonly waitingBytes: number
  /** Writes Latin-1 text or bytes, which must not change afterwards. */
  write(data: string | Uint8Array, onTaken?: (error?: Error | null) => void): void
  /** Sends everything together that `write` writes. */
  together(write: () => void): void
  close(): void
  /** Closes the connection after all written bytes have been sent. */
  closeWhenTaken(): void
  /** Treats no further bytes of the client as a request. */
  takeNoMore(): void
  pause(): void
  getRemoteAddress(): ArrayBuffer
}

/** The properties of the request that its answer depends on. */
export interface AboutRequest {
  readonly isHead: boolean
  /** The declared length of the body, as `NodeRequest` has it. */
  readonly declaredBytes: number
  /** True if the client waits for `100 Continue` before it sends its body. */
  readonly expectsContinue: boolean
  /** `isLast` is true if the connection is closed after the answer. `isToldSo` is true if a header announces it. */
  readonly isLast: boolean
  readonly isToldSo: boolean
  /** Called when the answer is written and the request is received completely. */
  readonly onDone: () => void
}

/** The bytes that are passed to the socket at a time. */
const SLICE_BYTES = 64 * 1024
/** A body up to this size is written as one text together with its head. */
const JOINED_BYTES = 16 * 1024
const NO_BYTES = new ArrayBuffer(0)
/** Matches header values that need no encoding. */
const PLAIN = /^[\t\x20-\x7e]*$/

/** One answer. It also receives the body of its request. */
export class NodeResponse implements FrontResponse, BodyTaker {
  /** True if the answer is complete, or if the client has left. */
  isEnded = false
  /** True if the whole body of the request was received. */
  isBodyComplete: boolean
  /** The number of bytes of that body so far. */
  receivedBytes = 0
  isHeadOut = false
  readonly #connection: ResponseConnection
  readonly #about: AboutRequest
  #expectsContinue: boolean
  #isClosing: boolean
  /** True if the head announces that the connection will be closed. */
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
    this.#about = about
    this.isBodyComplete = about.declaredBytes === 0
    this.#expectsContinue = about.expectsContinue
    this.#isClosing = about.isLast
    if (about.isToldSo) this.writeHeader('Connection', 'close')
  }

  /** True if the body of the request is chunked. */
  get isInChunks(): boolean {
    return this.#about.declaredBytes < 0
  }

  /** True if the handler has asked for the body. */
  get isBodyAsked(): boolean {
    return this.#onData !== null
  }

  /** Called after the handler has returned. It delivers an empty body if the handler has asked for one. */
  begin(): void {
    if (this.isBodyComplete) this.#onData?.(NO_BYTES, true)
  }

  /** Makes this the last answer, because the bytes after the request are not a valid request. */
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
    if (this.receivedBytes === this.#about.declaredBytes) this.isBodyComplete = true
    this.#onData?.(memoryOf(chunk), this.isBodyComplete)
    if (this.isBodyComplete && this.isEnded) this.#done()
  }

  endBody(hasTrailer: boolean): void {
    // A body with a declared length has already ended with its last byte.
    if (!this.isInChunks) return
    this.isBodyComplete = true
    // A request with a trailer is not executed, as with uWebSockets.js.
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
    if (!this.isHeadOut) {
      this.#isChunked = true
      this.writeHeader('Transfer-Encoding', 'chunked')
      this.#connection.write(this.#head())
    }
    if (chunk.length === 0 || this.#about.isHead) return true
    this.#connection.together(() => {
      this.#connection.write(`${chunk.length.toString(16)}\r\n`)
      this.#connection.write(Buffer.from(chunk))
      this.#connection.write('\r\n', this.#onTaken)
    })
    return this.#isTaken()
  }

  end(body: string | Uint8Array = '', closesConnection = false): void {
    if (this.isEnded || this.#connection.isClosed) return
    if (this.isHeadOut) {
      if (this.#isChunked && !this.#about.isHead) this.#connection.write('0\r\n\r\n')
      this.#end(closesConnection)
      return
    }
    if (closesConnection) this.writeHeader('Connection', 'close')
    const bytes = typeof body === 'string' ? Buffer.from(body) : bufferOf(body)
    this.#headers += `Content-Length: ${bytes.length}\r\n`
    const head = this.#head()
    if (this.#about.isHead) this.#connection.write(head)
    // One text is sent with one call, and it is a copy of the body.
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
    // The last slice may not be sent yet. It is a copy.
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
    return `HTTP/1.1 ${this.#status}\r\n${dateHeader()}${this.#headers}\r\n`
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
   * to be closed at once.
   */
  #end(isCut: boolean): void {
    this.isEnded = true
    if (this.#about.declaredBytes - this.receivedBytes > BODY_DRAIN_BYTES_MAX)
      this.#isClosing = true
    else if (!this.isBodyComplete && !isCut) return
    this.#done()
  }

  #done(): void {
    if (this.#isDone || this.#connection.isClosed) return
    this.#isDone = true
    if (this.#isClosing) this.#connection.closeWhenTaken()
    else this.#about.onDone()
  }
}

/** Returns the memory of a chunk if Node has allocated it for this chunk alone, else a copy. */
function memoryOf({ buffer, byteOffset, byteLength }: Buffer): ArrayBuffer {
  if (byteOffset === 0 && byteLength === buffer.byteLength) return buffer as ArrayBuffer
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

/** Encodes a header value as UTF-8, one character for each byte. Characters that would end the line are removed. */
function inUtf8(text: string): string {
  return Buffer.from(text.replace(/[\0\r\n]/g, '')).toString('latin1')
}

let dateSecond = 0
let dateLine = ''

/** Returns the header Date, which is made once per second. */
function dateHeader(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateLine = `Date: ${new Date(second * 1000).toUTCString()}\r\n`
  }
  return dateLine
}
