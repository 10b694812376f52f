/**
 * Attacks of strangers and of users with a session against the console, in addition to console-sessions.test.ts.
 *
 * @lane quick
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import {
  type ConsoleClient,
  consoleFolder,
  FROM_CONSOLE,
  startConsole,
} from '../../fixtures/console-client.ts'
import { EventStream } from '../../fixtures/event-stream.ts'
import { send } from '../../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../../fixtures/flags/decision-daemon.ts'

t.setTimeout(300_000)

const { daemon, store, browser } = await startConsole(t)

t.test(
  'an invalid Host is refused as another origin and not answered with a server error',
  async (t) => {
    for (const Host of ['1.2.3.999', 'a:99999', '[::::]', 'xn--a']) {
      for (const Origin of ['http://x.example', 'null', 'foo:bar']) {
        const answer = await browser().ask('POST', 'console/session/', {
          json: { key: PERSONAL_KEY },
          headers: { Host, Origin, 'Sec-Fetch-Site': '' },
        })
        t.match(answer, { status: 403, body: { code: 'csrf_failed' } }, `${Host} ${Origin}`)
      }
    }
  },
)

async function linked(userId: number): Promise<ConsoleClient> {
  const client = browser()
  t.equal(await client.logIn({ code: store.console.createCode(userId) }), 200)
  return client
}

function watch({ cookie }: ConsoleClient): Promise<EventStream> {
  const headers = { ...FROM_CONSOLE, Cookie: cookie }
  return EventStream.open(`${daemon.url}/api/projects/1/events/stream/`, headers)
}

t.test('streams of two sessions without a key do not end each other', async (t) => {
  const other = store.users.create({ email: 'other@x.example', level: 1 })
  await daemon.settled()
  const streams = [await watch(await linked(1)), await watch(await linked(other.id))]
  t.teardown(() => {
    for (const stream of streams) stream.close()
  })
  await daemon.capture([{ event: 'seen', distinct_id: 'ann', properties: {} }])
  for (const stream of streams) {
    await stream.have(1)
    t.notOk(stream.messages.some(({ event }) => event === 'replaced'))
  }
  store.users.change(other.id, { isActive: false })
  await streams[1]?.ended
  const [first] = streams
  const isOver = await Promise.race([first?.ended.then(() => true), sleep(50, false)])
  t.notOk(isOver, 'only who left is cut off')
})

t.test('no page contains the address of another host', async (t) => {
  const headers = { Accept: 'text/html' }
  t.equal((await send(`${daemon.url}//evil.example/p/1/web`, { headers })).status, 404)
  t.equal((await send(`${daemon.url}/p/1/web`, { headers })).status, 200)
})

t.test('events are accepted even if the console files cannot be read', async (t) => {
  const broken = [
    { 'index.html': '<p>', 'assets/app.js/not-a-file': '' },
    { 'index.html': '', 'assets/app.js': '' },
  ]
  for (const files of broken) {
    const started = await startDecisions(t, 1, {}, { consoleFolder: consoleFolder(t, files) })
    const page = await send(`${started.url}/`, { headers: { Accept: 'text/html' } })
    t.match([page.status, page.body.toString()], [404, /npm run build/])
    await t.resolves(started.capture([{ event: 'in', distinct_id: 'ann', properties: {} }]))
  }
})
