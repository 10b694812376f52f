/**
 * The kinds of thread calls. A call takes plain data and returns a result, and states which threads carry it out. All
 * calls are listed in call-table.ts. Both ends derive from that table: the caller's object (pool.ts) and the dispatcher
 * of a thread (run-task.ts).
 */
import type { ErrorBody } from '../../base/errors.ts'
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

/** The answer of a thread to a call that is refused. */
export interface Refused {
  readonly refusal: ErrorBody
  readonly retryAfterSeconds: number | null
}

/** The tools for a page. */
export interface PageTools {
  readonly stores: ThreadStores
  readonly format: RowFormat
  readonly writer: RowsWriter
  /** Called between rows and before expensive steps. Throws if the page is to be cancelled. */
  readonly check: (groupBytes?: number) => void
}

/** The weight of a long call without a number of rows: it waits for calls that ask for fewer. */
export const LONG_WEIGHT = 1000

/** A call on its way to a thread, as plain data. */
export interface Task {
  /** The name in the table, or `close`: close all stores and do nothing afterwards. */
  readonly call: string
  readonly values: readonly unknown[]
  /** The format of a page. */
  readonly format?: RowFormat
  /** For a long call: shared memory. A number other than 0 means that nobody waits any more. */
  readonly cancelled?: Int32Array
}

/** A call with a quick answer: a row, a fact, a change. */
export interface ShortCall<Values extends readonly unknown[], Result, Stores = ThreadStores> {
  readonly kind: 'short'
  readonly threads: ThreadKind
  readonly run: (stores: Stores, ...values: Values) => Result | Promise<Result>
  /** Returns the buffers in the result whose ownership is transferred. */
  readonly memory: (result: Result) => readonly ArrayBuffer[]
}

/** The tools of a long call. */
export interface LongTools {
  readonly stores: ThreadStores
  readonly cancelled: Int32Array
}

/** A call that may take seconds. It is cancelled when nobody waits any more. */
export interface LongCall<Values extends readonly unknown[], Result> {
  readonly kind: 'long'
  readonly threads: ThreadKind
  readonly run: (tools: LongTools, ...values: Values) => Result
  readonly memory: (result: Result) => readonly ArrayBuffer[]
}

/** A list of rows. It is a short read if it asks for few rows and turns out to be cheap, otherwise a long one. */
export interface PageCall<Values extends readonly unknown[], Result> {
  readonly kind: 'page'
  readonly threads: 'readers'
  readonly run: (tools: PageTools, ...values: Values) => Result
  /** Returns the number of rows that it asks for. */
  readonly weight: (values: Values) => number
}

/** Defines a short call of the readers, or of `threads`. */
export function short<Values extends readonly unknown[], Result, Stores = ThreadStores>(
  run: ShortCall<Values, Result, Stores>['run'],
  threads: ThreadKind = 'readers',
  memory: ShortCall<Values, Result>['memory'] = memoryOf,
): ShortCall<Values, Result, Stores> {
  return { kind: 'short', threads, run, memory }
}

/** Defines a long call of the threads for long reads, or of `threads`. */
export function long<Values extends readonly unknown[], Result>(
  run: LongCall<Values, Result>['run'],
  threads: ThreadKind = 'long_readers',
  memory: LongCall<Values, Result>['memory'] = memoryOf,
): LongCall<Values, Result> {
  return { kind: 'long', threads, run, memory }
}

/** Defines a page. */
export function page<Values extends readonly unknown[], Result>(
  run: PageCall<Values, Result>['run'],
  weight: (values: NoInfer<Values>) => number,
): PageCall<Values, Result> {
  return { kind: 'page', threads: 'readers', run, weight }
}

/** Returns the memory of a text: of a row, or of the rows of a page. */
export function memoryOf(result: unknown): readonly ArrayBuffer[] {
  if (typeof result !== 'object' || result === null) return []
  const text = 'rows' in result ? result.rows : result
  // Such text has its own buffer (base/rows-writer.ts).
  return text instanceof Uint8Array ? [text.buffer as ArrayBuffer] : []
}

/** Any call, as the dispatcher uses it. */
export type Call =
  | ShortCall<readonly unknown[], unknown>
  | LongCall<readonly unknown[], unknown>
  | PageCall<readonly unknown[], unknown>
