/**
 * Sends answers that do not fit into the buffer of a socket. uWebSockets.js would copy the rest of such an answer, and
 * keep the copy until the client has read it. Here, the rest of a complete body stays in its original memory. If a body
 * is made in chunks (`StreamedAnswer`), the next chunk is made only after the client has read the earlier ones.
 * http/server/waiting-answers.ts limits how long an answer may wait and how many bytes all waiting answers hold. If a
 * client sends another request before it has read the answer, the library closes the connection. Therefore requests
 * whose answers are not read cannot fill the memory.
 */
import type { TextChunks } from '../../base/pages.ts'
import type { Exchange } from './exchange.ts'
import type { WaitingAnswer } from './waiting-answers.ts'

/**
 * The number of bytes that are passed to the HTTP library at a time. The library copies those that the socket does not
 * accept.
 */
const SLICE_BYTES = 64 * 1024

/** The number of bytes of one answer that are written before other requests get their turns. */
const TURN_BYTES = 256 * 1024

/** Writes the status and the headers of an answer. */
type WriteHead = () => void

/**
 * The common part of `LargeAnswer` and `StreamedAnswer`. It measures how long an answer has waited for its client, and
 * completes the exchange.
 */
abstract class PacedAnswer implements WaitingAnswer {
  protected readonly exchange: Exchange
  readonly #status: number
  heldBytes = 0
  memory: readonly ArrayBufferLike[] = []
  readBytes = 0
  waitedMs = 0
  sinceMs: number | null = null

  constructor(exchange: Exchange, status: number) {
    this.exchange = exchange
    this.#status = status
  }

  cut(): void {
    if (this.exchange.isOpen) this.exchange.response.close()
  }

  /** Records that the answer begins to wait for its client. */
  protected wait(): void {
    this.sinceMs = performance.now()
  }

  /** Records that the client has read some bytes. */
  protected resume(): void {
    if (this.sinceMs === null) return
    this.waitedMs += performance.now() - this.sinceMs
    this.sinceMs = null
  }

  protected finish(): void {
    this.exchange.owner.waiting.remove(this)
    this.exchange.finish(this.#status)
  }
}

/** The body of an answer that is complete in memory. */
export interface LargeBody {
  readonly parts: readonly Uint8Array[]
  /** True if a cache holds the memory anyway, so that it is not counted as memory of the answer. */
  readonly isShared: boolean
  /**
   * True if the caller overwrites the memory after `start` has returned. In that case, the bytes that the socket does
   * not accept at once are copied.
   */
  readonly isReused: boolean
  /**
   * True if the connection is closed after the answer. Such an answer must not be started while a handler of the
   * library runs.
   */
  readonly isCut: boolean
}

/** Returns the buffers that contain the parts, without duplicates. */
export function memoryOfParts(parts: readonly Uint8Array[]): readonly ArrayBufferLike[] {
  return [...new Set(parts.map(({ buffer }) => buffer))]
}

/** An answer whose body is complete in memory, in one or several parts. */
export class LargeAnswer extends PacedAnswer {
  readonly #body: LargeBody
  readonly #bytes: number
  #headBytes = 0
  /**
   * The parts of the body that `#write` goes through, and the offset of the first of them in the body. `#write` skips
   * the parts that are already written.
   */
  #parts: readonly Uint8Array[]
  #partsAt = 0
  #isTurnDue = false
  #isOver = false

  constructor(exchange: Exchange, status: number, body: LargeBody) {
    super(exchange, status)
    this.#body = body
    this.#bytes = body.parts.reduce((sum, part) => sum + part.length, 0)
    this.#parts = body.parts
  }

  start(writeHead: WriteHead): void {
    const { response } = this.exchange
    this.exchange.onAbort = () => this.#end()
    response.cork(() => {
      writeHead()
      this.#headBytes = response.getWriteOffset()
      if (this.#body.isCut) response.tryEnd('', this.#bytes)
      else this.#begin()
    })
    // This write is not corked: the library passes the bytes directly to the socket. All bytes that the socket accepts
    // have therefore left the process, and the connection may be closed after them.
    if (this.#body.isCut) this.#begin()
  }

  #begin(): void {
    const { isReused, isShared } = this.#body
    const outcome = this.#write(0)
    if (outcome === 'done') return
    if (isReused) this.#keepRest()
    if (!isShared) this.memory = memoryOfParts(this.#parts)
    this.exchange.owner.waiting.add(this)
    this.exchange.response.onWritable((offset) => this.#resume(offset))
    this.#goOn(outcome)
  }

  /**
   * Arranges that the rest of the answer is written later: when the socket accepts more (`full`), or after other
   * requests have had their turns (`turn`).
   */
  #goOn(outcome: 'full' | 'turn'): void {
    if (outcome === 'full') {
      this.wait()
      return
    }
    this.#isTurnDue = true
    setImmediate(() => {
      this.#isTurnDue = false
      const { response } = this.exchange
      if (!this.#isOver) response.cork(() => this.#resume(response.getWriteOffset()))
    })
  }

  /**
   * Copies the bytes that the first call of `#write` did not write, because their memory is about to be overwritten.
   */
  #keepRest(): void {
    const taken = this.exchange.response.getWriteOffset() - this.#headBytes
    let end = 0
    this.#parts = this.#parts.flatMap((part) => {
      const begin = end
      end += part.length
      return end <= taken ? [] : [Buffer.from(part.subarray(Math.max(0, taken - begin)))]
    })
    this.#partsAt = taken
  }

  /**
   * Continues after the client has read some bytes, or after other requests have had their turns. Returns false if the
   * socket is full again, so that the library must call this method again.
   */
  #resume(offset: number): boolean {
    // The library also calls this when bytes of an earlier answer are sent while this answer waits for its turn.
    if (this.#isTurnDue) return true
    this.resume()
    this.readBytes = offset - this.#headBytes
    const outcome = this.#write(this.readBytes)
    if (outcome === 'done') return true
    this.#goOn(outcome)
    return outcome === 'turn'
  }

  #end(): void {
    this.#isOver = true
    this.finish()
  }

  /** Writes the body from an offset on, until the socket is full or other requests must get their turns. */
  #write(start: number): 'done' | 'full' | 'turn' {
    const { response } = this.exchange
    const { isCut, isReused } = this.#body
    // If the connection is closed after the answer, the length that is passed to the library is one byte larger than
    // the body, so the library never considers the answer as complete. Otherwise the library would continue with the
    // next request before the connection is closed below. The client does not see the larger length, because the first
    // call of `tryEnd` has already written the header.
    const endBytes = isCut ? this.#bytes + 1 : this.#bytes
    // Writes in later turns are corked, and a connection must not be closed after corked bytes. Therefore an answer
    // that closes its connection is written in one turn. Reused memory is also written in one turn, because everything
    // that is left after the turn must be copied.
    let room = isCut || isReused ? Number.POSITIVE_INFINITY : TURN_BYTES
    let end = this.#partsAt
    for (const part of this.#parts) {
      const begin = end
      end += part.length
      if (end <= start || part.length === 0) continue
      if (room <= 0) return 'turn'
      const from = Math.max(0, start - begin)
      const rest = part.subarray(from, from + room)
      room -= rest.length
      const [isTaken, isDone] = response.tryEnd(rest, endBytes)
      if (isDone) {
        this.#end()
        return 'done'
      }
      if (!isTaken) return 'full'
      if (from + rest.length < part.length) return 'turn'
    }
    if (!isCut) return 'full'
    this.#end()
    response.close()
    return 'done'
  }
}

/**
 * The rest of a short answer, if its socket did not accept all bytes at once. The exchange is already finished, so only
 * the remaining bytes are kept in memory, until the client has read them or has disconnected.
 */
export class AnswerRest implements WaitingAnswer {
  readonly heldBytes: number
  waitedMs = 0
  sinceMs = performance.now()
  readBytes = 0
  readonly #exchange: Exchange
  readonly #totalBytes: number
  readonly #rest: Uint8Array
  #isOver = false

  /** Called after one call of `tryEnd` with the whole `body`. Copies the bytes that the socket has not accepted. */
  constructor(exchange: Exchange, body: Uint8Array) {
    this.#exchange = exchange
    this.#totalBytes = body.length
    this.#rest = Buffer.from(body.subarray(exchange.response.getWriteOffset()))
    this.heldBytes = this.#rest.length
  }

  /** Starts to wait for the client. Closes the connection if waiting answers hold too many bytes. */
  start(): void {
    const { owner, response } = this.#exchange
    if (!owner.waiting.hasRoom(this.heldBytes)) {
      response.close()
      return
    }
    this.#exchange.onAbort = () => this.#end()
    owner.waiting.add(this)
    response.onWritable((offset) => {
      const nowMs = performance.now()
      this.waitedMs += nowMs - this.sinceMs
      this.sinceMs = nowMs
      this.readBytes = this.heldBytes - (this.#totalBytes - offset)
      const rest = this.#rest.subarray(this.readBytes)
      let isDone = false
      response.cork(() => {
        isDone = response.tryEnd(rest, this.#totalBytes)[1]
      })
      if (isDone) this.#end()
      return isDone
    })
  }

  cut(): void {
    if (!this.#isOver && !this.#exchange.isAborted) this.#exchange.response.close()
  }

  #end(): void {
    this.#isOver = true
    this.#exchange.owner.waiting.remove(this)
  }
}

/** An answer of unknown length, whose chunks are made while the client reads it. */
export class StreamedAnswer extends PacedAnswer {
  readonly #chunks: TextChunks
  #chunk: Uint8Array = new Uint8Array(0)
  #isOver = false

  constructor(exchange: Exchange, status: number, chunks: TextChunks) {
    super(exchange, status)
    this.#chunks = chunks
  }

  start(writeHead: WriteHead): void {
    const { exchange } = this
    exchange.onAbort = () => {
      this.#isOver = true
      this.#chunks.cancel()
      this.finish()
    }
    exchange.owner.waiting.add(this)
    exchange.response.onWritable(() => {
      // The library also calls this when bytes of an earlier answer are sent while the next chunk is being made.
      const isWaiting = this.sinceMs !== null
      this.resume()
      if (isWaiting) exchange.response.cork(() => this.#write())
      return true
    })
    exchange.response.cork(writeHead)
    this.#goOn()
  }

  /**
   * Requests the next chunk. If that fails, the connection is closed, because an answer that has begun cannot be turned
   * into an error.
   */
  #goOn(): void {
    this.#chunks.next().then(
      (chunk) => this.#take(chunk),
      (error: unknown) => {
        if (this.#isOver) return
        this.exchange.owner.reportError(this.exchange, error)
        this.cut()
      },
    )
  }

  #take(chunk: Uint8Array | null): void {
    if (this.#isOver) return
    const { response, owner, endsConnection } = this.exchange
    if (chunk === null) {
      this.#isOver = true
      // With `closesConnection`, the library would write a header into the body. If the connection must end, the server
      // stops reading from it instead, and the idle timer of the library closes the connection.
      if (endsConnection) response.pause()
      response.cork(() => response.end())
      this.finish()
      return
    }
    owner.waiting.changed(chunk.length)
    this.heldBytes += chunk.length
    this.#chunk = chunk
    response.cork(() => this.#write())
  }

  /** Writes the chunk, until all of it is written or the socket is full. */
  #write(): void {
    while (this.#chunk.length > 0) {
      const slice = this.#chunk.subarray(0, SLICE_BYTES)
      this.#chunk = this.#chunk.subarray(slice.length)
      this.readBytes += slice.length
      if (this.exchange.response.write(slice)) continue
      this.wait()
      return
    }
    this.exchange.owner.waiting.changed(-this.heldBytes)
    this.heldBytes = 0
    this.#goOn()
  }
}
