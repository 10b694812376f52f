/**
 * The task runner carries out calls of threads: in the thread pool of this process, or in another process that has the
 * project's store. A call is plain data described by the typed table (engine/threads/call-table.ts): a name and values
 * that can be copied.
 */

/** For each name of a call: the types of its values and of its result. */
export type CallTypes = Readonly<
  Record<string, { readonly values: readonly unknown[]; readonly result: unknown }>
>

/** Options of a call. */
export interface CallOptions {
  /** The format in which the rows of a page are written. The default is JSON. */
  readonly format?: 'json' | 'csv'
  /**
   * Receives a function that cancels the call. The caller calls that function when nobody waits for the result any
   * more.
   */
  readonly onLeave?: (cancel: () => void) => void
  /** The number of rows that a long call asks for. Among waiting calls, smaller ones run first. */
  readonly weight?: number
  /** For a long call: the number of the only thread that may carry it out, from 0. */
  readonly thread?: number
  /** Receives the number of the thread when a long call starts. */
  readonly onTurn?: (thread: number) => void
  /** Buffers in the values whose ownership is transferred to the thread. */
  readonly transferList?: readonly ArrayBuffer[]
}

/** Carries out calls. */
export interface TaskRunner<Calls extends CallTypes> {
  /**
   * Runs a call and resolves with its result. Rejects with a `ServiceError` if the call is refused: its text is for the
   * client, and it is a 503 with `retryAfterSeconds` if too many calls wait, or if the thread that ran the call has
   * ended. Rejects with any other error if something unforeseen happened. Bytes in a result do not share memory with
   * anything else.
   */
  run<Name extends keyof Calls & string>(
    name: Name,
    values: Calls[Name]['values'],
    options?: CallOptions,
  ): Promise<Calls[Name]['result']>
}
