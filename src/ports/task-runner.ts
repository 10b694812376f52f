/**
 * Who carries out calls of threads: the pool of this process, or one elsewhere that has the project's store. A
 * call is plain data by the typed table (engine/threads/call-table.ts): its name, and values that can be copied.
 */

/** Name of a call -> what it takes and what it answers. */
export type CallTypes = Readonly<
  Record<string, { readonly values: readonly unknown[]; readonly result: unknown }>
>

/** What may be said besides. */
export interface CallOptions {
  /** Of a page: how its rows are written; default JSON. */
  readonly format?: 'json' | 'csv'
  /** Told what to call when nobody waits any more. */
  readonly onLeave?: (cancel: () => void) => void
  /** Rows that a long call asks for: of those that wait, small ones come first. */
  readonly weight?: number
  /** Of a long call: the number of the only thread that may carry it out, from 0. */
  readonly thread?: number
  /** Of a long call: told the number of the thread when it is its turn. */
  readonly onTurn?: (thread: number) => void
  /** Memory in the values that changes hands. */
  readonly transferList?: readonly ArrayBuffer[]
}

/** Carries out calls. */
export interface TaskRunner<Calls extends CallTypes> {
  /**
   * Rejects with the `ServiceError` that the call is refused with: what the client is to know, and 503 with
   * `retryAfterSeconds` when too many wait or who worked on it has ended. What is unforeseen rejects with another
   * error. Bytes in a result are in memory of their own.
   */
  run<Name extends keyof Calls & string>(
    name: Name,
    values: Calls[Name]['values'],
    options?: CallOptions,
  ): Promise<Calls[Name]['result']>
}
