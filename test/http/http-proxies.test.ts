/**
 * The daemon behind nginx and caddy, where they are installed. It sees as many requests as the proxy answers, whatever
 * a client hides in them. Every client that shares the connection behind the proxy gets its own answer.
 *
 * @lane all
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { collectBody } from '../../src/http/server/body.ts'
import { sendJson } from '../../src/http/server/respond.ts'
import { freePort } from '../fixtures/free-port.ts'
import { startServer, talk } from '../fixtures/http-client.ts'
import { isMissing, nginxWords, startProxy } from '../fixtures/proxy.ts'

const HEAD = 'POST /capture/ HTTP/1.1\r\nHost: a.example\r\n'
const HIDDEN = `${HEAD}Content-Length: 6\r\n\r\nhidden`
const LAST_CHUNK = '0\r\n'
/** Requests whose end two programs could place differently (request smuggling). */
const CARRIERS: Readonly<Record<string, string>> = {
  'length and chunked': `${HEAD}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n${LAST_CHUNK}\r\n${HIDDEN}`,
  'chunked and length': `${HEAD}Transfer-Encoding: chunked\r\nContent-Length: ${HIDDEN.length + 5}\r\n\r\n${LAST_CHUNK}\r\n${HIDDEN}`,
  'two lengths': `${HEAD}Content-Length: 2\r\nContent-Length: ${HIDDEN.length + 2}\r\n\r\nab${HIDDEN}`,
  'a list of lengths': `${HEAD}Content-Length: 2, 2\r\n\r\nab${HIDDEN}`,
  'a signed length': `${HEAD}Content-Length: +${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  'an encoding of another name': `${HEAD}Transfer-Encoding: xchunked\r\nContent-Length: ${HIDDEN.length + 5}\r\n\r\n${LAST_CHUNK}\r\n${HIDDEN}`,
  'an encoding behind a tab': `${HEAD}Transfer-Encoding:\tchunked, identity\r\n\r\n${LAST_CHUNK}\r\n${HIDDEN}`,
  'a folded encoding': `${HEAD}X-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: ${HIDDEN.length + 5}\r\n\r\n${LAST_CHUNK}\r\n${HIDDEN}`,
  'a blank before the colon': `${HEAD}Content-Length : ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  'a line feed within a value': `${HEAD}X-A: b\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  'a trailer': `${HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n${LAST_CHUNK}X-Sum: 1\r\n\r\n`,
  'a request in the place of a trailer': `${HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n${LAST_CHUNK}${HIDDEN}`,
  'a length of a chunk with an extension': `${HEAD}Transfer-Encoding: chunked\r\n\r\n2;a="\r\n"\r\nab\r\n${LAST_CHUNK}\r\n`,
}

function nginx(folder: string, port: number, behind: number): readonly string[] {
  const configuration = `
    upstream tenrec { server 127.0.0.1:${behind}; keepalive 1; }
    server {
      listen 127.0.0.1:${port};
      location / {
        proxy_pass http://tenrec; proxy_http_version 1.1; proxy_set_header Connection "";
        proxy_request_buffering off;
      }
    }`
  return nginxWords(folder, configuration)
}

function caddy(folder: string, port: number, behind: number): readonly string[] {
  const configuration = `{
    admin off
    auto_https off
  }
  http://:${port} {
    bind 127.0.0.1
    reverse_proxy 127.0.0.1:${behind}
  }`
  writeFileSync(join(folder, 'Caddyfile'), configuration)
  return ['run', '--adapter', 'caddyfile', '--config', join(folder, 'Caddyfile')]
}

for (const name of ['nginx', 'caddy']) {
  const skip = isMissing(name, name === 'nginx' ? '-v' : 'version')
  t.test(
    `behind ${name} the daemon and the proxy agree on the end of each request`,
    { skip },
    async (t) => {
      const bodies: string[] = []
      const { port: behind } = await startServer(t, (server, budget) => {
        server.raw('/capture', (exchange, head) => {
          collectBody(exchange, head.contentLength, {
            bytesMax: 1000,
            budget,
            onBody: (body) => {
              bodies.push(Buffer.from(body).toString())
              sendJson(exchange, 200, { body: bodies.at(-1) })
            },
          })
        })
      })
      const folder = t.testdir({})
      const port = await freePort()
      const words = (name === 'nginx' ? nginx : caddy)(folder, port, behind)
      await startProxy(t, name, words, { folder, port })
      let number = 0
      for (const [what, bytes] of Object.entries(CARRIERS)) {
        bodies.length = 0
        const received = await talk(port, bytes, { waitMs: 150 })
        // If the proxy sees two requests, the daemon and the client must see two as well.
        const answered = received.statuses.filter((status) => status === 200).length
        t.equal(bodies.length, answered, what)
        const own = `own ${++number}`
        const answer = await talk(port, `${HEAD}Content-Length: ${own.length}\r\n\r\n${own}`, {
          answers: 1,
        })
        t.same(answer.statuses, [200])
        t.ok(answer.text.includes(JSON.stringify({ body: own })), 'the client gets its own answer')
      }
    },
  )
}
