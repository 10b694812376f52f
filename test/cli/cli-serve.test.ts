/**
 * `tenrec serve` as an operator runs it: the first start, a second daemon on the same directory, and a directory that
 * is moved away.
 *
 * @lane all
 */
import { mkdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'

async function failureOf(start: Promise<unknown>): Promise<string> {
  try {
    await start
  } catch (error) {
    if (error instanceof Error) return error.message
  }
  throw new Error('the daemon started')
}

/** Returns the answers to requests with valid and invalid keys in every position, and the metrics afterward. */
async function pagesAfterKeys(url: string): Promise<string> {
  const pages: string[] = []
  const ask = async (path: string, init: RequestInit = {}): Promise<void> => {
    const response = await fetch(url + path, init)
    pages.push(await response.text())
  }
  for (const key of [PERSONAL_KEY, PROJECT_KEY, 'phx_of_nobody']) {
    await ask(`/api/projects/1/events/?personal_api_key=${key}&limit=wrong`)
    await ask('/api/projects/2/events/', { headers: { Authorization: `Bearer ${key}` } })
    await ask('/api/projects/1/events/x/', { headers: { Authorization: `Basic ${key}` } })
    await ask('/capture/', { method: 'POST', body: `{"api_key":"${key}","event":7` })
    await ask(`/array/${key}x/config`)
  }
  await ask('/metrics')
  return pages.join('\n')
}

t.test('the first start prints the keys and the listening address', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const daemon = await spawnDaemon({ dataDir })
  t.teardown(() => daemon.kill())
  daemon.signal('SIGHUP')
  t.strictSame(await daemon.stop(), { code: 0, signal: null })
  const credentials = JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8'))
  t.strictSame(credentials, {
    base_url: daemon.url,
    project_id: 1,
    project_key: PROJECT_KEY,
    personal_key: PERSONAL_KEY,
  })
  t.match(daemon.lastLines(), `curl ${daemon.url}/capture/`)
  t.match(daemon.lastLines(), 'Restart it to apply changes')
  // The new address cannot be written to the file, but the daemon starts anyway.
  const elsewhere = join(t.testdirName, 'elsewhere')
  mkdirSync(join(elsewhere, 'credentials.json.address.new'), { recursive: true })
  renameSync(join(dataDir, 'credentials.json'), join(elsewhere, 'credentials.json'))
  symlinkSync(join(elsewhere, 'credentials.json'), join(dataDir, 'credentials.json'))
  const lines: string[] = []
  const again = await spawnDaemon({
    dataDir,
    args: ['--log-level', 'trace'],
    onLine: (line) => lines.push(line),
  })
  t.match(lines.join('\n'), `credentials.json could not be changed to ${again.url}`)
  const shown = await pagesAfterKeys(again.url)
  const title = readFileSync(`/proc/${again.pid}/cmdline`, 'utf8')
  await again.stop()
  for (const text of [again.lastLines(), shown, title]) {
    t.notMatch(text, PERSONAL_KEY, 'keys are shown once')
    t.notMatch(text, PROJECT_KEY)
    t.notMatch(text, 'phx_of_nobody')
  }
})

t.test(
  'a second daemon is refused, names the first one, and the first one keeps running',
  async (t) => {
    const dataDir = join(t.testdir(), 'data')
    await runCommand('init', '--data-dir', dataDir, '--port', '8123')
    const daemon = await spawnDaemon({ dataDir })
    t.teardown(() => daemon.kill())
    const credentials = (): string => readFileSync(join(dataDir, 'credentials.json'), 'utf8')
    t.match(credentials(), `"base_url": "${daemon.url}"`, 'commands find the daemon')
    const message = await failureOf(spawnDaemon({ dataDir }))
    t.match(credentials(), daemon.url)
    t.ok(daemon.isRunning, 'a second daemon is refused while the first one runs')
    t.match(message, /it ended with 1\n/)
    t.match(message, `in use by the process ${daemon.pid}`)
    const response = await fetch(`${daemon.url}/_livez`)
    t.equal(response.status, 200)
  },
)

t.test('if the port is taken, the first start fails and the keys are not lost', async (t) => {
  const dir = t.testdir()
  const daemon = await spawnDaemon({ dataDir: join(dir, 'a') })
  t.teardown(() => daemon.kill())
  const other = { dataDir: join(dir, 'b'), args: ['--port', String(daemon.port)] }
  const message = await failureOf(spawnDaemon(other))
  t.match(message, /it ended with 1\n/)
  t.match(
    message,
    `The keys of the new data directory are in ${join(dir, 'b', 'credentials.json')}`,
  )
  t.match(message, /address in use/)
})

t.test('a daemon exits with status 1 and a message if its directory is moved away', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const daemon = await spawnDaemon({ dataDir })
  t.teardown(() => daemon.kill())
  renameSync(dataDir, `${dataDir}-moved`)
  t.strictSame(await daemon.ended, { code: 1, signal: null })
  t.match(daemon.lastLines(), 'The data directory was moved or removed.')
})
