/**
 * Login links: the link that the first start prints, and links that a command creates while a daemon runs.
 *
 * @lane quick
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { runCommand } from '../fixtures/command-line.ts'
import { FROM_CONSOLE } from '../fixtures/console-client.ts'
import { spawnDaemon } from '../fixtures/daemon.ts'
import { jsonOf, send } from '../fixtures/exact-client.ts'

const LINK = /^ {2}console {7}(http:\/\/127\.0\.0\.1:\d+)\/#login=([\w-]{24})$/m
const WAIT_MS_MAX = 60_000

/** Returns the output of a daemon up to the moment when a text has appeared. */
async function written(daemon: { lastLines(): string }, text: string): Promise<string> {
  const deadline = performance.now() + WAIT_MS_MAX
  while (!daemon.lastLines().includes(text)) {
    if (performance.now() > deadline) throw new Error(daemon.lastLines())
    await sleep(20)
  }
  return daemon.lastLines()
}

async function logIn(url: string, code: string) {
  const answer = await send(`${url}/api/console/session/`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...FROM_CONSOLE },
    body: JSON.stringify({ code }),
  })
  return { status: answer.status, body: jsonOf(answer) }
}

t.test('login links of a running daemon', async (t) => {
  const dataDir = t.testdir()
  const daemon = await spawnDaemon({ dataDir })
  t.teardown(() => daemon.stop())
  const link = (...words: readonly string[]) =>
    runCommand('login-link', '--data-dir', dataDir, ...words)
  const codeOf = ({ out }: { readonly out: string }) => /#login=([\w-]{24})\n$/.exec(out)?.[1] ?? ''

  t.test('the first start prints a link with full access and does not log it', async (t) => {
    const lines = await written(daemon, 'Read it back')
    const [, url = '', code = ''] = LINK.exec(lines) ?? []
    t.equal(url, daemon.url)
    const logged = lines.split('\n').filter((line) => line.startsWith('{'))
    t.ok(logged.length > 0)
    t.notOk(logged.some((line) => line.includes(code) || line.includes('#login')))
    t.match(await logIn(url, code), { status: 200, body: { user: { id: 1 }, scopes: ['*'] } })
    t.equal((await logIn(url, code)).status, 401, 'the link works once')
  })

  t.test('a command prints another link', async (t) => {
    const made = await link()
    t.equal(made.exitCode, 0)
    t.ok(made.out.startsWith(`${daemon.url}/#login=`), made.out)
    t.match(await logIn(daemon.url, codeOf(made)), { status: 200, body: { user: { id: 1 } } })
    await runCommand('user', 'create', '--email', 'ann@example.com', '--data-dir', dataDir)
    const anns = await link('--user', 'ann@example.com')
    t.match(await logIn(daemon.url, codeOf(anns)), {
      status: 200,
      body: { user: { email: 'ann@example.com' } },
    })
    const { out } = await runCommand('audit', 'list', '--json', '--data-dir', dataDir)
    t.match(out, '"route":"tenrec login-link"')
    t.match(out, '"route":"/api/console/session/"')
    t.notMatch(out, codeOf(anns))
  })

  t.test('the link has the address at which people reach the console', async (t) => {
    const at = async (...words: readonly string[]) => (await link(...words)).out.split('#')[0]
    t.equal(await at('--public-url', 'https://x.example'), 'https://x.example/')
    t.equal(await at('--base-url', 'http://10.0.0.5:80/'), 'http://10.0.0.5:80/')
    t.equal(await at('--console-path', '/see'), `${daemon.url}/see/`)
  })

  t.test(
    'a link is refused for an unknown user, for a deactivated user, and without a console',
    async (t) => {
      t.match(await link('--user', 'eve'), { exitCode: 1, err: /There is no user "eve"/ })
      await runCommand('user', 'deactivate', 'ann@example.com', '--data-dir', dataDir)
      t.match(await link('--user', 'ann@example.com'), { exitCode: 1, err: /inactive/ })
      t.match(await link('--no-console'), { exitCode: 1, err: /console=false/ })
      t.match(await link('--console-path', '/api/x'), { exitCode: 2, err: /console_path/ })
    },
  )
})

t.test('without a console the first start prints no link', async (t) => {
  const daemon = await spawnDaemon({ dataDir: t.testdir(), args: ['--no-console'] })
  t.teardown(() => daemon.stop())
  t.notMatch(await written(daemon, 'Read it back'), /^ {2}console|#login/m)
})
