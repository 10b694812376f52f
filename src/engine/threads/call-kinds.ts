/**
 * What a call of a thread is: plain data in, a result out, and which threads carry it out. call-table.ts lists
 * all of them; both ends derive from that table, the caller's object (pool.ts) and the dispatcher of a
 * thread (run-task.ts).
 */
import type { ErrorBody } from '../../base/errors.ts'
import type { RowFormat } from '../../base/pages.ts'
import type { RowsWriter } from '../../base/rows-writer.ts'
import type { Proposal } from '../../ports/change-log.ts'
import type { ThreadKind } from './tasks.ts'
import type { ThreadStores } from './thread-stores.ts'

/** What a thread answers to a call. */
export interface Answered {
  readonly result: unknown
  /** In a cluster: what the call would change of the catalogue. */
  readonly proposal?: Proposal
}

/** What a thread answers to a call that is refused. */
export interface Refused {
  readonly refusal: ErrorBody
  readonly retryAfterSeconds: number | null
}

/** What makes a page. */
export interface PageTools {
  readonly stores: ThreadStores
  readonly format: RowFormat
  readonly writer: RowsWriter
  /** Asked between rows, and before what takes long: throws when the page is to be given up. */
  readonly check: (groupBytes?: number) => void
}

/** Stands for the rows of a long call that has none: it waits for those that ask for less. */
export const LONG_WEIGHT = 1000

/** A call on its way to a thread: plain data. */
export interface Task {
  /** Its name in the table, or `close`: close what is open and do nothing afterwards. */
  readonly call: string
  readonly values: readonly unknown[]
  /** Of a page. */
  readonly format?: RowFormat
  /** Of a long call: shared memory; another number than 0 means that nobody waits any more. */
  readonly cancelled?: Int32Array
}

/** Answers soon: a row, a fact, a change. */
export interface ShortCall<Values extends readonly unknown[], Result, Stores = ThreadStores> {
  readonly kind: 'short'
  readonly threads: ThreadKind
  readonly run: (stores: Stores, ...values: Values) => Result | Promise<Result>
  /** Memory in the result that changes hands. */
  readonly memory: (result: Result) => readonly ArrayBuffer[]
}

/** What a long call works with. */
export interface LongTools {
  readonly stores: ThreadStores
  readonly cancelled: Int32Array
}

/** May take seconds, and is given up when nobody waits any more. */
export interface LongCall<Values extends readonly unknown[], Result> {
  readonly kind: 'long'
  readonly threads: ThreadKind
  readonly run: (tools: LongTools, ...values: Values) => Result
  readonly memory: (result: Result) => readonly ArrayBuffer[]
}

/** A list of rows: a short read if it asks for few rows and turns out to be one, else a long one. */
export interface PageCall<Values extends readonly unknown[], Result> {
  readonly kind: 'page'
  readonly threads: 'readers'
  readonly run: (tools: PageTools, ...values: Values) => Result
  /** Rows that it asks for. */
  readonly weight: (values: Values) => number
}

/** A short call of the readers, or of `threads`. */
export function short<Values extends readonly unknown[], Result, Stores = ThreadStores>(
  run: ShortCall<Values, Result, Stores>['run'],
  threads: ThreadKind = 'readers',
  memory: ShortCall<Values, Result>['memory'] = memoryOf,
): ShortCall<Values, Result, Stores> {
  return { kind: 'short', threads, run, memory }
}

/** A long call of the threads for long reads, or of `threads`. */
export function long<Values extends readonly unknown[], Result>(
  run: LongCall<Values, Result>['run'],
  threads: ThreadKind = 'long_readers',
  memory: LongCall<Values, Result>['memory'] = memoryOf,
): LongCall<Values, Result> {
  return { kind: 'long', threads, run, memory }
}

/** A page. */
export function page<Values extends readonly unknown[], Result>(
  run: PageCall<Values, Result>['run'],
  weight: (values: NoInfer<Values>) => number,
): PageCall<Values, Result> {
  return { kind: 'page', threads: 'readers', run, weight }
}

/** The memory of text: of a row, or of the rows of a page. */
export function memoryOf(result: unknown): readonly ArrayBuffer[] {
  if (typeof result !== 'object' || result === null) return []
  const text = 'rows' in result ? result.rows : result
  // Text is written into memory of its own (base/rows-writer.ts).
  return text instanceof Uint8Array ? [text.buffer as ArrayBuffer] : []
}

/** Any call, seen by those who carry it out. */
export type Call =
  | ShortCall<readonly unknown[], unknown>
  | LongCall<readonly unknown[], unknown>
  | PageCall<readonly unknown[], unknown>
