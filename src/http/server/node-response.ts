/**
 * Answers of `node:http` in the shape of `front.ts`. Node keeps what a socket does not take; here it is given one slice at
 * a time, so that no more than a slice is kept for a client that does not read.
 */
import type { ServerResponse } from 'node:http'
import type { FrontResponse } from './front.ts'
import type { BodyTaker } from './node-request.ts'

/** The connection that an answer goes to. */
export interface ResponseConnection {
  /** The connection is over: nothing may be written. */
  readonly isClosed: boolean
  close(): void
  /** Closes it when the last answer has left. */
  closeWhenFlushed(): void
  pause(): void
  getRemoteAddress(): ArrayBuffer
  /** The connection closes with this answer: what the client sends behind it is never a request. */
  endWithAnswer(): void
  /** Looks after a body that is not complete, or an answer that the socket has not taken. */
  watch(): void
}

/** What is known of the request. */
interface AboutRequest {
  /** As of `NodeRequest`. */
  readonly declaredBytes: number
  /** It waits for `100 Continue` before it sends its body. */
  readonly expectsContinue?: boolean
  /** Nothing behind it is read. */
  readonly isLast?: boolean
}

/** Bytes that are handed to the socket at a time. */
const SLICE_BYTES = 64 * 1024
/** A body up to this size leaves in one packet with its head. */
const JOINED_BYTES = 16 * 1024
const NO_BYTES = new ArrayBuffer(0)
const ONLY_LATIN1 = /^[\0-\xff]*$/

const ignore = (): void => {}

/** One answer. Also takes the body of its request. */
export class NodeResponse implements FrontResponse, BodyTaker {
  /** The answer is complete, or nobody waits for it. */
  isEnded = false
  /** All of the body of the request was received. */
  isBodyComplete: boolean
  /** Bytes of that body so far. */
  receivedBytes = 0
  readonly #connection: ResponseConnection
  readonly #response: ServerResponse
  readonly #declaredBytes: number
  #expectsContinue: boolean
  #status = 200
  #reason = 'OK'
  readonly #headers: string[] = []
  #isClosing = false
  #isHeadOut = false
  #offset = 0
  #isFull = false
  #endsAfterBody = false
  #closesBehind = false
  #onAborted: (() => void) | null = null
  #onData: ((chunk: ArrayBuffer, isLast: boolean) => void) | null = null
  #onWritable: ((offset: number) => boolean) | null = null

  constructor(connection: ResponseConnection, response: ServerResponse, about: AboutRequest) {
    const { declaredBytes, expectsContinue = false, isLast = false } = about
    this.#connection = connection
    this.#response = response
    this.#declaredBytes = declaredBytes
    this.isBodyComplete = declaredBytes === 0
    this.#expectsContinue = expectsContinue
    if (isLast) this.writeHeader('Connection', 'close')
    // What goes wrong with a connection closes it, and its closing is noticed.
    response.on('error', ignore)
  }

  /** The head has left, or is about to. */
  get isHeadOut(): boolean {
    return this.#isHeadOut
  }

  /** The answer is complete, and Node has not sent all of it. */
  get isFlushing(): boolean {
    return this.isEnded && (this.#response.socket !== null || !this.#response.writableFinished)
  }

  get isChunked(): boolean {
    return this.#declaredBytes < 0
  }

  /** What stands behind the request is none: the answer is the last one. */
  closeBehind(): void {
    this.#connection.endWithAnswer()
    if (this.#isHeadOut) this.#closesBehind = true
    else this.writeHeader('Connection', 'close')
  }

  /** The handler has returned: it gets the body if it has asked for it. */
  begin(): void {
    if (this.isBodyComplete) this.#onData?.(NO_BYTES, true)
    else if (!this.#connection.isClosed) this.#connection.watch()
  }

  /** The connection has ended. */
  abort(): void {
    if (this.isEnded) return
    // As with uWebSockets.js: who waits for a body has been told that it begins, and knows what to give back.
    if (!this.isBodyComplete && this.receivedBytes === 0) this.#onData?.(NO_BYTES, false)
    this.isEnded = true
    this.#onAborted?.()
  }

  takeBody(chunk: Buffer): void {
    this.receivedBytes += chunk.length
    if (this.receivedBytes === this.#declaredBytes) this.isBodyComplete = true
    this.#onData?.(memoryOf(chunk), this.isBodyComplete)
  }

  endBody(hasTrailer: boolean): void {
    const { isChunked } = this
    this.isBodyComplete = true
    // As with uWebSockets.js: a request with a trailer is not carried out.
    if (isChunked && hasTrailer) this.#connection.close()
    else if (isChunked) this.#onData?.(NO_BYTES, true)
    if (this.#endsAfterBody && !this.#connection.isClosed) this.#response.end()
  }

  onData(take: (chunk: ArrayBuffer, isLast: boolean) => void): void {
    this.#onData = take
    if (!this.#expectsContinue || this.isEnded || this.#connection.isClosed) return
    this.#expectsContinue = false
    this.#response.writeContinue()
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
    this.#status = Number(status.slice(0, 3))
    this.#reason = status.slice(4)
  }

  writeHeader(name: string, value: string): void {
    if (name === 'Connection' && value === 'close') {
      if (this.#isClosing) return
      this.#isClosing = true
    }
    this.#headers.push(name, ONLY_LATIN1.test(value) ? value : inUtf8(value))
  }

  write(chunk: Uint8Array): boolean {
    if (this.#connection.isClosed) return false
    if (!this.#isHeadOut) this.#writeHead()
    return this.#push(chunk)
  }

  end(body: string | Uint8Array = '', closesConnection = false): void {
    if (this.isEnded || this.#connection.isClosed) return
    if (this.#isHeadOut) {
      this.#finish()
      return
    }
    const isBodyAwaited = !closesConnection && !this.isBodyComplete
    if (closesConnection) this.writeHeader('Connection', 'close')
    const bytes = typeof body === 'string' ? Buffer.from(body) : bufferOf(body)
    this.writeHeader('Content-Length', String(bytes.length))
    this.#writeHead()
    if (isBodyAwaited) {
      this.#response.write(Buffer.from(bytes))
      this.#finishAfterBody()
    } else if (bytes.length <= JOINED_BYTES) {
      // As a text it leaves in one call with the head, and is a copy.
      this.#finish(bytes.toString('latin1'))
    } else {
      this.#finish(Buffer.from(bytes))
    }
  }

  endWithoutBody(reportedLength?: number, closesConnection = false): void {
    if (this.isEnded || this.#connection.isClosed) return
    const isBodyAwaited = !closesConnection && !this.isBodyComplete
    if (closesConnection) this.writeHeader('Connection', 'close')
    if (reportedLength !== undefined) this.writeHeader('Content-Length', String(reportedLength))
    this.#writeHead()
    if (!isBodyAwaited) {
      this.#finish()
      return
    }
    this.#response.flushHeaders()
    this.#finishAfterBody()
  }

  tryEnd(chunk: string | Uint8Array, totalBytes: number): readonly [boolean, boolean] {
    if (this.#connection.isClosed || this.isEnded) return [false, false]
    if (!this.#isHeadOut) {
      this.writeHeader('Content-Length', String(totalBytes))
      this.#writeHead()
      this.#response.flushHeaders()
    }
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    let isTaken = true
    for (let start = 0; isTaken && start < bytes.length; start += SLICE_BYTES) {
      const slice = bytes.subarray(start, start + SLICE_BYTES)
      isTaken = this.#push(slice)
      this.#offset += slice.length
    }
    if (this.#offset < totalBytes) return [isTaken, false]
    // The last slice may still be on its way: it is a copy.
    this.#finish()
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

  #writeHead(): void {
    this.#isHeadOut = true
    // Otherwise Node says that the connection stays open, in two headers.
    if (!this.#isClosing) this.#response.removeHeader('Connection')
    if (this.#isClosing || !this.#response.shouldKeepAlive) this.#connection.endWithAnswer()
    this.#response.writeHead(this.#status, this.#reason, this.#headers)
  }

  /** Gives a copy of some bytes to the socket; false when it has not taken all of them. */
  #push(bytes: Uint8Array): boolean {
    this.#response.write(Buffer.from(bytes), this.#onFlushed)
    this.#uncork()
    this.#isFull = this.#response.writableLength > 0
    return !this.#isFull
  }

  /** Node collects what is written until its next turn; here it has to be known what the socket took. */
  #uncork(): void {
    this.#response.socket?.uncork()
  }

  readonly #onFlushed = (error?: Error | null): void => {
    const isOver = this.isEnded || this.#connection.isClosed || error instanceof Error
    if (isOver || !this.#isFull || this.#response.writableLength > 0) return
    this.#isFull = false
    this.#onWritable?.(this.#offset)
  }

  #finish(rest?: string | Buffer): void {
    this.isEnded = true
    if (rest === undefined) this.#response.end()
    else this.#response.end(rest, 'latin1')
    if (this.#closesBehind) this.#connection.closeWhenFlushed()
    if (!this.isBodyComplete || this.#response.writableLength > 0) this.#connection.watch()
  }

  /**
   * The answer has left before the body has come. Node would stop counting the body at the end of the answer, or close the
   * connection, and a client that is still sending would not see the answer.
   */
  #finishAfterBody(): void {
    this.#uncork()
    this.isEnded = true
    this.#endsAfterBody = true
    this.#connection.watch()
  }
}

/** The memory of a piece, which Node has made for it alone, or a copy if it has not. */
function memoryOf({ buffer, byteOffset, byteLength }: Buffer): ArrayBuffer {
  if (byteOffset === 0 && byteLength === buffer.byteLength) return buffer as ArrayBuffer
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

/** Node writes characters as single bytes. */
function inUtf8(text: string): string {
  return Buffer.from(text).toString('latin1')
}
