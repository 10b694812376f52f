/**
 * Implements the interface of `front.ts` with `node:http`, for every version of Node and every C library, without a
 * native addon. It also enforces the limits and rules of uWebSockets.js that Node does not have (see `front.ts`):
 *
 * - If a request follows one that is not answered yet, or if the client ends its sending side, the connection is
 *   closed.
 * - Only HTTP/1.1 with a path is served. Other versions, absolute URLs, `*`, CONNECT and upgrades are refused.
 * - A connection without progress for ten seconds is closed. It may be idle, its headers may be incomplete, its body
 *   may arrive too slowly, or its client may not read the answer.
 * - A request that the parser refuses is answered with an error like all others. The connection is closed after it.
 *
 * Bodies and answers have no other time limit here, because `body.ts` and `waiting-answers.ts` watch them.
 */
import { METHODS, Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import {
  type FaultHandler,
  type Front,
  type FrontConnection,
  type FrontHandler,
  listenProblem,
} from './front.ts'
import { headerBytesMax } from './header-limit.ts'
import {
  CONNECTION_IDLE_MS_MAX,
  CONNECTION_LOOK_MS_MAX,
  HEADER_LINES_MAX,
  PIPELINED_ANSWERS_BYTES_MAX,
} from './limits.ts'
import { NodeConnection, refusalBody } from './node-connection.ts'
import { NodeHead, NodeRequest } from './node-request.ts'
import { NodeResponse } from './node-response.ts'
import { RouteTree } from './route-tree.ts'

type Look = (connection: FrontConnection, change: number) => void

/** The error that Node reports for a request that it cannot parse, or for a connection that has failed. */
type ParserError = Error & { readonly code?: string; readonly rawPacket?: Buffer }

const ignore = (): void => {}
const NOT_HTTP = 'Send HTTP/1.1 with a path that begins with a slash, and end lines with CR and LF.'
const TOO_LONG = 'The request line and the headers are too long. Send fewer or shorter headers.'
const NOT_ENCODED =
  'The URL contains characters that must be percent-encoded: spaces, control characters, and characters outside ASCII.'
const IMPROPER = 'The request is not valid HTTP/1.1.'

/**
 * Node's server, except that it never closes a connection as idle. After the request object of a long answer was
 * released, Node considers the connection idle although the answer continues. `NodeFront` closes idle connections
 * itself.
 */
class PatientServer extends Server<typeof NodeRequest> {
  /** Called by `close` of Node. */
  override closeIdleConnections(): void {}
}

/** A server that uses `node:http`. */
export class NodeFront implements Front {
  readonly name = 'node'
  readonly #server: Server<typeof NodeRequest>
  readonly #routes = new RouteTree<FrontHandler>()
  readonly #connections = new Map<Socket, NodeConnection>()
  #timer: NodeJS.Timeout | null = null
  #refuse: FaultHandler = (response) => response.close()
  #look: Look = ignore

  constructor() {
    const server = new PatientServer({
      IncomingMessage: NodeRequest,
      insecureHTTPParser: false,
      maxHeaderSize: headerBytesMax(),
      // A request without a Host header is refused by the code that checks all headers, with an answer in the usual
      // form.
      requireHostHeader: false,
      connectionsCheckingInterval: CONNECTION_LOOK_MS_MAX,
      headersTimeout: CONNECTION_IDLE_MS_MAX,
      // This class closes idle connections itself, because Node would set a timer after each answer.
      keepAliveTimeout: 0,
      // Node's limit would cover the whole request with its body, which may take long. Instead, the pace at which the
      // body arrives is watched.
      requestTimeout: 0,
    })
    // 0 means that the number of headers is not limited. Otherwise Node would drop further headers silently.
    server.maxHeadersCount = 0
    server.on('connection', (socket) => this.#connected(socket))
    const take = (request: NodeRequest, response: ServerResponse): void => {
      this.#take(request, response, false)
    }
    server.on('request', take)
    server.on('checkExpectation', take)
    server.on('checkContinue', (request, response) => this.#take(request, response, true))
    server.on('clientError', (error: ParserError, socket) => this.#failed(error, socket as Socket))
    server.on('connect', (_, socket) => {
      const connection = this.#connections.get(socket as Socket)
      socket.resume()
      if (connection === undefined || connection.isEnding || connection.isBusy) socket.destroy()
      else connection.endWith(505, NOT_HTTP)
    })
    this.#server = server
  }

  any(path: string, handler: FrontHandler): void {
    this.#routes.add(path, handler)
  }

  faulty(handler: FaultHandler): void {
    this.#refuse = handler
  }

  filter(look: Look): void {
    this.#look = look
  }

  listen(host: string, port: number): Promise<number | string> {
    const server = this.#server
    return new Promise((resolve) => {
      server.once('error', (error) => resolve(listenProblem(error)))
      server.listen({ host, port, exclusive: true }, () => {
        resolve((server.address() as AddressInfo).port)
      })
    })
  }

  stopListening(): void {
    this.#server.close()
    for (const connection of [...this.#connections.values()]) {
      if (connection.isIdle) connection.close()
    }
  }

  close(): void {
    this.#server.close()
    for (const connection of [...this.#connections.values()]) {
      if (connection.isBusy || connection.waitingBytes === 0) connection.close()
      else connection.closeWhenTaken()
    }
  }

  #connected(socket: Socket): void {
    const connection = new NodeConnection(socket, () => {
      this.#connections.delete(socket)
      this.#look(connection, -1)
    })
    this.#connections.set(socket, connection)
    this.#timer ??= setInterval(() => this.#lookAtAll(), CONNECTION_LOOK_MS_MAX).unref()
    this.#look(connection, 1)
  }

  #take(request: NodeRequest, nodeResponse: ServerResponse, expectsContinue: boolean): void {
    const connection = this.#connections.get(request.socket)
    // The connection ends with an earlier request, so later requests are ignored.
    if (connection === undefined || connection.isEnding) return
    if (connection.isBusy || connection.waitingBytes > PIPELINED_ANSWERS_BYTES_MAX) {
      connection.close()
      return
    }
    const { declaredBytes, method = '', url = '', rawHeaders } = request
    const response = new NodeResponse(connection, {
      isHead: method === 'HEAD',
      declaredBytes,
      expectsContinue,
      isLast: !nodeResponse.shouldKeepAlive,
      isToldSo: false,
      // Node does not write the answer. Its response object only gets the event `finish`, so that Node continues with
      // the next request, and releases the request object and the response object.
      onDone: (isLong) => {
        if (isLong) request.release()
        nodeResponse.emit('finish')
      },
    })
    connection.current = response
    if (declaredBytes !== 0) request.bodyTaker = response
    const head = new NodeHead(method, url, rawHeaders)
    if (request.httpVersion !== '1.1' || !url.startsWith('/')) refuse(response, 505, NOT_HTTP)
    else if (rawHeaders.length > 2 * HEADER_LINES_MAX) refuse(response, 431, TOO_LONG)
    else if (request.headers.host === undefined) this.#refuse(response, head, 'Send a Host header.')
    else this.#answer(response, head)
    response.begin()
  }

  #answer(response: NodeResponse, request: NodeHead): void {
    const route = this.#routes.find(request.getUrl())
    if (route === null) {
      response.close()
      return
    }
    request.parameters = route.parameters
    route.handler(response, request)
  }

  /** Handles a request that the parser has refused, or a connection that has failed. */
  #failed(error: ParserError, socket: Socket): void {
    const connection = this.#connections.get(socket)
    if (connection === undefined) {
      socket.destroy()
      return
    }
    // The last answer is being sent. Everything that the client sends after its request is ignored.
    if (connection.isEnding) return
    const { code = '' } = error
    const { current } = connection
    const isParsing = code.startsWith('HPE_') && code !== 'HPE_INVALID_EOF_STATE'
    // The invalid bytes are in the body of a request that was already answered. The request gets no second answer.
    const isRefused = current?.isEnded === true && !current.isBodyComplete
    if (!isParsing || isRefused) {
      connection.close()
    } else if (current !== null && connection.isBusy) {
      if (current.isBodyComplete && !current.isInChunks) current.closeBehind()
      else if (current.isHeadOut || current.isBodyComplete) connection.close()
      else {
        // The invalid bytes are in the body of a request that was not answered yet.
        current.abort()
        connection.endWith(400, IMPROPER)
      }
    } else if (code === 'HPE_HEADER_OVERFLOW') {
      connection.endWith(431, TOO_LONG)
    } else {
      this.#refuseHead(connection, error)
    }
  }

  /** Answers an invalid request. If its head can be read, the request gets an error like any other request. */
  #refuseHead(connection: NodeConnection, { code, rawPacket }: ParserError): void {
    const request = rawPacket === undefined ? null : NodeHead.ofRefused(rawPacket)
    if (request === null) {
      connection.endWith(code === 'HPE_INVALID_METHOD' ? 505 : 400, IMPROPER)
      return
    }
    const method = request.getCaseSensitiveMethod()
    const response = new NodeResponse(connection, {
      isHead: method === 'HEAD',
      declaredBytes: 0,
      expectsContinue: false,
      isLast: true,
      isToldSo: true,
      onDone: ignore,
    })
    connection.current = response
    connection.takeNoMore()
    // Node's parser knows only the standard methods of HTTP. A request with another method goes to its route, which
    // refuses it.
    if (code === 'HPE_INVALID_METHOD' && !METHODS.includes(method)) {
      this.#answer(response, request)
      // If the handler waits for the body, it would wait forever, because the parser has stopped.
      if (response.isBodyAsked) connection.close()
    } else this.#refuse(response, request, code === 'HPE_INVALID_URL' ? NOT_ENCODED : IMPROPER)
  }

  #lookAtAll(): void {
    const nowMs = performance.now()
    for (const connection of this.#connections.values()) {
      if (!connection.isMoving(nowMs)) connection.close()
    }
    if (this.#connections.size > 0 || this.#timer === null) return
    clearInterval(this.#timer)
    this.#timer = null
  }
}

function refuse(response: NodeResponse, status: number, detail: string): void {
  response.writeStatus(`${status} ${STATUS_CODES[status]}`)
  response.writeHeader('Content-Type', 'application/json')
  response.end(refusalBody(detail), true)
}
