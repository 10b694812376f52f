/**
 * The files of posthog-js for PostHog's `<script>`: the served files, their cache times, and their installation.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { installSnippet, PACKAGE_SHA512 } from '../../../src/cli/commands/snippet.ts'
import { SDK_VERSION, SdkFiles, sdkFolders } from '../../../src/http/routes/public/sdk-files.ts'
import { DataDir } from '../../../src/store/directory/data-dir.ts'
import { runCommand } from '../../fixtures/command-line.ts'
import { send } from '../../fixtures/exact-client.ts'
import { startDecisions } from '../../fixtures/flags/decision-daemon.ts'

const PACKAGE = dirname(dirname(fileURLToPath(import.meta.resolve('posthog-js/dist/array.js'))))
const world = await startDecisions(t, 1)

function contentOf(name: string): Buffer {
  return readFileSync(join(PACKAGE, 'dist', name))
}

function get(path: string, headers: Readonly<Record<string, string>> = {}, method = 'GET') {
  return send(`${world.url}${path}`, { method, headers })
}

t.test('the SDK and the files that it loads are served unchanged from the package', async (t) => {
  for (const [path, name] of [
    ['/static/array.js', 'array.js'],
    [`/static/${SDK_VERSION}/array.js`, 'array.js'],
    ['/static/1/array.js', 'array.js'],
    [`/array/${world.key()}/array.js`, 'array.js'],
    ['/static/loader.js', 'loader.js'],
    ['/static/loader-bootstrap.js', 'loader-bootstrap.js'],
    [`/static/${SDK_VERSION}/exception-autocapture.js`, 'exception-autocapture.js'],
    [`/static/web-vitals.js?v=${SDK_VERSION}`, 'web-vitals.js'],
    ['/static/surveys.js', 'surveys.js'],
    ['/static/lazy-recorder.js', 'lazy-recorder.js'],
    ['/static/dead-clicks-autocapture.js', 'dead-clicks-autocapture.js'],
  ] as const) {
    const { status, headers, body } = await get(path, { Origin: 'https://shop.example' })
    t.equal(status, 200, path)
    t.ok(body.equals(contentOf(name)), path)
    t.equal(headers['content-type'], 'application/javascript; charset=utf-8')
    t.equal(headers['access-control-allow-origin'], 'https://shop.example')
    t.match(headers['etag'], /^W\/"[0-9a-f]{16}"$/)
    const isExact = path.startsWith(`/static/${SDK_VERSION}/`)
    const kept = isExact ? 'public, max-age=31536000, immutable' : 'public, max-age=300'
    t.equal(headers['cache-control'], kept, path)
  }
  const license = await get('/static/LICENSE')
  t.match(license.headers, { 'content-type': 'text/plain; charset=utf-8' })
  t.match(license.body.toString(), /Apache License/)
})

t.test('files are compressed for the browser, and not sent again if unchanged', async (t) => {
  const plain = contentOf('array.js')
  for (const [accepted, encoding, decode] of [
    ['gzip, deflate, br, zstd', 'br', brotliDecompressSync],
    ['gzip, br;q=0', 'gzip', gunzipSync],
    ['GZIP;q=0.5', 'gzip', gunzipSync],
    ['zstd', undefined, (bytes: Buffer) => bytes],
    ['', undefined, (bytes: Buffer) => bytes],
  ] as const) {
    const { headers, body } = await get('/static/array.js', { 'Accept-Encoding': accepted })
    t.equal(headers['content-encoding'], encoding, accepted)
    t.ok(decode(body).equals(plain), accepted)
    t.match(headers['vary'], /Origin/)
    t.match(headers['vary'], /Accept-Encoding/)
    const etag = String(headers['etag'])
    const head = await get('/static/array.js', { 'Accept-Encoding': accepted }, 'HEAD')
    t.equal(head.body.length, 0)
    t.equal(head.headers['content-length'], String(body.length))
    const known = await get('/static/array.js', { 'If-None-Match': etag })
    t.match(known, { status: 304, headers: { etag } })
    t.equal(known.body.length, 0)
  }
  t.equal((await get('/static/array.js', {}, 'POST')).status, 405)
  t.equal((await get('/static/array.js', {}, 'OPTIONS')).status, 204)
})

t.test('no other file of the machine, the package or another version is served', async (t) => {
  for (const path of [
    '/static/toolbar.js',
    '/static/array.js.map',
    '/static/main.js',
    '/static/package.json',
    '/static/1.0.0/array.js',
    '/static/2/array.js',
    '/static/__proto__',
    '/static/constructor',
    '/static/..%2fpackage.json',
    '/static/..%2f..%2f..%2fpackage.json',
    '/static/%2e%2e/LICENSE',
    '/static/1/..%2fpackage.json',
    '/static/dist/array.js',
    '/static/a/b/array.js',
    '/static/',
    '/array/phc_unknown/array.js',
    `/array/${'x'.repeat(70)}/array.js`,
  ]) {
    const { status, body } = await get(path)
    t.equal(status, 404, path)
    t.match(JSON.parse(body.toString()), { code: 'not_found' }, path)
  }
  const detail = (await get('/static/1.0.0/array.js')).body.toString()
  t.match(detail, `installed version posthog-js ${SDK_VERSION}`)
})

t.test(
  'without the package an answer explains the installation, and an installed package is found',
  async (t) => {
    const files = new SdkFiles([join(t.testdir(), 'nowhere')])
    t.equal(await files.release(0), null)
    const dataDir = t.testdir()
    const [folder = ''] = sdkFolders(dataDir)
    t.equal(folder, join(dataDir, 'posthog-js'))
    const own = new SdkFiles([folder])
    t.equal(await own.release(0), null)
    mkdirSync(join(folder, 'dist'), { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{"version":"9.9.9"}')
    writeFileSync(join(folder, 'dist', 'array.js'), 'one()')
    t.equal(await own.release(999), null, 'not searched for on every request')
    const release = await own.release(1001)
    t.equal(release?.version, '9.9.9')
    t.strictSame(String((await release?.file('array.js', 'identity'))?.bytes), 'one()')
    t.equal(await release?.file('LICENSE', 'identity'), null)
    rmSync(folder, { recursive: true })
    t.equal((await own.release(1e9))?.version, '9.9.9', 'a package that was found stays')
  },
)

t.test('the command installs the published npm package and nothing else', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const install = (...words: string[]) =>
    runCommand('snippet', 'install', '--data-dir', dataDir, ...words)
  t.match(await install(), { exitCode: 1, err: /Run 'tenrec init' first/ })
  const dir = await DataDir.open(dataDir)
  dir.release()
  const wrong = join(dataDir, 'format')
  t.match(await install('--from', wrong), {
    exitCode: 1,
    err: /is not the published package posthog-js/,
  })
  t.match(await install('--from', `${wrong}x`), { exitCode: 1, err: /cannot be read/ })
  t.notOk(existsSync(join(dataDir, 'posthog-js')))
  const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
    packages: Record<string, { version: string; integrity: string }>
  }
  t.match(lock.packages['node_modules/posthog-js'], {
    version: SDK_VERSION,
    integrity: `sha512-${PACKAGE_SHA512}`,
  })
})

t.test('installed files are served and replace the previous ones', async (t) => {
  const work = t.testdir({ old: { dist: { 'array.js': 'old' } }, unpacked: {} })
  const file = join(work, 'package.tgz')
  const parts = ['package.json', 'LICENSE', 'dist/array.js', 'dist/main.js', 'dist/module.js']
  const words = ['-czf', file, '-C', PACKAGE, '--transform', 's,^,package/,', ...parts]
  execFileSync('tar', words)
  const sha512 = createHash('sha512').update(readFileSync(file)).digest('base64')
  const folder = join(work, 'old')
  const source = { file, work: join(work, 'unpacked'), folder, sha512 }
  t.equal(await installSnippet(source), 1, 'builds for bundlers are left out')
  const release = await new SdkFiles([folder]).release(0)
  t.equal(release?.version, SDK_VERSION)
  const served = await release?.file('array.js', 'identity')
  t.ok(contentOf('array.js').equals(served?.bytes ?? Buffer.alloc(0)))
  t.match(String((await release?.file('LICENSE', 'identity'))?.bytes), /Apache License/)
  const sums = { ...source, sha512: 'other' }
  await t.rejects(installSnippet(sums), { message: /is not the published package/ })
  t.ok(
    existsSync(join(folder, 'dist', 'array.js')),
    'a failure leaves the installed files unchanged',
  )
})

t.test('the command prints the snippet for a page', async (t) => {
  const url = 'https://events.shop.example'
  const printed = await runCommand(
    'snippet',
    'show',
    '--data-dir',
    world.dataDir,
    '--public-url',
    url,
  )
  t.equal(
    printed.out,
    `<script src="${url}/static/loader.js" data-project-token="${world.key()}" data-api-host="${url}"></script>\n`,
  )
  const other = await runCommand('snippet', 'show', '--data-dir', world.dataDir, '--project', '9')
  t.match(other, { exitCode: 1, err: /no project 9/ })
})
