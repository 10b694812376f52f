/**
 * The kinds of thread calls. A call takes and returns plain data. Its definition says on which kind of thread it runs.
 * All calls are listed in call-table.ts. That table determines the methods with which callers make calls (pool.ts), and
 * the function with which a thread runs any call (run-task.ts).
 */
import type { ErrorBody, OperatorError } from '../../base/errors.ts'
import type { RowFormat } from '../../base/pages.ts'
import type { RowsWriter } from '../../base/rows-writer.ts'
import type { Proposal } from '../../ports/change-log.ts'
import type { ThreadKind } from './tasks.ts'
import type { ThreadStores } from './thread-stores.ts'

/** The answer of a thread to a call. */
export interface Answered {
  readonly result: unknown
  /** In a cluster: the change of the catalogue that the call proposes. */
  readonly proposal?: Proposal
}

/** The answer of a thread that refuses a call. */
export interface Refused {
  readonly refusal: ErrorBody
  readonly retryAfterSeconds: number | null
}

/** The answer of a thread to a call that failed with an `OperatorError`. */
export interface Failed {
  readonly failure: { readonly message: string; readonly exitCode: OperatorError['exitCode'] }
}

/** The tools with which a call produces a page. */
export interface PageTools {
  readonly stores: ThreadStores
  readonly format: RowFormat
  readonly writer: RowsWriter
  /**
   * Called between rows and before a group of columns is read. Throws to stop the page. A short read is stopped if it
   * takes too long or if the group is too large. A long read is stopped if nobody waits for it any more.
   */
  readonly check: (groupBytes?: number) => void
}

/**
 * The weight of a long call that does not ask for a certain number of rows. Waiting calls with a smaller weight run
 * first.
 */
export const LONG_WEIGHT = 1000

/** A call on its way to a thread, as plain data. */
export interface Task {
  /** The name of the call in the table. The call `close` closes all stores. After it, the thread gets no more calls. */
  readonly call: string
  readonly values: readonly unknown[]
  /** For a page: the format of its rows. */
  readonly format?: RowFormat
  /** For a long call: a word in shared memory. If it is not 0, nobody waits for the result any more. */
  readonly canceled?: Int32Array
}

/** A call that is answered quickly, such as a read of one row or a change. */
export interface ShortCall<Values extends readonly unknown[], Result, Stores = ThreadStores> {
  readonly kind: 'short'
  readonly threads: ThreadKind
  readonly run: (stores: Stores, ...values: Values) => Result | Promise<Result>
  /** Returns the buffers of the result that are transferred to the main thread instead of copied. */
  readonly memory: (result: Result) => readonly ArrayBuffer[]
}

/** The tools with which a long call works. */
export interface LongTools {
  readonly stores: ThreadStores
  readonly canceled: Int32Array
}

/** A call that may take seconds. It is canceled when nobody waits any more. */
export interface LongCall<Values extends readonly unknown[], Result> {
  readonly kind: 'long'
  readonly threads: ThreadKind
  readonly run: (tools: LongTools, ...values: Values) => Result
  readonly memory: (result: Result) => readonly ArrayBuffer[]
}

/**
 * A list of rows. It runs as a short read if it asks for few rows and turns out to be cheap, otherwise as a long read.
 */
export interface PageCall<Values extends readonly unknown[], Result> {
  readonly kind: 'page'
  readonly threads: 'readers'
  readonly run: (tools: PageTools, ...values: Values) => Result
  /** Returns the number of rows that the call asks for. */
  readonly weight: (values: Values) => number
}

/** Defines a short call. It runs on a thread of the kind `threads`, by default on a reader thread. */
export function short<Values extends readonly unknown[], Result, Stores = ThreadStores>(
  run: ShortCall<Values, Result, Stores>['run'],
  threads: ThreadKind = 'readers',
  memory: ShortCall<Values, Result>['memory'] = memoryOf,
): ShortCall<Values, Result, Stores> {
  return { kind: 'short', threads, run, memory }
}

/** Defines a long call. It runs on a thread of the kind `threads`, by default on a thread for long reads. */
export function long<Values extends readonly unknown[], Result>(
  run: LongCall<Values, Result>['run'],
  threads: ThreadKind = 'long_readers',
  memory: LongCall<Values, Result>['memory'] = memoryOf,
): LongCall<Values, Result> {
  return { kind: 'long', threads, run, memory }
}

/** Defines a call that returns a page of rows. */
export function page<Values extends readonly unknown[], Result>(
  run: PageCall<Values, Result>['run'],
  weight: (values: NoInfer<Values>) => number,
): PageCall<Values, Result> {
  return { kind: 'page', threads: 'readers', run, weight }
}

/**
 * Returns the buffer of a result that is a text, or that has a text in `rows`, so that it is transferred instead of
 * copied. Returns an empty list for any other result.
 */
export function memoryOf(result: unknown): readonly ArrayBuffer[] {
  if (typeof result !== 'object' || result === null) return []
  const text = 'rows' in result ? result.rows : result
  // The cast is safe, because base/rows-writer.ts gives each text a buffer of its own.
  return text instanceof Uint8Array ? [text.buffer as ArrayBuffer] : []
}

/** Any call of the table, with types that fit all of them. */
export type Call =
  | ShortCall<readonly unknown[], unknown>
  | LongCall<readonly unknown[], unknown>
  | PageCall<readonly unknown[], unknown>
