/**
 * Tests the promise of a 200: the data is stored once and unaltered, whatever happens to the process. The built daemon
 * is killed at random times under load, repeatedly in one data directory: while it writes, right after an answer, while
 * it starts, while it stops.
 *
 * @lane all
 */
import t from 'tap'
import {
  PERSONAL_KEY,
  PROJECT_KEY,
  type SpawnedDaemon,
  spawnAndKill,
  spawnDaemon,
} from '../fixtures/daemon.ts'
import { EventLedger, type Random, seededRandom } from '../fixtures/event-ledger.ts'
import { readEvents, type StoredEvent, untilVisible } from '../fixtures/event-pages.ts'
import { closeConnections, postJson, RawConnection } from '../fixtures/exact-client.ts'
import { atFullDepth, roundsOf, seedOf } from '../fixtures/random-depth.ts'

const CLIENTS = 8
const RUN_MS_MIN = 20
const RUN_MS_MAX = 600
const NOTHING_WRONG = { lost: [], doubled: [], altered: [], invented: [] }

const seed = seedOf(1)
const random = seededRandom(seed)

t.teardown(closeConnections)
// Covers several starts and stops on a machine with other load.
t.setTimeout(300_000)

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

function between(low: number, high: number, source: Random): number {
  return low + source() * (high - low)
}

/** Load that ends when `stop` is called. `nextAcknowledgment` resolves right after an answer of 200. */
function startLoad(
  url: string,
  ledger: EventLedger,
): { stop(): Promise<void>; nextAcknowledgment(): Promise<void> } {
  let isOver = false
  let notify: (() => void) | null = null
  const clients = Array.from({ length: CLIENTS }, () =>
    ledger.drive(
      url,
      PROJECT_KEY,
      () => isOver,
      () => {
        notify?.()
        notify = null
      },
    ),
  )
  return {
    async stop() {
      isOver = true
      await Promise.all(clients)
    },
    nextAcknowledgment: () =>
      new Promise((resolve) => {
        notify = resolve
      }),
  }
}

/** Returns everything that can be read. An event outside the ledger marks the end. */
async function readAll(daemon: SpawnedDaemon): Promise<readonly StoredEvent[]> {
  const uuid = crypto.randomUUID()
  const end = { api_key: PROJECT_KEY, event: 'end of the log', distinct_id: 'reader', uuid }
  const { status } = await postJson(`${daemon.url}/capture/`, end)
  if (status !== 200) throw new Error(`the last event was answered ${status}`)
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  await untilVisible(source, uuid)
  const events = await readEvents(source)
  return events.filter(({ event }) => event !== end.event)
}

type Ending = 'at random' | 'after an answer' | 'while stopping'

function chooseEnding(): Ending {
  const number = random()
  if (number < 0.35) return 'after an answer'
  return number < 0.5 ? 'while stopping' : 'at random'
}

/** Lets the daemon run under load for a moment and kills it. */
async function runAndKill(daemon: SpawnedDaemon, ledger: EventLedger): Promise<Ending> {
  const load = startLoad(daemon.url, ledger)
  // Sometimes so early that no request has been answered yet.
  if (random() < 0.85) await load.nextAcknowledgment()
  await pause(between(RUN_MS_MIN, RUN_MS_MAX, random))
  const ending = chooseEnding()
  if (ending === 'after an answer') await load.nextAcknowledgment()
  if (ending === 'while stopping') {
    daemon.signal('SIGTERM')
    await pause(between(0, 100, random))
  }
  await daemon.kill()
  await load.stop()
  return ending
}

for (const { durability, kills, skip } of [
  { durability: 'fsync', kills: roundsOf(7, 2), skip: false },
  { durability: 'commit', kills: 3, skip: atFullDepth },
] as const) {
  t.test(`kill -9 loses nothing that was answered, with ${durability}`, { skip }, async (t) => {
    t.comment(`seed ${seed} (TEST_SEED)`)
    const options = { dataDir: `${t.testdir()}/data`, args: ['--durability', durability] }
    const ledger = new EventLedger(random)
    const endings: string[] = []
    for (let kill = 0; kill < kills; kill++) {
      const daemon = await spawnDaemon(options)
      endings.push(await runAndKill(daemon, ledger))
      if (random() < 0.2) {
        await spawnAndKill(options, between(20, 500, random))
        endings.push('while starting')
      }
    }
    const daemon = await spawnDaemon(options)
    const afterward = await readAll(daemon)
    t.strictSame(ledger.check(afterward), NOTHING_WRONG)
    const unknown = ledger.sentCount - ledger.acknowledgedCount
    t.comment(
      `${endings.length} kills (${endings.join(', ')}), ${ledger.sentCount} events sent, ` +
        `${unknown} without an answer`,
    )
    t.ok(ledger.acknowledgedCount > kills * 20, 'there was load')
    t.strictSame(ledger.unexpectedStatuses, [])

    await ledger.settle(daemon.url, PROJECT_KEY)
    const complete = await readAll(daemon)
    t.strictSame(ledger.check(complete), NOTHING_WRONG)
    t.equal(complete.length, ledger.sentCount, 'repeated requests are stored once')
    t.strictSame(await daemon.stop(), { code: 0, signal: null })
  })
}

t.test(
  'SIGTERM under load: every received request is answered, and the exit code is 0',
  async (t) => {
    const options = { dataDir: `${t.testdir()}/data` }
    const ledger = new EventLedger(random)
    for (let round = 0; round < roundsOf(2); round++) {
      const daemon = await spawnDaemon(options)
      const load = startLoad(daemon.url, ledger)
      await load.nextAcknowledgment()
      await pause(between(RUN_MS_MIN, RUN_MS_MAX, random))
      const upload = await startUpload(daemon.url)
      daemon.signal('SIGTERM')
      await pause(100)
      upload.finish()
      t.strictSame(await daemon.ended, { code: 0, signal: null })
      t.notMatch(daemon.lastLines(), /"level":[56]0/, 'it stops without an error')
      t.strictSame(await upload.statuses(), [401], 'an upload that was on its way is answered')
      await load.stop()
    }
    const daemon = await spawnDaemon(options)
    t.strictSame(ledger.check(await readAll(daemon)), NOTHING_WRONG)
    t.ok(ledger.acknowledgedCount > 100, 'there was load')
    t.strictSame(ledger.unexpectedStatuses, [])
    t.strictSame(await daemon.stop(), { code: 0, signal: null })
  },
)

/** A request with its second half sent later. Its key is wrong, so nothing is stored. */
async function startUpload(
  url: string,
): Promise<{ finish(): void; statuses(): Promise<readonly number[]> }> {
  const body = JSON.stringify({ api_key: 'phc_unknown', event: 'e', distinct_id: 'u' })
  const connection = await RawConnection.open(url)
  const head = `POST /capture/ HTTP/1.1\r\nHost: tenrec\r\nContent-Length: ${body.length}\r\n\r\n`
  connection.write(head + body.slice(0, 20))
  await pause(20)
  return {
    finish: () => connection.write(body.slice(20)),
    async statuses() {
      const statuses = await connection.untilAnswers(1)
      connection.destroy()
      return statuses
    },
  }
}

t.test('a second signal ends a stop that waits for an upload, with exit code 1', async (t) => {
  const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
  const upload = await startUpload(daemon.url)
  daemon.signal('SIGTERM')
  await pause(200)
  t.ok(daemon.isRunning, 'the stop waits for the upload')
  daemon.signal('SIGTERM')
  t.strictSame(await daemon.ended, { code: 1, signal: null })
  t.strictSame(await upload.statuses(), [], 'the upload is not waited for')
})
