/**
 * Reading request bodies. A body that arrives in one piece is handed on without a copy; a larger one
 * is collected into one buffer that grows with what really arrives. The bytes of all bodies together
 * are bounded, each body is bounded, and an upload that is too slow is cut off.
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

/** The first buffer of a body that does not come in one piece. */
const FIRST_BUFFER_BYTES = 64 * 1024
/**
 * Bodies up to this size are read on the front at once, and are collected into memory that is used again, so that
 * they leave nothing to the garbage collector. Larger ones lie in slabs.
 */
const SPARE_BYTES = FRONT_BODY_BYTES_MAX
/** When this much has arrived, the whole declared length is allocated, or a large slab is taken. */
const DECLARED_BUFFER_FROM_BYTES = SMALL_SLAB_BODY_BYTES_MAX

/** How slow an upload may be: `graceMs` + 1 second for each `bytesPerSecondMin` received. */
export interface UploadPace {
  readonly graceMs: number
  readonly bytesPerSecondMin: number
}

/** A body costs several times its size while it is checked, and stores and threads need their share. */
const MEMORY_PART = 1 / 8

/**
 * Bytes for bodies: as configured, or less when the control group of the process has less memory than that
 * needs (no less than `bodyBytesMax`, or one body would never fit). All in bytes.
 */
export function bodyBudgetBytes(configuredBytes: number, bodyBytesMax: number): number {
  // 0 or undefined without a limit, by the version of Node; then no limit is known here.
  const memoryBytes = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.min(configuredBytes, Math.max(bodyBytesMax, Math.floor(memoryBytes * MEMORY_PART)))
}

const DEFAULT_PACE: UploadPace = { graceMs: 10_000, bytesPerSecondMin: 100 * 1024 }

const spares: Uint8Array[] = []

/** Where bytes for bodies are reserved: in the budget, or in the share of it that one sender has. */
export interface BodyReservations extends Reservations {
  /** What is answered when `tryReserve` was false. */
  readonly fullReason: RefusalReason
  /** Takes bytes, or answers false and takes none. */
  tryReserve(bytes: number): boolean
}

/**
 * The bytes that bodies of open requests may occupy together, and the watch over slow uploads. A
 * declared length is reserved as a whole before anything is read, so that whoever starts can finish.
 * Bodies that arrive in one piece need no reservation.
 */
export class BodyBudget implements BodyReservations {
  readonly fullReason = 'bodies_full'
  /** Memory for the large ones among them. */
  readonly slabs: Slabs
  readonly #bytesMax: number
  readonly #clock: Clock
  readonly #pace: UploadPace
  readonly #gauge: Gauge | null
  readonly #uploads = new Set<Upload>()
  #bytesInFlight = 0
  #sweepTimer: NodeJS.Timeout | undefined
  #isQuiet = false

  /** @param options.bytesMax bytes over all connections. */
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

  /** Bytes over all connections. */
  get bytesMax(): number {
    return this.#bytesMax
  }

  /** Bytes reserved now. */
  get bytesInFlight(): number {
    return this.#bytesInFlight
  }

  /** Takes bytes out of the budget, or answers false and takes none. */
  tryReserve(bytes: number): boolean {
    if (this.#bytesInFlight + bytes > this.#bytesMax) return false
    this.#setBytes(this.#bytesInFlight + bytes)
    return true
  }

  /** Gives back what `tryReserve` took. */
  release(bytes: number): void {
    this.#setBytes(this.#bytesInFlight - bytes)
  }

  /** Watches the pace of an upload until `unwatch`. Returns the start on the clock of this budget. */
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

  /** Ends the watch. Harmless when there is none. */
  unwatch(upload: Upload): void {
    this.#uploads.delete(upload)
  }

  /** The timer ends after a whole period without uploads: one for each upload would be dear. */
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

/** A body that is being received in several pieces. */
interface Upload {
  readonly startedAtMs: number
  readonly receivedBytes: number
  cut(): void
}

/** How a body is read. */
export interface BodyOptions {
  /** Bytes of one body. More: 413 `request_too_large`. */
  readonly bytesMax: number
  readonly budget: BodyBudget
  /** Where bytes are reserved; by default in the budget. */
  readonly reservations?: BodyReservations
  /** Large bodies are collected in slabs of the budget while there are some. */
  readonly usesSlabs?: boolean
  /**
   * Receives the whole body, once, while the exchange is open. With `isTransient` it lies in memory that
   * is used for something else when the call returns: copy what is needed later. Otherwise it is the
   * only view of an ArrayBuffer of its own (which may be longer), which may be kept or transferred; its
   * bytes stay reserved until the exchange is answered. What it throws is answered by `sendError`.
   * With a slab it lies in that, which is the receiver's from now on, unless it throws.
   */
  readonly onBody: (body: Uint8Array, isTransient: boolean, slab: Slab | null) => void
  /** Told of a body that is too large, before that is answered. */
  readonly onTooLarge?: (error: ServiceError) => void
}

/**
 * Reads the body of a request; to be called in the handler, before it returns. `declaredBytes` is the
 * Content-Length, or null for a chunked body or none (which is delivered as an empty one). Refuses with
 * 413 `request_too_large`, at once if the declared length tells, and with 503 `server_error` when the
 * budget is used up; both are answered here. After an abort nothing is delivered.
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
  // Of a body in chunks the library tells nothing before its first byte.
  const isChunked = declaredBytes === null && exchange.endsConnection
  if (isChunked || (declaredBytes !== null && declaredBytes > BODY_READ_BYTES_MAX)) {
    upload = new BodyUpload(exchange, declaredBytes, options)
    if (!exchange.isOpen || exchange.isAnswerDelayed) return
  } else {
    exchange.isBodyAwaited = true
  }
  exchange.response.onData((chunk, isLast) => {
    // uWebSockets.js goes on delivering after an answer that was given early.
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
  /** The memory behind `#buffer` when it is to be used again. */
  #spare: Uint8Array | null = null
  /** What `#buffer` lies in when it has outgrown the spares. */
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

  /** Closes the connection; the abort that follows gives everything back. */
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
   * Delivers the whole body. One that came in chunks is delivered when everything that was received with it
   * has been parsed: if that is no proper end (a trailer, another request, junk), the library has closed the
   * connection by then, and nothing of the request is carried out.
   */
  #deliver(body: Uint8Array): void {
    if (this.#exchange.isOpen) {
      deliver(this.#exchange, this.#options.onBody, body, this.#spare !== null, this.#slab)
      this.#slab = null
    } else {
      this.#exchange.finish(0)
    }
    this.#giveBack()
  }

  /** Makes room for `neededBytes`; false when that was refused. */
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
    // Not filled with zeros, and not part of Node's pool: it may be transferred to a thread.
    const memory = this.#slab?.memory ?? Buffer.allocUnsafeSlow(capacity).buffer
    const grown = new Uint8Array(memory, 0, capacity)
    if (memory !== this.#buffer.buffer) grown.set(this.#buffer.subarray(0, this.#receivedBytes))
    this.#buffer = grown
    if (outgrown !== this.#slab) outgrown?.give()
    return true
  }

  /** A small one as soon as the body may not be for the front any more, a large one for all that may come. */
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
    // What fits into a small slab needs no large one.
    const bound = neededBytes <= SMALL_SLAB_BODY_BYTES_MAX ? SMALL_SLAB_BODY_BYTES_MAX : most
    return Math.max(neededBytes, Math.min(grown, most, bound))
  }

  /** Raises the reservation to `bytes`; false when the budget has no room, after answering 503. */
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
    this.#giveBack()
  }

  /** Nothing more is received. */
  #stop(): void {
    this.#options.budget.unwatch(this)
    this.#exchange.onAbort = null
    this.#buffer = new Uint8Array(0)
  }

  #giveBack(): void {
    if (this.#spare !== null && spares.length < BODY_SPARES_MAX) spares.push(this.#spare)
    this.#spare = null
    this.#slab?.give()
    this.#slab = null
  }
}

/** `restBytes` is null when nobody knows how much is to come. */
function closingFor(restBytes: number | null): Closing {
  return restBytes !== null && restBytes <= BODY_DRAIN_BYTES_MAX ? 'drain' : 'cut'
}

function tooLarge({ bytesMax, onTooLarge }: BodyOptions): ServiceError {
  const error = new ServiceError(
    'request_too_large',
    `the body is larger than ${bytesMax} bytes; split it into several requests`,
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
    slab?.give()
    sendError(exchange, error)
  }
}
