/**
 * Large data that anybody with the public key can store is read in pages of bounded size. Every row is returned once.
 * No client waits for the pages of another client, even if the other client never reads them.
 *
 * @lane all
 */
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  PERSONAL_KEY,
  PROJECT_KEY,
  type SpawnedDaemon,
  spawnDaemon,
} from '../../fixtures/daemon.ts'
import {
  type Answer,
  closeConnections,
  jsonOf,
  postJson,
  send,
} from '../../fixtures/exact-client.ts'
import { parseCsv } from '../../fixtures/persons/persons-port.ts'
import { eventually } from '../../fixtures/timed-command.ts'

const MIB = 1024 * 1024
const AUTHORIZATION = { Authorization: `Bearer ${PERSONAL_KEY}` }
/** A page of 8 MiB and its last row. */
const PAGE_BYTES_MAX = 10 * MIB
const API = '/api/projects/1/'

t.teardown(closeConnections)
t.setTimeout(300_000)

let daemon: SpawnedDaemon

t.before(async () => {
  daemon = await spawnDaemon({ dataDir: join(t.testdir(), 'data'), args: ['--workers', '1'] })
})
t.teardown(async () => {
  await daemon.kill()
})

function get(path: string, isAlone = false): Promise<Answer> {
  const url = path.startsWith('http') ? path : `${daemon.url}${API}${path}`
  return send(url, { headers: AUTHORIZATION, isAlone })
}

async function capture(batch: readonly object[]): Promise<void> {
  const { status } = await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  if (status !== 200) throw new Error(`a batch got ${status}`)
}

async function metric(name: string): Promise<number> {
  const page = (await send(`${daemon.url}/metrics`)).body.toString()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1] ?? Number.NaN)
}

async function processed(t: Test): Promise<void> {
  const isDone = async () => (await metric('ingest_queue_depth')) === 0
  t.ok(await eventually(isDone), 'everything is processed')
}

interface Page {
  readonly next: string | null
  readonly count?: number
  readonly results: readonly {
    readonly uuid: string
    readonly distinct_ids: readonly string[]
    readonly distinct_ids_count?: number
    readonly person?: { readonly distinct_ids: readonly string[]; distinct_ids_count?: number }
  }[]
}

async function page(t: Test, path: string): Promise<Page> {
  const answer = await get(path)
  if (answer.status !== 200) t.fail(`${path} got ${answer.status}`)
  t.ok(answer.body.length <= PAGE_BYTES_MAX, `a page of ${answer.body.length} bytes`)
  return jsonOf(answer) as Page
}

/** Returns the uuids of all rows, page by page. */
async function allRows(t: Test, path: string): Promise<readonly string[]> {
  const uuids: string[] = []
  for (let next: string | null = path; next !== null; ) {
    const { results, next: following } = await page(t, next)
    t.ok(results.length > 0 || following === null, 'a page has at least one row')
    uuids.push(...results.map(({ uuid }) => uuid))
    next = following
  }
  return uuids
}

/** Checks that health checks, captures, decisions and small reads are answered in the meantime. */
async function answeredBeside(t: Test, work: Promise<unknown>): Promise<void> {
  let isOver = false
  const event = { api_key: PROJECT_KEY, event: 'beside', distinct_id: 'beside' }
  const probes = {
    health: () => send(`${daemon.url}/_livez`),
    capture: () => postJson(`${daemon.url}/capture/`, event),
    decision: () => postJson(`${daemon.url}/decide/?v=3`, event),
    'small read': () => get('persons/?limit=1'),
  }
  const answered = new Set<string>()
  const asking = Object.entries(probes).map(async ([name, probe]) => {
    do {
      const { status } = await probe()
      if (status !== 200) throw new Error(`a ${name} beside got ${status}`)
      if (!isOver) answered.add(name)
      await sleep(20)
    } while (!isOver)
  })
  await work
  isOver = true
  await Promise.all(asking)
  t.strictSame(
    [...answered].sort(),
    Object.keys(probes).sort(),
    'other requests do not wait for its end',
  )
}

const LARGE_EVENTS = 40

t.test('large events are returned in pages of bounded size, each event once', async (t) => {
  const sent: string[] = []
  for (let first = 0; first < LARGE_EVENTS; first += 20) {
    const batch = Array.from({ length: 20 }, (_, index) => {
      const uuid = `0199a000-0000-7000-8000-${String(first + index).padStart(12, '0')}`
      sent.push(uuid)
      return {
        event: 'large',
        distinct_id: `large-${first}`,
        uuid,
        properties: { text: `${first + index} ${'x'.repeat(900_000)}` },
      }
    })
    await capture(batch)
  }
  await processed(t)
  const reading = Promise.all(
    Array.from({ length: 2 }, () => allRows(t, 'events/?event=large&limit=1000')),
  )
  await answeredBeside(t, reading)
  for (const uuids of await reading) {
    t.same([...uuids].sort(), sent, 'every event is on one page')
  }
  const single = await get(`events/${sent[7] ?? ''}/`)
  t.match(jsonOf(single), { uuid: sent[7], properties: { text: /^7 x/ } })
})

t.test('a person with very many ids is shown with the first ids and their count', async (t) => {
  const ids = Array.from({ length: 5000 }, (_, index) => `id-${index}`)
  const merges = ids.map((alias) => ({
    event: '$merge_dangerously',
    distinct_id: 'many',
    properties: { alias },
  }))
  await capture(merges)
  await capture([{ event: 'of many', distinct_id: 'id-4999' }])
  await processed(t)
  const count = ids.length + 1
  const [listed] = (await page(t, 'persons/?distinct_id=many')).results
  t.equal(listed?.distinct_ids.length, 100)
  t.equal(listed?.distinct_ids_count, count)
  const [event] = (await page(t, `events/?event=${encodeURIComponent('of many')}`)).results
  t.equal(event?.person?.distinct_ids.length, 100)
  t.equal(event?.person?.distinct_ids_count, count)
  const person = `persons/${listed?.uuid ?? ''}/`
  const seen: string[] = []
  while (seen.length < count) {
    const { distinct_ids, distinct_ids_count } = jsonOf(
      await get(`${person}?distinct_ids_offset=${seen.length}`),
    ) as Page['results'][number]
    t.equal(distinct_ids_count, count)
    t.ok(distinct_ids.length > 0 && distinct_ids.length <= 1000)
    if (distinct_ids.length === 0) break
    seen.push(...distinct_ids)
  }
  t.same([...seen].sort(), ['many', ...ids].sort(), 'the rest is returned with distinct_ids_offset')
  const patched = await send(`${daemon.url}${API}${person}`, {
    method: 'PATCH',
    headers: { ...AUTHORIZATION, 'Content-Type': 'application/json' },
    body: JSON.stringify({ properties: { plan: 'pro' } }),
  })
  t.equal(patched.status, 202)
  t.match(jsonOf(patched), { distinct_ids: { length: 1000 }, distinct_ids_count: count })
  const [header = []] = parseCsv((await get(`${person}?format=csv`)).body.toString())
  t.ok(header.includes('distinct_ids.999') && !header.includes('distinct_ids.1000'))
  const few = jsonOf(await get('persons/?distinct_id=large-0')) as Page
  t.notOk(Object.hasOwn(few.results[0] ?? {}, 'distinct_ids_count'), 'nothing is counted otherwise')
})

const LARGE_PERSONS = 40

t.test('large persons are returned in pages and as a table, each once', async (t) => {
  for (let first = 0; first < LARGE_PERSONS; first += 20) {
    const batch = Array.from({ length: 20 }, (_, index) => ({
      event: 'e',
      distinct_id: `p${first + index}`,
      properties: { $set: { text: 'y'.repeat(300_000), [`n${first + index}`]: index } },
    }))
    await capture(batch)
  }
  await processed(t)
  const { count = 0 } = await page(t, 'persons/?limit=1')
  const filter = `properties=${encodeURIComponent('[{"key":"text","operator":"is_set"}]')}`
  const work = (async () => {
    const all = await allRows(t, 'persons/?limit=1000')
    t.equal(new Set(all).size, count)
    t.equal(all.length, count)
    const found = await allRows(t, `persons/?limit=1000&${filter}`)
    t.equal(new Set(found).size, LARGE_PERSONS)
    const table = await get('persons/?format=csv')
    t.equal(table.status, 200)
    const [header = [], ...lines] = parseCsv(table.body.toString())
    t.same([...header].sort(), header, 'the columns are sorted')
    for (let index = 0; index < LARGE_PERSONS; index++) {
      t.ok(header.includes(`properties.n${index}`), `column ${index}`)
    }
    t.same(
      lines.map((line) => line[header.indexOf('uuid')]),
      all,
      'the lines are in the order of the list',
    )
    t.ok(lines.every((line) => line.length === header.length))
  })()
  await answeredBeside(t, work)
})

/** A connection that sends a request and never reads. */
function stopped(path: string): Socket {
  const socket = connect(daemon.port, '127.0.0.1').pause()
  socket.on('error', () => undefined)
  socket.write(
    `GET ${API}${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${PERSONAL_KEY}\r\n\r\n`,
  )
  return socket
}

t.test('a hundred stalled readers hold no threads and little memory', async (t) => {
  const paths = ['events/?limit=1000', 'persons/?format=csv', 'persons/?limit=10000']
  const sockets = Array.from({ length: 100 }, (_, index) => stopped(paths[index % 3] ?? ''))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  let heldMax = 0
  let isWaiting = false
  const work = (async () => {
    const isSeen = () => isWaiting && heldMax > 0
    for (let round = 0; round < 6 || (round < 60 && !isSeen()); round++) {
      heldMax = Math.max(heldMax, await metric('http_answer_bytes_waiting'))
      if ((await metric('worker_queue_depth{threads="long_readers"}')) > 0) isWaiting = true
      await sleep(200)
    }
  })()
  await answeredBeside(t, work)
  t.ok(isWaiting, 'large reads wait for each other')
  t.ok(heldMax > 0 && heldMax <= 140 * MIB, `${heldMax} bytes were waiting`)
  const read = async () => (await get('events/?event=large&limit=20', true)).status === 200
  t.ok(await eventually(read), 'a page can still be read')
  for (const socket of sockets) socket.destroy()
  const isFree = async () => (await metric('http_answer_bytes_waiting')) === 0
  t.ok(await eventually(isFree), 'all memory is released')
})

t.test(
  'a reader that disconnects in the middle of a table leaves no memory reserved',
  async (t) => {
    const socket = stopped('persons/?format=csv')
    socket.once('data', () => socket.destroy())
    socket.resume()
    await new Promise((resolve) => socket.once('close', resolve))
    const isIdle = async () => (await metric('http_requests_in_progress')) <= 1
    t.ok(await eventually(isIdle))
    t.equal(await metric('http_answer_bytes_waiting'), 0)
    t.equal(await metric('worker_thread_deaths_total{threads="long_readers"}'), 0)
  },
)
