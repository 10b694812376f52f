/**
 * What the server asks of a library that speaks HTTP/1.1. There are two: uWebSockets.js (`uws-front.ts`) and Node's own
 * `node:http` (`node-front.ts`), which needs no native library. The requests and responses of uWebSockets.js have this
 * shape already and are passed through as they are, so that the interface costs nothing there.
 *
 * The rules are those of uWebSockets.js:
 *
 * - A request may only be used until its handler returns.
 * - A response may not be touched after its end, nor after `onAborted` was called.
 * - A second request on a connection before the first has its answer closes the connection, and the first is aborted.
 * - `write` and `tryEnd` say whether the socket took everything. `onWritable` is called when it takes more.
 */
import type { HttpServerName } from '../../config/settings-table.ts'

/** One request, until its handler returns. */
export interface FrontRequest {
  /** As the client wrote it. */
  getCaseSensitiveMethod(): string
  /** The path as the client wrote it, still percent-encoded, without the query. */
  getUrl(): string
  /** What stands behind the first `?`; undefined without one. */
  getQuery(): string | undefined
  /** The first header of this name, which is in lower case; '' when there is none. */
  getHeader(lowerCaseName: string): string
  /** What stands in the path in the place of the parameter with this number. */
  getParameter(index: number): string | undefined
  /** Calls back for every header line, with the name in lower case. */
  forEach(take: (name: string, value: string) => void): void
}

/** What is known of a connection before its first request. */
export interface FrontConnection {
  /** Closes the connection at once. What was not sent yet is lost. A request without an answer is aborted before this returns. */
  close(): unknown
  /** The 4 or 16 bytes of the address at the other end. */
  getRemoteAddress(): ArrayBuffer
}

/** The answer to one request. */
export interface FrontResponse extends FrontConnection {
  /** Calls back before it returns; what is written meanwhile may leave in one packet. */
  cork(write: () => void): unknown
  /** Status and reason, before any header; without it `200 OK`. */
  writeStatus(status: string): unknown
  writeHeader(name: string, value: string): unknown
  /** A part of a body of unknown length, copied. False: the socket is full, and `onWritable` will be called. */
  write(chunk: Uint8Array): boolean
  /** A whole body, copied, or the end of what was written in parts. */
  end(body?: string | Uint8Array, closesConnection?: boolean): unknown
  /** The end of an answer without a body. */
  endWithoutBody(reportedLength?: number, closesConnection?: boolean): unknown
  /**
   * A part of a body of `totalBytes`. Returns whether the socket took all of the part, and whether the answer is
   * complete. If it did not take all, `getWriteOffset` returns how far it got.
   */
  tryEnd(
    chunk: string | Uint8Array,
    totalBytes: number,
  ): readonly [isTaken: boolean, isDone: boolean]
  /** Bytes of the body that were taken so far. */
  getWriteOffset(): number
  /** Called when a full socket takes more, with what `getWriteOffset` returns. */
  onWritable(resume: (offset: number) => boolean): unknown
  /** Called once when the connection ends before the answer is complete. */
  onAborted(abort: () => void): unknown
  /**
   * Called with each part of the body, the last one marked. To be asked for before the handler returns. The memory may
   * be used for something else when the call returns.
   */
  onData(take: (chunk: ArrayBuffer, isLast: boolean) => void): unknown
  /** Reads nothing more from the connection. */
  pause(): unknown
}

/** Answers a request. */
export type FrontHandler = (response: FrontResponse, request: FrontRequest) => void

/** Told of a request that the library itself refuses, as a sentence for the client, which is then to be answered. */
export type FaultHandler = (response: FrontResponse, request: FrontRequest, fault: string) => void

/** A library with its routes. */
export interface Front {
  readonly name: HttpServerName
  /**
   * Sets the handler of a path, for every method. `:name` stands for one part of a path that is not empty, and `*` at
   * the end for any rest. Fixed parts go before parameters, and parameters before `*`.
   */
  any(path: string, handler: FrontHandler): void
  /** Sets the handler of requests that are no proper HTTP. Never called by a library that answers them itself. */
  faulty(handler: FaultHandler): void
  /** Calls back for each connection: 1 when it begins, -1 when it has ended. */
  filter(look: (connection: FrontConnection, change: number) => void): void
  /** Listens; port 0 takes any free one. Resolves to the port, or to a sentence why that failed. */
  listen(host: string, port: number): Promise<number | string>
  /** Accepts no further connections. */
  stopListening(): void
  /** Ends all connections. */
  close(): void
}

/** Why listening failed, in words. */
export function listenProblem(error: NodeJS.ErrnoException): string {
  if (error.code === 'EADDRINUSE') return 'address in use'
  if (error.code === 'EACCES') return 'this user may not use the port'
  if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND') {
    return 'the machine has no such address'
  }
  return error.message
}
