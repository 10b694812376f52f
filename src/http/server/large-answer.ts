/**
 * Answers that do not fit into the buffer of a socket. uWebSockets.js would copy the rest and keep it for as
 * long as the client likes; here it stays where it is, in its parts, or is not made before the client has
 * read what is there. http/server/waiting-answers.ts says for how long, and how much all of them may hold.
 */
import type { TextPieces } from '../../base/pages.ts'
import type { Exchange } from './exchange.ts'
import type { WaitingAnswer } from './waiting-answers.ts'

/** Bytes of a piece that are handed to the HTTP library at a time; it copies what the socket does not take. */
const SLICE_BYTES = 64 * 1024

/** Bytes of an answer that are written before others have their turn. */
const TURN_BYTES = 256 * 1024

/** Writes status and headers. */
type WriteHead = () => void

/** What both kinds of answers have: the time that they waited, and an orderly end. */
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

  /** The answer begins to wait for its reader. */
  protected wait(): void {
    this.sinceMs = performance.now()
  }

  /** The reader has taken something. */
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

/** A body that is there as a whole. */
export interface LargeBody {
  readonly parts: readonly Uint8Array[]
  /** Its memory is kept anyway, and not counted. */
  readonly isShared: boolean
  /** Its memory is written again afterwards: what the socket does not take at once is copied. */
  readonly isReused: boolean
  /** The connection is closed behind it; then it must not be started from a handler of the library. */
  readonly isCut: boolean
}

/** The memory that parts lie in, each once. */
export function memoryOfParts(parts: readonly Uint8Array[]): readonly ArrayBufferLike[] {
  return [...new Set(parts.map(({ buffer }) => buffer))]
}

/** An answer that is there as a whole, in parts. */
export class LargeAnswer extends PacedAnswer {
  readonly #body: LargeBody
  readonly #bytes: number
  #headBytes = 0
  /** What is left to write, and where in the body it begins. */
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
    // Not corked: what is taken then has left, and the connection may be closed behind it.
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

  /** The rest follows when the socket takes more, or when others had their turn. */
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

  /** Copies what the first call has not taken. */
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

  /** Called when the client has read something. False asks to be called again. */
  #resume(offset: number): boolean {
    // Also called when what was sent before this answer leaves, while it waits for its turn.
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

  /** Writes from a position of the body on, until the socket takes no more or others have their turn. */
  #write(start: number): 'done' | 'full' | 'turn' {
    const { response } = this.exchange
    const { isCut, isReused } = this.#body
    // The length in the head is that of the first call. One byte more keeps the answer from being complete
    // for the library, which would go on to the next request: it cannot close behind a body in steps.
    const endBytes = isCut ? this.#bytes + 1 : this.#bytes
    // Turns are corked, and behind what is corked no connection may be closed. What is used again is not copied
    // without need.
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

/** An answer that is made while it is read, of unknown length. */
export class StreamedAnswer extends PacedAnswer {
  readonly #pieces: TextPieces
  #piece: Uint8Array = new Uint8Array(0)
  #isOver = false

  constructor(exchange: Exchange, status: number, pieces: TextPieces) {
    super(exchange, status)
    this.#pieces = pieces
  }

  start(writeHead: WriteHead): void {
    const { exchange } = this
    exchange.onAbort = () => {
      this.#isOver = true
      this.#pieces.cancel()
      this.finish()
    }
    exchange.owner.waiting.add(this)
    exchange.response.onWritable(() => {
      // Also called when what was sent before this answer leaves, while the next piece is being made.
      const isWaiting = this.sinceMs !== null
      this.resume()
      if (isWaiting) exchange.response.cork(() => this.#write())
      return true
    })
    exchange.response.cork(writeHead)
    this.#goOn()
  }

  /** Asks for the next piece. What is out already cannot be taken back: after a failure the rest is missing. */
  #goOn(): void {
    this.#pieces.next().then(
      (piece) => this.#take(piece),
      (error: unknown) => {
        if (this.#isOver) return
        this.exchange.owner.reportError(this.exchange, error)
        this.cut()
      },
    )
  }

  #take(piece: Uint8Array | null): void {
    if (this.#isOver) return
    const { response, owner, endsConnection } = this.exchange
    if (piece === null) {
      this.#isOver = true
      // Asked to close, the library would write a header into the body. Of a connection that must end it
      // reads nothing more instead, until its timer for idle ones closes it.
      if (endsConnection) response.pause()
      response.cork(() => response.end())
      this.finish()
      return
    }
    owner.waiting.changed(piece.length)
    this.heldBytes += piece.length
    this.#piece = piece
    response.cork(() => this.#write())
  }

  /** Writes until the socket takes no more or the piece is out. */
  #write(): void {
    while (this.#piece.length > 0) {
      const slice = this.#piece.subarray(0, SLICE_BYTES)
      this.#piece = this.#piece.subarray(slice.length)
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
