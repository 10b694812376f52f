/**
 * Tests large bodies of many clients at once, from the socket to the log, with the threads of the daemon. Every body
 * answered with 200 is completely in the log, no record mixes two clients, and in the end all memory is released,
 * whatever the fate of each body.
 *
 * @lane all
 */
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { createLogger } from '../../src/base/log.ts'
import { GroupCommit } from '../../src/engine/front/group-commit.ts'
import { FairShares } from '../../src/engine/front/shares/fair-shares.ts'
import { WorkerPool } from '../../src/engine/threads/pool.ts'
import { captureRoutes } from '../../src/http/routes/public/capture.ts'
import {
  eventBytes,
  eventStart,
  eventUuidOffset,
  type LogRecord,
  readBlock,
} from '../../src/rules/capture/log-block.ts'
import { ProjectDirectory } from '../../src/store/catalog/organization-store.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { LogReader } from '../../src/store/log/event-log.ts'
import { Dice } from '../fixtures/dice.ts'
import { closeConnections, send } from '../fixtures/exact-client.ts'
import { newShares } from '../fixtures/group-commits.ts'
import { startServer, until } from '../fixtures/http-client.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'

const KEY = 'phc_key_of_large_bodies'
const MIB = 1024 * 1024
const CLIENTS = 10
const BODIES = 4
const SEED = 20_261_122

t.teardown(closeConnections)
t.setTimeout(300_000)

/** Everything between a socket and the log, with room for `budgetBytesMax` of bodies. */
async function startFront(t: Test, budgetBytesMax: number) {
  const dataDir = t.testdir()
  ;(await DataDir.open(dataDir)).release()
  const projects = new ProjectStore(dataDir)
  projects.bootstrap({ projectKey: KEY, personalKey: 'phx_a' })
  await projects.close()
  const directory = new ProjectDirectory(dataDir)
  const deaths: unknown[] = []
  const pool = new WorkerPool({
    threads: threadSettings(dataDir),
    entry: new URL('../fixtures/faults/fragile-checker.js', import.meta.url),
    workerThreads: 2,
    analyticsThreads: 1,
    queryMsMax: 1000,
    onDeath: ({ threads }) => deaths.push(threads),
  })
  const groupCommit = new GroupCommit({
    pool,
    clock: SYSTEM_CLOCK,
    log: createLogger({ level: 'silent', format: 'json' }),
    shares: newShares(),
    onFailure: (cause) => t.fail(String(cause)),
    onCommit: () => {},
  })
  const { port, server, budget, errors } = await startServer(
    t,
    (server, budget) => {
      const routes = captureRoutes({
        clock: SYSTEM_CLOCK,
        pool,
        groupCommit,
        directory,
        budget,
        shares: new FairShares({
          clock: SYSTEM_CLOCK,
          settings: { processingLagMsMax: 30_000, backlogBytesMax: 4 * 1024 ** 3 },
          bodies: budget,
        }),
        addresses: { of: (peer) => peer },
        limits: { isReached: () => false },
        bodyBytesMax: 20 * MIB,
        decodedBytesMax: 20 * MIB,
        isForwardedForTrusted: false,
        isGetCaptureEnabled: false,
        refusal: () => null,
        onAccepted: () => {},
      })
      server.publicRoutes(routes)
    },
    { budgetBytesMax },
  )
  t.teardown(async () => {
    await groupCommit.drained()
    await pool.close()
    await directory.close()
  })
  return { dataDir, port, server, budget, errors, deaths, groupCommit }
}

/** Text that no other event has. It is hexadecimal, so gzip halves it. */
function textOf(client: number, body: number, index: number, bytes: number): string {
  const seed = `${client} ${body} ${index}`
  const hash = createHash('shake256', { outputLength: bytes / 2 }).update(seed)
  return `${seed} ${hash.digest('hex')}`
}

interface Body {
  readonly name: string
  readonly way: (typeof WAYS)[number]
  readonly json: string
  /** Maps uuid to JSON. */
  readonly events: ReadonlyMap<string, string>
}

const WAYS = [
  'plain',
  'plain',
  'gzip',
  'gzip',
  'chunked',
  'parsed',
  'recording',
  'wrong key',
  'no JSON',
  'leaves',
  'leaves late',
  'exit',
  'throw',
] as const

function makeBody(client: number, body: number, way: Body['way'], eventCount: number): Body {
  const events = new Map<string, string>()
  for (let index = 0; index < eventCount; index++) {
    const place = `${client}`.padStart(4, '0') + `${body}`.padStart(4, '0')
    const uuid = `0199a000-0000-4000-8000-${place}${String(index).padStart(4, '0')}`
    const text = textOf(client, body, index, 60_000)
    events.set(uuid, JSON.stringify({ event: 'e', distinct_id: 'd', uuid, properties: { text } }))
  }
  const key = way === 'wrong key' ? 'phc_of_nobody' : KEY
  const list = [...events.values()].join(',')
  // The scanner leaves members with escaped names to the other path.
  const more = way === 'parsed' ? ',"\\u0061":1' : ''
  const json = `{"api_key":"${key}"${more},"batch":[${list}]${way === 'no JSON' ? '' : '}'}`
  return { name: `${client} ${body} ${way}`, way, json, events }
}

/** Sends a body and returns the status, or 0 if the client did not wait for it. */
async function sendBody(port: number, { way, json }: Body): Promise<number> {
  const path = way === 'recording' ? '/s/' : '/batch/'
  const url = `http://127.0.0.1:${port}${path}`
  if (way === 'leaves' || way === 'leaves late') return leave(port, json, way === 'leaves')
  const query = way === 'exit' || way === 'throw' ? `?fault=${way}` : ''
  const body = way === 'gzip' ? gzipSync(json, { level: 1 }) : json
  if (way !== 'chunked') return (await send(url + query, { method: 'POST', body })).status
  const response = await fetch(url, {
    method: 'POST',
    body: new Blob([json]).stream(),
    duplex: 'half',
  } as RequestInit)
  await response.arrayBuffer()
  return response.status
}

/** Disconnects in the middle of the body, or after all of it is sent. */
function leave(port: number, json: string, isInMiddle: boolean): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(0))
    const head = `POST /batch/ HTTP/1.1\r\nHost: a\r\nContent-Length: ${json.length}\r\n\r\n`
    socket.write(head + (isInMiddle ? json.slice(0, json.length - 1000) : json), () =>
      setTimeout(() => socket.resetAndDestroy(), 5),
    )
  })
}

/** Maps uuid to JSON for all records of the log. Throws if a block is damaged. */
function readLog(dataDir: string, t: Test): ReadonlyMap<string, string> {
  const reader = new LogReader({ dataDir })
  t.teardown(() => reader.close())
  const extent = reader.extent() ?? { first: 1, last: 0 }
  const found = new Map<string, string>()
  for (let sequence = extent.first; sequence <= extent.last; sequence++) {
    const block = reader.block(sequence)
    const records: readonly LogRecord[] = block === undefined ? [] : readBlock(block)
    for (const record of records) {
      for (let index = 0; index < record.eventCount; index++) {
        const start = eventStart(record, index)
        const uuidStart = eventUuidOffset(record, index)
        const hex = record.bytes.toString('hex', uuidStart, uuidStart + 16)
        const uuid = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
        if (found.has(uuid)) throw new Error(`${uuid} is in the log twice`)
        found.set(uuid, record.bytes.toString('utf8', start, start + eventBytes(record, index)))
      }
    }
  }
  return found
}

const STATUSES: Readonly<Record<Body['way'], number>> = {
  plain: 200,
  gzip: 200,
  chunked: 200,
  parsed: 200,
  leaves: 0,
  'leaves late': 0,
  recording: 200,
  'wrong key': 401,
  'no JSON': 400,
  exit: 503,
  throw: 503,
}

for (const budgetBytesMax of [400 * MIB, 60 * MIB]) {
  t.test(`every body stays separate, with a budget of ${budgetBytesMax / MIB} MiB`, async (t) => {
    const front = await startFront(t, budgetBytesMax)
    const { port, server, budget, errors, deaths, groupCommit, dataDir } = front
    const dice = new Dice(SEED)
    const expected = new Map<string, string>()
    const acknowledged: string[] = []
    let slabsMax = 0
    const look = setInterval(() => {
      slabsMax = Math.max(slabsMax, budget.slabs.inUse)
    }, 1)
    const client = async (number: number): Promise<void> => {
      for (let index = 0; index < BODIES; index++) {
        const way = dice.pick(WAYS)
        const body = makeBody(number, index, way, dice.between(20, 60))
        for (const [uuid, json] of body.events) expected.set(uuid, json)
        const status = await sendBody(port, body)
        const isRefused = status === 503 && budgetBytesMax < 100 * MIB
        if (!isRefused) t.equal(status, STATUSES[way], body.name)
        if (status === 200 && way !== 'recording') acknowledged.push(...body.events.keys())
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)))
    t.ok(await until(() => server.requestsInProgress === 0))
    await groupCommit.drained()
    clearInterval(look)
    t.equal(budget.slabs.inUse, 0, 'every slab was released')
    t.equal(budget.bytesInFlight, 0)
    t.ok(slabsMax > 1, `at most ${slabsMax} slabs were in use at a time`)
    t.ok(deaths.includes('checkers'), 'threads ended in between')
    t.same(errors, [])
    const stored = readLog(dataDir, t)
    t.same(
      acknowledged.filter((uuid) => !stored.has(uuid)),
      [],
      'all that was acknowledged is there',
    )
    const foreign = [...stored].filter(([uuid, json]) => expected.get(uuid) !== json)
    t.same(foreign, [], `${stored.size} events are as they were sent, to the byte`)
  })
}
