/**
 * Tests many simultaneous uploads that are small on the wire and large in memory, against the built daemon. Readers and
 * senders of ordinary batches are hardly affected.
 *
 * @lane all
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { type Answer, closeConnections, jsonOf, send } from '../fixtures/exact-client.ts'

const MEBIBYTE = 1024 ** 2
const GIBIBYTE = 1024 ** 3
const AUTHORIZATION = { Authorization: `Bearer ${PERSONAL_KEY}` }
const KEY = `"api_key":"${PROJECT_KEY}"`

t.teardown(closeConnections)
t.setTimeout(300_000)

/** A text of at most a number of bytes: `before`, `unit` as often as possible, `after`. */
function filled(before: string, unit: string, after: string, bytesMax: number): string {
  const room = bytesMax - before.length - after.length + 1
  return before + `${unit},`.repeat(Math.floor(room / (unit.length + 1))).slice(0, -1) + after
}

const EVENTS = Array.from({ length: 1000 }, (_, index) => ({
  event: 'good',
  distinct_id: `user ${index % 50}`,
  properties: { index, text: 'x'.repeat(400) },
}))
const GOOD_BATCH = JSON.stringify({ api_key: PROJECT_KEY, batch: EVENTS })
const GOOD_ZIPPED = gzipSync(GOOD_BATCH)
/** The pause between two requests of an ordinary client, short enough to detect any long wait. */
const PAUSE_MS = 100

/** A client that repeats one request. */
class Patient {
  answered = 0
  readonly statuses = new Set<number>()
  #isOver = false
  readonly #done: Promise<void>

  constructor(ask: () => Promise<Answer>) {
    this.#done = this.#run(ask)
  }

  stop(): Promise<void> {
    this.#isOver = true
    return this.#done
  }

  async #run(ask: () => Promise<Answer>): Promise<void> {
    while (!this.#isOver) {
      this.statuses.add((await ask()).status)
      this.answered++
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }
}

interface Bomb {
  /** The number of simultaneous requests. */
  readonly count: number
  readonly path: string
  readonly body: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>>
  /** Codes of the answers, or '' for 200. */
  readonly codes: readonly string[]
  /** Together they take so long that other clients are answered several times meanwhile. */
  readonly isLong?: boolean
}

const EMPTY = filled('{"batch":[', '{}', ']}', 20 * MEBIBYTE)
const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' }
const JSON_TYPE = { 'Content-Type': 'application/json' }
const TOO_LARGE = ['request_too_large']

const BOMBS: Readonly<Record<string, Bomb>> = {
  'seven million events without a key': {
    count: 8,
    path: '/batch/',
    body: gzipSync(EMPTY),
    codes: TOO_LARGE,
    isLong: true,
  },
  'the same as base64 in a form': {
    count: 2,
    path: '/engage/',
    body: `data=${encodeURIComponent(gzipSync(EMPTY).toString('base64'))}`,
    headers: FORM,
    codes: TOO_LARGE,
  },
  'a million events with a wrong key': {
    count: 4,
    path: '/e/',
    body: gzipSync(
      filled('{"token":"phc_x","batch":[{},', '{"distinct_id":1}', ']}', 20 * MEBIBYTE),
    ),
    codes: ['invalid_api_key'],
    isLong: true,
  },
  'one event with millions of lists': {
    count: 2,
    path: '/capture/',
    body: gzipSync(filled(`{${KEY},"event":"e","properties":{"a":[`, '[]', ']}}', 20 * MEBIBYTE)),
    codes: TOO_LARGE,
  },
  'a megabyte of nothing': {
    count: 24,
    path: '/e/',
    body: gzipSync(filled('[', '{}', ']', MEBIBYTE)),
    codes: ['missing_api_key'],
  },
  'an upload that the front could take': {
    count: 50,
    path: '/e/',
    body: filled('[', '{}', ']', 120 * 1024),
    codes: ['missing_api_key'],
  },
  'a flag request': {
    count: 50,
    path: '/flags/?v=2',
    body: gzipSync(
      filled(`{"token":"${PROJECT_KEY}","distinct_id":"u","a":[`, '{}', ']}', 250_000),
    ),
    codes: TOO_LARGE,
  },
  'a private route, by a stranger': {
    count: 24,
    path: '/api/projects/1/feature_flags/',
    body: filled('[', '{}', ']', 4 * MEBIBYTE),
    headers: JSON_TYPE,
    // Bodies beyond the limit of simultaneous uploads get 503.
    codes: ['request_too_large', 'server_error'],
  },
  'large bodies that have to be parsed': {
    count: 2,
    path: '/batch/',
    body: gzipSync(
      filled(`{${KEY},"batch":[`, '{"event":"\\ud83d","distinct_id":1}', ']}', 2 * MEBIBYTE),
    ),
    codes: [''],
    isLong: true,
  },
}

async function beside(daemon: SpawnedDaemon, bomb: Bomb) {
  const { url } = daemon
  const post = (path: string, body: string | Uint8Array, headers = {}): Promise<Answer> =>
    send(url + path, { method: 'POST', body, headers })
  const reader = new Patient(() =>
    send(`${url}/api/projects/1/events/?limit=1`, { headers: AUTHORIZATION }),
  )
  const plain = new Patient(() => post('/batch/', GOOD_BATCH))
  const zipped = new Patient(() => post('/batch/', GOOD_ZIPPED))
  const { path, body, headers } = bomb
  const bombs = Array.from({ length: bomb.count }, () => post(path, body, headers))
  const answers = await Promise.all(bombs)
  const answeredBefore = [reader, plain, zipped].map(({ answered }) => answered)
  await Promise.all([reader.stop(), plain.stop(), zipped.stop()])
  const codes = answers.map((answer) =>
    answer.status === 200 ? '' : (jsonOf(answer) as { code: string }).code,
  )
  return { codes: new Set(codes), answeredBefore, reader, plain, zipped }
}

t.test('decompression bombs do not delay readers and senders of ordinary batches', async (t) => {
  const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
  t.teardown(() => daemon.stop())
  for (const [name, bomb] of Object.entries(BOMBS)) {
    const { codes, answeredBefore, reader, plain, zipped } = await beside(daemon, bomb)
    t.strictSame(
      [...codes].filter((code) => !bomb.codes.includes(code)),
      [],
      name,
    )
    t.strictSame([...reader.statuses, ...plain.statuses, ...zipped.statuses], [200, 200, 200], name)
    if (bomb.isLong !== true) continue
    const [least = 0] = answeredBefore.toSorted((a, b) => a - b)
    t.ok(least > 1, `${name}: answers before those to the bombs: ${answeredBefore.join(', ')}`)
  }
  const { peak } = daemon.memory()
  t.ok(peak < GIBIBYTE, `the daemon had at most ${Math.round(peak / MEBIBYTE)} MiB`)
  const page = (await send(`${daemon.url}/metrics`)).body.toString()
  t.match(page, /^worker_busy_seconds_total\{threads="checkers"\} [0-9.]*[1-9]/m)
  t.match(page, /^worker_threads\{threads="checkers"\} 3$/m)
  t.match(page, /^ingest_checks_waiting\{lane="express"\} 0$/m)
})
