/**
 * The task runner carries out calls in another thread: in the thread pool of this process, or in another process that
 * has the store of the project. A call is plain data: a name, and values that can be copied to the other thread. The
 * table of calls (engine/threads/call-table.ts) gives their types.
 */

/** For each name of a call, the types of its values and of its result. */
export type CallTypes = Readonly<
  Record<string, { readonly values: readonly unknown[]; readonly result: unknown }>
>

/** Options of a call. */
export interface CallOptions {
  /** The format in which the rows of a page are written. The default is JSON. */
  readonly format?: 'json' | 'csv'
  /**
   * Receives a function that cancels the call. The caller keeps that function, and calls it when nobody waits for the
   * result any more.
   */
  readonly onLeave?: (cancel: () => void) => void
  /** The number of rows that a long call asks for. When several calls wait, those with fewer rows run first. */
  readonly weight?: number
  /** For a long call, the number (from 0) of the thread that must carry it out. */
  readonly thread?: number
  /** Called when a thread starts the long call, with the number of that thread. */
  readonly onTurn?: (thread: number) => void
  /** Buffers among the values that are moved to the other thread without copying. The caller can no longer use them. */
  readonly transferList?: readonly ArrayBuffer[]
}

/** Carries out calls in another thread or process. */
export interface TaskRunner<Calls extends CallTypes> {
  /**
   * Runs a call and resolves with its result. If the call is refused, rejects with a `ServiceError`, whose text is for
   * the client. If too many calls wait, or if the thread that ran the call has ended, this error is a 503 with
   * `retryAfterSeconds`. Any other error means that something unforeseen happened. If the result contains bytes, the
   * caller owns their memory.
   */
  run<Name extends keyof Calls & string>(
    name: Name,
    values: Calls[Name]['values'],
    options?: CallOptions,
  ): Promise<Calls[Name]['result']>
}
