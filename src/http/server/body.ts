/**
 * Reads request bodies. A body that arrives in one chunk is passed on without a copy. A larger body is collected in a
 * buffer that grows with the bytes that arrive. There is a limit for each body and a limit for all bodies together. An
 * upload that is too slow is cut off.
 */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import { FRONT_BODY_BYTES_MAX, SMALL_SLAB_BODY_BYTES_MAX } from '../../base/limits.ts'
import type { Gauge } from '../../base/metrics.ts'
import { type RefusalReason, refusal } from '../../base/refusals.ts'
import { type Slab, Slabs } from '../../base/slabs.ts'
import type { Exchange, Reservations } from './exchange.ts'
import {
  BODY_DRAIN_BYTES_MAX,
  BODY_READ_BYTES_MAX,
  BODY_SPARES_MAX,
  BODY_SWEEP_MS_MAX,
} from './limits.ts'
import { type Closing, sendError } from './respond.ts'

/** The size in bytes of the first buffer for a body that arrives in several chunks. */
const FIRST_BUFFER_BYTES = 64 * 1024
/**
 * Bodies up to this size are processed at once on the main thread. They are collected in reused memory, so that they
 * create no work for the garbage collector. Larger bodies are collected in slabs: shared memory that is reused
 * (base/slabs.ts).
 */
const SPARE_BYTES = FRONT_BODY_BYTES_MAX
/**
 * Once this many bytes of a body have arrived, its buffer is enlarged to the declared length, or replaced by a large
 * slab (base/slabs.ts).
 */
const DECLARED_BUFFER_FROM_BYTES = SMALL_SLAB_BODY_BYTES_MAX

/**
 * The slowest allowed upload. It may take `graceMs`, and 1 second more for every `bytesPerSecondMin` bytes that have
 * arrived.
 */
export interface UploadPace {
  readonly graceMs: number
  readonly bytesPerSecondMin: number
}

/**
 * The share of the memory that all bodies together may use. A body needs several times its size while it is checked,
 * and stores and threads need memory, too.
 */
const MEMORY_PART = 1 / 8

/**
 * Returns how many bytes all bodies may have together. It is the configured number, or less if the control group of the
 * process has too little memory. It is at least `bodyBytesMax`, because otherwise the largest allowed body would never
 * fit.
 */
export function bodyBudgetBytes(configuredBytes: number, bodyBytesMax: number): number {
  // If the memory of the process is not limited, Node returns 0 or undefined, depending on its version.
  const memoryBytes = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.min(configuredBytes, Math.max(bodyBytesMax, Math.floor(memoryBytes * MEMORY_PART)))
}

const DEFAULT_PACE: UploadPace = { graceMs: 10_000, bytesPerSecondMin: 100 * 1024 }

const spares: Uint8Array[] = []

/** The budget in which memory for bodies is reserved: that of the whole server, or one sender's share of it. */
export interface BodyReservations extends Reservations {
  /** The reason of the error that the client gets if `tryReserve` returns false. */
  readonly fullReason: RefusalReason
  /** Reserves bytes and returns true. If there is not enough room, reserves nothing and returns false. */
  tryReserve(bytes: number): boolean
}

/**
 * Limits the bytes that the bodies of open requests occupy together, and watches for slow uploads. The whole declared
 * length is reserved before anything is read, so that an upload that has started can be finished. A body that arrives
 * in one chunk needs no reservation.
 */
export class BodyBudget implements BodyReservations {
  readonly fullReason = 'bodies_full'
  /** The shared memory for large bodies (base/slabs.ts). */
  readonly slabs: Slabs
  readonly #bytesMax: number
  readonly #clock: Clock
  readonly #pace: UploadPace
  readonly #gauge: Gauge | null
  readonly #uploads = new Set<Upload>()
  #bytesInFlight = 0
  #sweepTimer: NodeJS.Timeout | undefined
  #isQuiet = false

  /** @param options.bytesMax how many bytes the bodies on all connections may have together. */
  constructor(options: {
    readonly bytesMax: number
    readonly clock: Clock
    readonly pace?: UploadPace
    readonly gauge?: Gauge
  }) {
    this.slabs = new Slabs(options.bytesMax)
    this.#bytesMax = options.bytesMax
    this.#clock = options.clock
    this.#pace = options.pace ?? DEFAULT_PACE
    this.#gauge = options.gauge ?? null
  }

  /** How many bytes the bodies on all connections may have together. */
  get bytesMax(): number {
    return this.#bytesMax
  }

  /** How many bytes are reserved at the moment. */
  get bytesInFlight(): number {
    return this.#bytesInFlight
  }

  /** Reserves bytes and returns true. If the budget has not enough room, reserves nothing and returns false. */
  tryReserve(bytes: number): boolean {
    if (this.#bytesInFlight + bytes > this.#bytesMax) return false
    this.#setBytes(this.#bytesInFlight + bytes)
    return true
  }

  /** Releases bytes that `tryReserve` has reserved. */
  release(bytes: number): void {
    this.#setBytes(this.#bytesInFlight - bytes)
  }

  /**
   * Checks the pace of an upload until `unwatch` is called. Returns the time at which it started, on the clock of this
   * budget.
   */
  watch(upload: Upload): number {
    this.#uploads.add(upload)
    this.#sweepTimer ??= setInterval(
      () => {
        this.#cutSlowUploads()
      },
      Math.min(BODY_SWEEP_MS_MAX, this.#pace.graceMs),
    )
    this.#isQuiet = false
    return this.#clock.monotonic()
  }

  /** Stops watching an upload. It does nothing if the upload is not watched. */
  unwatch(upload: Upload): void {
    this.#uploads.delete(upload)
  }

  /**
   * Cuts off the uploads that are too slow. One timer serves all uploads, because a timer for each upload would be
   * expensive. The timer stops when there was no upload for a whole period.
   */
  #cutSlowUploads(): void {
    if (this.#uploads.size === 0 && this.#isQuiet) {
      clearInterval(this.#sweepTimer)
      this.#sweepTimer = undefined
    }
    this.#isQuiet = this.#uploads.size === 0
    const nowMs = this.#clock.monotonic()
    const { graceMs, bytesPerSecondMin } = this.#pace
    for (const upload of this.#uploads) {
      const allowedMs = graceMs + (upload.receivedBytes / bytesPerSecondMin) * 1000
      if (nowMs - upload.startedAtMs > allowedMs) upload.cut()
    }
  }

  #setBytes(bytes: number): void {
    this.#bytesInFlight = bytes
    if (this.#gauge !== null) this.#gauge.value = bytes
  }
}

/** The reception of a body that arrives in several chunks. */
interface Upload {
  readonly startedAtMs: number
  readonly receivedBytes: number
  cut(): void
}

/** The limits and callbacks with which a body is read. */
export interface BodyOptions {
  /** The largest number of bytes of one body. A larger body is refused with 413 `request_too_large`. */
  readonly bytesMax: number
  readonly budget: BodyBudget
  /** The budget in which bytes are reserved. The default is `budget`. */
  readonly reservations?: BodyReservations
  /** True if large bodies are collected in slabs of the budget, while slabs are free. */
  readonly usesSlabs?: boolean
  /**
   * Receives the whole body. It is called once, while the exchange is open. With `isTransient`, the memory is reused
   * after the call returns, so the receiver must copy the bytes that it needs later. With a `slab`, the body is in the
   * slab, which belongs to the receiver unless the call throws. Otherwise the body has an ArrayBuffer of its own, which
   * may be longer than the body and may be kept or transferred. The bytes of the body stay reserved until the exchange
   * is answered. Errors that the call throws are answered by `sendError`.
   */
  readonly onBody: (body: Uint8Array, isTransient: boolean, slab: Slab | null) => void
  /** Called for a body that is too large, before the error is answered. */
  readonly onTooLarge?: (error: ServiceError) => void
}

/**
 * Reads the body of a request. Call it before the handler returns. `declaredBytes` is the Content-Length, or null for a
 * chunked body and for a request without a body. A missing body is delivered as an empty one. A body that is too large
 * is answered 413 `request_too_large`. If its declared length is too large, it is not read at all. If the budget is
 * used up, the answer is 503 `server_error`. If the client leaves, nothing is delivered.
 */
export function collectBody(
  exchange: Exchange,
  declaredBytes: number | null,
  options: BodyOptions,
): void {
  if (declaredBytes !== null && declaredBytes > options.bytesMax) {
    sendError(exchange, tooLarge(options), closingFor(declaredBytes))
    return
  }
  let upload: BodyUpload | null = null
  // uWebSockets.js reports a chunked body only when its first byte arrives. The upload is therefore created here, so
  // that a client that sends nothing is cut off, too.
  const isChunked = declaredBytes === null && exchange.endsConnection
  if (isChunked || (declaredBytes !== null && declaredBytes > BODY_READ_BYTES_MAX)) {
    upload = new BodyUpload(exchange, declaredBytes, options)
    if (!exchange.isOpen || exchange.isAnswerDelayed) return
  } else {
    exchange.isBodyAwaited = true
  }
  exchange.response.onData((chunk, isLast) => {
    // uWebSockets.js delivers the rest of a body even if the request was answered before the body had ended. The rest
    // is ignored.
    if (!exchange.isOpen || exchange.isAnswerDelayed) return
    if (upload === null) {
      exchange.isBodyAwaited = false
      if (isLast) {
        deliver(exchange, options.onBody, new Uint8Array(chunk), true, null)
        return
      }
      upload = new BodyUpload(exchange, declaredBytes, options)
    }
    upload.take(new Uint8Array(chunk), isLast)
  })
}

class BodyUpload implements Upload {
  readonly startedAtMs: number
  readonly #exchange: Exchange
  readonly #declaredBytes: number | null
  readonly #options: BodyOptions
  #buffer: Uint8Array = new Uint8Array(0)
  /** The reusable memory that `#buffer` uses. Null if `#buffer` uses other memory. */
  #spare: Uint8Array | null = null
  /** The slab (base/slabs.ts) that `#buffer` uses. Null if `#buffer` uses other memory. */
  #slab: Slab | null = null
  #receivedBytes = 0
  #reservedBytes = 0

  constructor(exchange: Exchange, declaredBytes: number | null, options: BodyOptions) {
    this.#exchange = exchange
    this.#declaredBytes = declaredBytes
    this.#options = options
    this.startedAtMs = options.budget.watch(this)
    exchange.onAbort = () => {
      this.#end()
      exchange.finish(0)
    }
    this.#reserve(declaredBytes ?? Math.min(FIRST_BUFFER_BYTES, options.bytesMax))
  }

  get receivedBytes(): number {
    return this.#receivedBytes
  }

  /** Closes the connection. `onAbort` is then called, which releases the memory of the body. */
  cut(): void {
    if (this.#exchange.isOpen) this.#exchange.response.close()
  }

  take(chunk: Uint8Array, isLast: boolean): void {
    if (!this.#exchange.isOpen) return
    const neededBytes = this.#receivedBytes + chunk.length
    if (neededBytes > this.#options.bytesMax) {
      this.#refuse(tooLarge(this.#options))
      return
    }
    if (neededBytes > this.#buffer.length && !this.#grow(neededBytes)) return
    this.#buffer.set(chunk, this.#receivedBytes)
    this.#receivedBytes = neededBytes
    if (!isLast) return
    const body = this.#buffer.subarray(0, neededBytes)
    this.#stop()
    if (this.#exchange.endsConnection) setImmediate(() => this.#deliver(body))
    else this.#deliver(body)
  }

  /**
   * Delivers the whole body. A chunked body is delivered only after the HTTP library has parsed all bytes that arrived
   * together with its end. If something other than the end of the body is among them (a trailer, another request,
   * garbage), the library has closed the connection by then, and the request is not executed.
   */
  #deliver(body: Uint8Array): void {
    if (this.#exchange.isOpen) {
      deliver(this.#exchange, this.#options.onBody, body, this.#spare !== null, this.#slab)
      this.#slab = null
    } else {
      this.#exchange.finish(0)
    }
    this.#release()
  }

  /** Makes room for `neededBytes`. Returns false if the body had to be refused. */
  #grow(neededBytes: number): boolean {
    if (this.#declaredBytes !== null && this.#declaredBytes <= SPARE_BYTES) {
      this.#spare = spares.pop() ?? new Uint8Array(Buffer.allocUnsafeSlow(SPARE_BYTES).buffer)
      this.#buffer = this.#spare
      return true
    }
    const capacity = this.#nextCapacity(neededBytes)
    if (capacity > this.#reservedBytes && !this.#reserve(capacity)) return false
    const outgrown = this.#slab
    if (outgrown === null || outgrown.bodyBytesMax < capacity) this.#slab = this.#takeSlab(capacity)
    // The memory is not filled with zeros, because it is overwritten. It is not part of Node's pool, because it may be
    // transferred to a thread.
    const memory = this.#slab?.memory ?? Buffer.allocUnsafeSlow(capacity).buffer
    const grown = new Uint8Array(memory, 0, capacity)
    if (memory !== this.#buffer.buffer) grown.set(this.#buffer.subarray(0, this.#receivedBytes))
    this.#buffer = grown
    if (outgrown !== this.#slab) outgrown?.release()
    return true
  }

  /**
   * Takes a slab for a body that is too large for reusable memory: a small slab as long as the body fits into it, then
   * a large slab with room for all bytes that may still arrive. Returns null if the body uses no slab, or if no slab is
   * free.
   */
  #takeSlab(capacity: number): Slab | null {
    const { budget, usesSlabs, bytesMax } = this.#options
    if (usesSlabs !== true || capacity <= SPARE_BYTES) return null
    const isSmall = capacity <= SMALL_SLAB_BODY_BYTES_MAX
    return budget.slabs.take(isSmall ? capacity : (this.#declaredBytes ?? bytesMax))
  }

  #nextCapacity(neededBytes: number): number {
    const most = this.#declaredBytes ?? this.#options.bytesMax
    if (this.#declaredBytes !== null && neededBytes >= DECLARED_BUFFER_FROM_BYTES) return most
    const factor = this.#declaredBytes === null ? 2 : 4
    const grown = Math.max(FIRST_BUFFER_BYTES, neededBytes, this.#buffer.length * factor)
    // As long as the body fits into a small slab, the buffer does not grow beyond the size of a small slab.
    const bound = neededBytes <= SMALL_SLAB_BODY_BYTES_MAX ? SMALL_SLAB_BODY_BYTES_MAX : most
    return Math.max(neededBytes, Math.min(grown, most, bound))
  }

  /**
   * Raises the number of reserved bytes to `bytes`. If the budget has not enough room, it answers 503 and returns
   * false.
   */
  #reserve(bytes: number): boolean {
    const { budget, reservations = budget } = this.#options
    const moreBytes = bytes - this.#reservedBytes
    if (!reservations.tryReserve(moreBytes)) {
      this.#refuse(refusal(reservations.fullReason))
      return false
    }
    this.#reservedBytes = bytes
    this.#exchange.hold(reservations, moreBytes)
    return true
  }

  #refuse(error: ServiceError): void {
    this.#end()
    const restBytes =
      this.#declaredBytes === null ? null : this.#declaredBytes - this.#receivedBytes
    sendError(this.#exchange, error, closingFor(restBytes))
  }

  #end(): void {
    this.#stop()
    this.#release()
  }

  /** Ends the reception of the body. */
  #stop(): void {
    this.#options.budget.unwatch(this)
    this.#exchange.onAbort = null
    this.#buffer = new Uint8Array(0)
  }

  #release(): void {
    if (this.#spare !== null && spares.length < BODY_SPARES_MAX) spares.push(this.#spare)
    this.#spare = null
    this.#slab?.release()
    this.#slab = null
  }
}

/**
 * Returns how the connection is closed if `restBytes` of the body have not arrived yet. Null means that their number is
 * unknown.
 */
function closingFor(restBytes: number | null): Closing {
  return restBytes !== null && restBytes <= BODY_DRAIN_BYTES_MAX ? 'drain' : 'cut'
}

function tooLarge({ bytesMax, onTooLarge }: BodyOptions): ServiceError {
  const error = new ServiceError(
    'request_too_large',
    `The body is larger than ${bytesMax} bytes. Split it into several requests.`,
  )
  onTooLarge?.(error)
  return error
}

function deliver(
  exchange: Exchange,
  onBody: BodyOptions['onBody'],
  body: Uint8Array,
  isTransient: boolean,
  slab: Slab | null,
): void {
  try {
    onBody(body, isTransient, slab)
  } catch (error) {
    slab?.release()
    sendError(exchange, error)
  }
}
