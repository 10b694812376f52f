/**
 * The interface between the server and a library that speaks HTTP/1.1. There are two libraries: uWebSockets.js
 * (`uws-front.ts`) and Node's own `node:http` (`node-front.ts`), which needs no native library. The requests and
 * responses of uWebSockets.js already have this shape and are passed through unchanged, so the interface adds no cost
 * there.
 *
 * The rules are those of uWebSockets.js:
 *
 * - A request may only be used until its handler returns.
 * - A response must not be used after its end, nor after `onAborted` was called.
 * - If a second request arrives on a connection before the first has its answer, the connection is closed and the first
 *   request is aborted.
 * - `write` and `tryEnd` return whether the socket accepted everything. `onWritable` is called when it accepts more.
 */
import type { HttpServerName } from '../../config/settings-table.ts'

/** One request. It is valid until its handler returns. */
export interface FrontRequest {
  /** Returns the method as the client wrote it. */
  getCaseSensitiveMethod(): string
  /** Returns the path as the client wrote it, still percent-encoded, without the query. */
  getUrl(): string
  /** Returns the text after the first `?`, or undefined if there is none. */
  getQuery(): string | undefined
  /** Returns the first header with this name, which must be in lower case, or '' if there is none. */
  getHeader(lowerCaseName: string): string
  /** Returns the path segment in place of the parameter with this index. */
  getParameter(index: number): string | undefined
  /** Calls `take` for every header line, with the name in lower case. */
  forEach(take: (name: string, value: string) => void): void
}

/** A connection before its first request. */
export interface FrontConnection {
  /**
   * Closes the connection at once. Unsent bytes are lost. A request without an answer is aborted before this returns.
   */
  close(): unknown
  /** Returns the 4 or 16 bytes of the address at the other end. */
  getRemoteAddress(): ArrayBuffer
}

/** The answer to one request. */
export interface FrontResponse extends FrontConnection {
  /** Calls `write` before it returns. Everything that is written in that call may be sent in one packet. */
  cork(write: () => void): unknown
  /** Writes the status and the reason, before any header. Without it the status is `200 OK`. */
  writeStatus(status: string): unknown
  writeHeader(name: string, value: string): unknown
  /**
   * Writes a part of a body of unknown length, which is copied. Returns false if the socket is full; `onWritable` is
   * called later.
   */
  write(chunk: Uint8Array): boolean
  /** Writes a whole body, which is copied, or ends a body that was written in parts. */
  end(body?: string | Uint8Array, closesConnection?: boolean): unknown
  /** Ends an answer without a body. */
  endWithoutBody(reportedLength?: number, closesConnection?: boolean): unknown
  /**
   * Writes a part of a body of `totalBytes`. Returns whether the socket accepted the whole part, and whether the answer
   * is complete. If the socket did not accept it all, `getWriteOffset` returns the offset that it reached.
   */
  tryEnd(
    chunk: string | Uint8Array,
    totalBytes: number,
  ): readonly [isTaken: boolean, isDone: boolean]
  /** Returns the number of bytes of the body that the socket has accepted so far. */
  getWriteOffset(): number
  /** Sets the function that is called with the write offset when a full socket accepts more. */
  onWritable(resume: (offset: number) => boolean): unknown
  /** Sets the function that is called once if the connection ends before the answer is complete. */
  onAborted(abort: () => void): unknown
  /**
   * Sets the function that is called with each chunk of the body; the last one is marked. Call it before the handler
   * returns. The memory of a chunk may be reused after the call.
   */
  onData(take: (chunk: ArrayBuffer, isLast: boolean) => void): unknown
  /** Stops reading from the connection. */
  pause(): unknown
}

/** Answers a request. */
export type FrontHandler = (response: FrontResponse, request: FrontRequest) => void

/** Answers a request that the library itself refuses. `fault` is the reason, as a sentence for the client. */
export type FaultHandler = (response: FrontResponse, request: FrontRequest, fault: string) => void

/** A library that speaks HTTP, with its routes. */
export interface Front {
  readonly name: HttpServerName
  /**
   * Sets the handler of a path for every method. `:name` matches one segment that is not empty, and `*` at the end
   * matches any rest. A fixed segment wins over a parameter, and a parameter wins over `*`.
   */
  any(path: string, handler: FrontHandler): void
  /** Sets the handler of requests that are not valid HTTP. It is never called by a library that answers them itself. */
  faulty(handler: FaultHandler): void
  /** Sets the function that is called for each connection: with 1 when it begins, and with -1 when it has ended. */
  filter(look: (connection: FrontConnection, change: number) => void): void
  /**
   * Starts to listen. Port 0 takes any free port. Resolves to the port, or to a sentence that says why listening
   * failed.
   */
  listen(host: string, port: number): Promise<number | string>
  /** Stops accepting connections. */
  stopListening(): void
  /** Closes all connections. */
  close(): void
}

/** Returns the reason why listening failed, in words. */
export function listenProblem(error: NodeJS.ErrnoException): string {
  if (error.code === 'EADDRINUSE') return 'address in use'
  if (error.code === 'EACCES') return 'this user may not use the port'
  if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND') {
    return 'the machine has no such address'
  }
  return error.message
}
