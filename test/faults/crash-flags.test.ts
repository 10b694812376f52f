/**
 * Tests kill -9 at any time during the write of a flag. Afterward the old or the new flag is stored completely, and
 * decisions, definitions and the activity log agree with it. No answered change is lost.
 *
 * @lane all
 */
import t from 'tap'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { seededRandom } from '../fixtures/event-ledger.ts'
import { send } from '../fixtures/exact-client.ts'
import { seedOf } from '../fixtures/random-depth.ts'

const KILLS = 6
const WRITERS = 4
const RUN_MS_MAX = 250
/** Large enough that a write takes many pages. */
const FILLER = 'x'.repeat(60_000)

const seed = seedOf(1)
const random = seededRandom(seed)

// Covers several starts of a daemon on a machine with other load.
t.setTimeout(300_000)

interface Shown {
  readonly id: number
  readonly key: string
  readonly name: string
  readonly version: number
  readonly tags: readonly string[]
  readonly filters: { readonly payloads: { readonly true: string }; readonly filler: string }
}

/** The state a writer knows of its flag: the number of the last answered change, and of the last sent one. */
interface Ledger {
  readonly path: string
  answered: number
  sent: number
}

async function ask<T>(daemon: SpawnedDaemon, method: string, path: string, body?: unknown) {
  const answer = await send(`${daemon.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: JSON.parse(answer.body.toString()) as T }
}

/** Every field of a flag contains the number of the change that wrote it. */
function bodyOf(number: number): object {
  return {
    name: `n${number}`,
    tags: [`t${number}`],
    filters: {
      groups: [{ properties: [], rollout_percentage: 100 }],
      payloads: { true: String(number) },
      filler: FILLER + String(number),
    },
  }
}

async function write(daemon: SpawnedDaemon, ledger: Ledger, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const number = ledger.sent + 1
    ledger.sent = number
    try {
      const { status } = await ask(daemon, 'PATCH', ledger.path, bodyOf(number))
      if (status === 200) ledger.answered = number
    } catch {
      return
    }
  }
}

t.test('kill -9 while flags are written leaves complete flags', async (t) => {
  t.comment(`seed ${seed} (TEST_SEED)`)
  const options = { dataDir: `${t.testdir()}/data` }
  let daemon = await spawnDaemon(options)
  const ledgers: Ledger[] = []
  for (let writer = 0; writer < WRITERS; writer++) {
    const path = '/api/projects/1/feature_flags/'
    const made = await ask<Shown>(daemon, 'POST', path, { key: `w${writer}`, ...bodyOf(0) })
    t.equal(made.status, 201)
    ledgers.push({ path: `${path}${made.body.id}/`, answered: 0, sent: 0 })
  }
  let answered = 0
  for (let kill = 0; kill < KILLS; kill++) {
    let isOver = false
    const running = daemon
    const writers = ledgers.map((ledger) => write(running, ledger, () => isOver))
    await new Promise((resolve) => setTimeout(resolve, 50 + random() * RUN_MS_MAX))
    await daemon.kill()
    isOver = true
    await Promise.all(writers)
    daemon = await spawnDaemon(options)
    for (const ledger of ledgers) {
      const { body } = await ask<Shown>(daemon, 'GET', ledger.path)
      const number = Number(body.name.slice(1))
      t.ok(number >= ledger.answered && number <= ledger.sent, `${body.key} has change ${number}`)
      t.strictSame(body.tags, [`t${number}`])
      t.equal(body.filters.payloads.true, String(number))
      t.equal(body.filters.filler, FILLER + String(number))
      await checkAgreement(t, daemon, body)
      answered += ledger.answered
    }
  }
  t.ok(answered > 0, 'flags were written')
  t.strictSame(await daemon.stop(), { code: 0, signal: null })
})

/** Checks that the activity log, decisions and definitions show the flag that the API shows. */
async function checkAgreement(t: Tap, daemon: SpawnedDaemon, flag: Shown): Promise<void> {
  const path = '/api/projects/1/feature_flags/'
  const log = await ask<{ total_count: number }>(daemon, 'GET', `${path}${flag.id}/activity/`)
  t.equal(log.body.total_count, flag.version, 'the log has an entry for each version')
  const request = { token: PROJECT_KEY, distinct_id: 'a' }
  const decided = await ask<{ flags: Record<string, { metadata: object }> }>(
    daemon,
    'POST',
    '/flags/?v=2',
    request,
  )
  const { payloads } = flag.filters
  const metadata = { id: flag.id, version: flag.version, payload: payloads.true }
  t.match(decided.body.flags[flag.key]?.metadata, metadata)
  const local = await ask<{ flags: Shown[] }>(daemon, 'GET', `${path}local_evaluation/`)
  const defined = local.body.flags.find(({ id }) => id === flag.id)
  t.match(defined, { version: flag.version, filters: { payloads } })
}
type Tap = Pick<typeof t, 'equal' | 'match'>
