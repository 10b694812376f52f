/**
 * Baselines (a) and (b): the rate of this machine with a uWebSockets.js server that does almost nothing. Baseline (a)
 * collects the body and answers; (b) also runs one `JSON.parse` over it. Neither stores anything. Both send the same
 * answer and headers as the daemon, and also answer any GET.
 */
import { App, type HttpResponse, us_socket_local_port } from 'uWebSockets.js'

const ANSWER = '{"status":1}'

/** Serves on a free port and reports the port to the main process. `isParsing` selects baseline (b). */
export function serveBaseline(isParsing: boolean): void {
  process.on('disconnect', () => process.exit(0))
  const app = App()
  app.post('/*', (response, request) => {
    collect(response, Number(request.getHeader('content-length')), (body) => {
      if (isParsing) JSON.parse(body.toString('utf8'))
      response.cork(() => answer(response))
    })
  })
  app.get('/*', (response) => answer(response))
  app.listen('127.0.0.1', 0, (socket) => {
    if (socket === false) throw new Error('the baseline server found no port')
    process.once('message', () => process.send?.({ port: us_socket_local_port(socket) }))
  })
}

function answer(response: HttpResponse): void {
  response.writeHeader('content-type', 'application/json').end(ANSWER)
}

function collect(response: HttpResponse, bytes: number, onBody: (body: Buffer) => void): void {
  const body = Buffer.allocUnsafe(bytes)
  let filled = 0
  response.onAborted(() => {})
  response.onData((chunk, isLast) => {
    body.set(new Uint8Array(chunk), filled)
    filled += chunk.byteLength
    if (isLast) onBody(body)
  })
}
