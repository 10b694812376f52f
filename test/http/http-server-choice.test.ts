/**
 * The choice of the HTTP library: the setting `http_server`, and machines on which uWebSockets.js cannot be loaded.
 *
 * @lane quick
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { chooseFront } from '../../src/http/server/choose-front.ts'
import { spawnDaemon } from '../fixtures/daemon.ts'
import { closeConnections, jsonOf, send } from '../fixtures/exact-client.ts'

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
/**
 * Makes the addon of uWebSockets.js fail like an addon for another C library, if there is one for this Node version.
 */
const BROKEN_ADDON = `const Module = require('node:module')
const load = Module._extensions['.node']
Module._extensions['.node'] = (module, path) => {
  if (/uws_[^/]*$/.test(path)) throw new Error("/lib/libc.so.6: version 'GLIBC_9.99' not found (required by " + path + ')')
  return load(module, path)
}
`

const FALLEN_BACK = 'uWebSockets.js cannot be loaded. node:http is used instead.'

type Line = Readonly<Record<string, unknown>>

t.teardown(closeConnections)

t.test('node:http always comes from Node itself', async (t) => {
  t.same(chooseFront('node'), { name: 'node', obstacle: null })
})

t.test('a machine on which uWebSockets.js cannot be loaded', async (t) => {
  const folder = t.testdir({ 'broken.cjs': BROKEN_ADDON })
  const nodeOptions = ['--require', join(folder, 'broken.cjs')]

  await t.test('a start that requires it is refused before any file is written', async (t) => {
    const dataDir = join(folder, 'refused')
    const words = ['serve', '--http-server', 'uws', '--port', '0', '--data-dir', dataDir]
    const { status, stderr } = spawnSync(process.execPath, [...nodeOptions, MAIN, ...words], {
      encoding: 'utf8',
    })
    t.equal(status, 78)
    t.match(
      stderr,
      /^tenrec: Setting `http_server`: uWebSockets\.js cannot be loaded: .*(?:GLIBC_9\.99|no binary)/,
    )
    t.match(stderr, 'Set `http_server` to `auto` or `node`')
    t.equal(stderr.trim().split('\n').length, 1, 'one line')
    t.notOk(existsSync(dataDir))
  })

  await t.test('node:http is used instead, and a message says so', async (t) => {
    const lines: string[] = []
    const daemon = await spawnDaemon({
      dataDir: join(folder, 'data'),
      nodeOptions,
      env: { TENREC_HTTP_SERVER: 'auto' },
      onLine: (line) => lines.push(line),
    })
    t.teardown(() => daemon.kill())
    const logged = lines
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Line)
    t.match(
      logged.find((line) => line['msg'] === 'ready'),
      { httpServer: 'node' },
    )
    t.match(
      logged.find((line) => line['msg'] === FALLEN_BACK),
      { level: 30, reason: /GLIBC_9\.99|no binary/ },
    )
    const health = await send(`${daemon.url}/_health`)
    t.match(jsonOf(health), { status: 'ok', http_server: 'node' })
    const metrics = await send(`${daemon.url}/metrics`)
    t.match(metrics.body.toString(), 'http_server_info{server="node"} 1\n')
    t.same(await daemon.stop(), { code: 0, signal: null })
  })

  await t.test('tenrec doctor reports the reason', async (t) => {
    const words = ['doctor', '--data-dir', join(folder, 'data'), '--json']
    const { stdout } = spawnSync(process.execPath, [...nodeOptions, MAIN, ...words], {
      encoding: 'utf8',
    })
    const findings = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line)
    t.match(
      findings.find((line) => line['check'] === 'http_server'),
      { verdict: 'ok', message: /^The HTTP server is node:http, .*(?:GLIBC_9\.99|no binary)/ },
    )
  })
})
