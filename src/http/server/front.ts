/**
 * The interface between the server and a library that speaks HTTP/1.1. There are two such libraries: uWebSockets.js
 * (`uws-front.ts`), and Node's own `node:http` (`node-front.ts`), which needs no native library. The requests and
 * responses of uWebSockets.js already have these types and are passed on unchanged, so the interface adds no cost to
 * that library.
 *
 * The rules are those of uWebSockets.js:
 *
 * - A request may only be used until its handler returns.
 * - A response must not be used after its end, nor after `onAborted` was called.
 * - If a second request arrives on a connection before the first one has been answered, the connection is closed and
 *   the first request is aborted.
 * - `write` and `tryEnd` return whether the socket has accepted everything. If it has not, the function that was set
 *   with `onWritable` is called when the socket accepts more.
 */
import type { HttpServerName } from '../../config/settings-table.ts'

/** One request. It may only be used until its handler returns. */
export interface FrontRequest {
  /** Returns the method as the client wrote it. */
  getCaseSensitiveMethod(): string
  /** Returns the path as the client wrote it, still percent-encoded, without the query. */
  getUrl(): string
  /** Returns the text after the first `?`, or undefined if there is none. */
  getQuery(): string | undefined
  /** Returns the first header with this name, or '' if there is none. The name must be in lower case. */
  getHeader(lowerCaseName: string): string
  /** Returns the path segment that takes the place of the parameter with this index. */
  getParameter(index: number): string | undefined
  /** Calls `take` for every header line, with the name in lower case. */
  forEach(take: (name: string, value: string) => void): void
}

/** The connection of a client. */
export interface FrontConnection {
  /**
   * Closes the connection at once. Bytes that were not sent yet are lost. If a request is not answered, it is aborted
   * before this call returns.
   */
  close(): unknown
  /** Returns the IP address at the other end, as 4 or 16 bytes. */
  getRemoteAddress(): ArrayBuffer
}

/** The answer to one request. */
export interface FrontResponse extends FrontConnection {
  /** Calls `write` at once. Everything that `write` writes may be sent in one packet. */
  cork(write: () => void): unknown
  /** Writes the status code and its reason, before any header. Without this call, the status is `200 OK`. */
  writeStatus(status: string): unknown
  writeHeader(name: string, value: string): unknown
  /**
   * Writes a part of a body whose length is not known. The part is copied. Returns false if the socket is full. The
   * function that was set with `onWritable` is called when the socket accepts more.
   */
  write(chunk: Uint8Array): boolean
  /** Writes a whole body, or ends a body that was written in parts. The body is copied. */
  end(body?: string | Uint8Array, closesConnection?: boolean): unknown
  /** Ends an answer without a body. */
  endWithoutBody(reportedLength?: number, closesConnection?: boolean): unknown
  /**
   * Writes a part of a body that has `totalBytes`. Returns whether the socket has accepted the whole part, and whether
   * the answer is complete. If the socket has not accepted the whole part, `getWriteOffset` returns how many bytes of
   * the body it has accepted.
   */
  tryEnd(
    chunk: string | Uint8Array,
    totalBytes: number,
  ): readonly [isTaken: boolean, isDone: boolean]
  /** Returns how many bytes of the body the socket has accepted so far. */
  getWriteOffset(): number
  /** Sets the function that is called with the write offset when a full socket accepts more. */
  onWritable(resume: (offset: number) => boolean): unknown
  /** Sets the function that is called once if the connection ends before the answer is complete. */
  onAborted(abort: () => void): unknown
  /**
   * Sets the function that is called with each chunk of the body. `isLast` is true for the last chunk. Call `onData`
   * before the handler returns. The memory of a chunk may be reused after `take` returns.
   */
  onData(take: (chunk: ArrayBuffer, isLast: boolean) => void): unknown
  /** Stops reading from the connection. */
  pause(): unknown
}

/** Answers a request to a path. */
export type FrontHandler = (response: FrontResponse, request: FrontRequest) => void

/** Answers a request that the library itself refuses. `fault` is the reason, as a sentence for the client. */
export type FaultHandler = (response: FrontResponse, request: FrontRequest, fault: string) => void

/** An HTTP library with the routes that it serves. */
export interface Front {
  readonly name: HttpServerName
  /**
   * Sets the handler for all requests to a path, whatever their method. `:name` matches one segment that is not empty,
   * and `*` at the end matches any number of segments. If several paths match, a fixed segment has precedence over a
   * parameter, and a parameter over `*`.
   */
  any(path: string, handler: FrontHandler): void
  /**
   * Sets the handler for requests that are not valid HTTP. It is not called if the library answers such requests
   * itself.
   */
  faulty(handler: FaultHandler): void
  /**
   * Sets the function that is called for each connection: with 1 when the connection begins, and with -1 when it has
   * ended.
   */
  filter(look: (connection: FrontConnection, change: number) => void): void
  /**
   * Starts to listen. Port 0 stands for any free port. Resolves with the port, or with the reason why the library
   * cannot listen.
   */
  listen(host: string, port: number): Promise<number | string>
  /** Stops accepting connections. */
  stopListening(): void
  /** Closes all connections. */
  close(): void
}

/** Returns in words why listening failed. */
export function listenProblem(error: NodeJS.ErrnoException): string {
  if (error.code === 'EADDRINUSE') return 'address in use'
  if (error.code === 'EACCES') return 'this user may not use the port'
  if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND') {
    return 'the machine has no such address'
  }
  return error.message
}
