/**
 * Tests kill -9 at random times while ramps, single changes and recurring changes are made, many of them at the moment
 * of a step. Afterward each step was made exactly once, in order, with one entry in the log of the flag and one in the
 * audit log.
 *
 * @lane all
 */
import t from 'tap'
import { PERSONAL_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { seededRandom } from '../fixtures/event-ledger.ts'
import { send } from '../fixtures/exact-client.ts'
import { seedOf } from '../fixtures/random-depth.ts'

const KILLS = 50
const FLAGS = 4
const STEPS = 20
/** Single changes are due within this time. */
const SINGLE_MS = 3000
const DAY_MS = 86_400_000
/** The first look for due changes is this long after the start. */
const FIRST_LOOK_MS = 1000

const seed = seedOf(1)
const random = seededRandom(seed)

// Covers many starts of a daemon on a machine with other load.
t.setTimeout(900_000)

interface Row {
  readonly [name: string]: unknown
}

async function ask(daemon: SpawnedDaemon, method: string, path: string, body?: object) {
  const answer = await send(`${daemon.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return JSON.parse(answer.body.toString()) as Row
}

const PROJECT = '/api/projects/1/'

/** A change that is not a ramp. */
interface Single {
  readonly flag: number
  readonly id: string
  readonly dueMs: number
  readonly isRecurring: boolean
}

/** Creates a flag with a ramp through 5, 10, 15 and so on up to 100 %. */
async function makeRamp(
  daemon: SpawnedDaemon,
  number: number,
): Promise<{ flag: number; change: string }> {
  const filters = { groups: [{ properties: [], rollout_percentage: 0 }] }
  const flag = await ask(daemon, 'POST', `${PROJECT}feature_flags/`, {
    key: `ramp-${number}`,
    active: false,
    filters,
  })
  const steps = Array.from({ length: STEPS }, (_, index) => ({
    rollout_percentage: (index + 1) * 5,
    ...(index === 0 ? {} : { after_seconds: 0.1 }),
  }))
  const change = await ask(daemon, 'POST', `${PROJECT}scheduled_changes/`, {
    record_id: flag['id'],
    model_name: 'FeatureFlag',
    payload: { operation: 'ramp', value: { steps } },
  })
  const id = String(change['id'])
  return { flag: Number(flag['id']), change: `${PROJECT}scheduled_changes/${id}/` }
}

/** Schedules a flag to be enabled within the next seconds, once or every day. */
async function makeSingle(daemon: SpawnedDaemon, number: number): Promise<Single> {
  const isRecurring = number % 2 === 1
  const key = `single-${number}`
  const flag = await ask(daemon, 'POST', `${PROJECT}feature_flags/`, { key, active: false })
  const dueMs = Date.now() + Math.ceil(random() * SINGLE_MS)
  const change = await ask(daemon, 'POST', `${PROJECT}scheduled_changes/`, {
    record_id: flag['id'],
    model_name: 'FeatureFlag',
    payload: { operation: 'update_status', value: true },
    scheduled_at: new Date(dueMs).toISOString(),
    ...(isRecurring ? { is_recurring: true, recurrence_interval: 'daily' } : {}),
  })
  const id = String(change['id'])
  return { flag: Number(flag['id']), id, dueMs, isRecurring }
}

async function isDone(daemon: SpawnedDaemon, change: string): Promise<boolean> {
  return (await ask(daemon, 'GET', change))['executed_at'] !== null
}

t.test('each step is made once, however often the daemon is killed', async (t) => {
  t.comment(`seed ${seed} (TEST_SEED)`)
  const options = { dataDir: `${t.testdir()}/data` }
  let daemon = await spawnDaemon(options)
  const ramps: { flag: number; change: string }[] = []
  const singles: Single[] = []
  let last: { flag: number; change: string }[] = []
  for (let kill = 0; kill < KILLS; kill++) {
    const running = daemon
    const areDone = await Promise.all(last.map(({ change }) => isDone(running, change)))
    if (areDone.every((done) => done)) {
      last = []
      for (let made = 0; made < FLAGS; made++) {
        const ramp = await makeRamp(daemon, ramps.length)
        ramps.push(ramp)
        last.push(ramp)
      }
    }
    singles.push(await makeSingle(running, kill))
    // Half of the kills hit the time around the first look.
    const isAtLook = random() < 0.5
    const delayMs = isAtLook ? FIRST_LOOK_MS * (0.9 + random() * 0.2) : random() * 2 * FIRST_LOOK_MS
    await new Promise((resolve) => setTimeout(resolve, delayMs))
    await daemon.kill()
    daemon = await spawnDaemon(options)
  }
  const final = daemon
  for (const { change } of last) {
    while (!(await isDone(final, change))) await new Promise((resolve) => setTimeout(resolve, 200))
  }
  const changeOf = (id: string) => ask(final, 'GET', `${PROJECT}scheduled_changes/${id}/`)
  for (const { id, isRecurring } of singles) {
    const made = isRecurring ? 'last_executed_at' : 'executed_at'
    while ((await changeOf(id))[made] === null) {
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
  const audit: string[] = []
  for (let offset = 0, count = 1; offset < count; offset += 100) {
    const path = `/api/organizations/@current/audit_log/?limit=100&offset=${offset}`
    const page = await ask(daemon, 'GET', path)
    count = Number(page['count'])
    const entries = page['results'] as readonly Row[]
    audit.push(
      ...entries
        .filter(({ source }) => source === 'schedule')
        .map((entry) => `${String(entry['object_id'])} ${String(entry['route'])}`),
    )
  }
  audit.reverse()
  for (const { flag, change } of ramps) {
    const id = /(\d+)\/$/.exec(change)?.[1]
    const wanted = Array.from(
      { length: STEPS },
      (_, index) =>
        `${flag} scheduled change ${id}: ramp, step ${index + 1} of ${STEPS}: ${(index + 1) * 5} %`,
    )
    t.strictSame(
      audit.filter((entry) => entry.startsWith(`${flag} `)),
      wanted,
      `audit log of flag ${flag}`,
    )
    const shown = await ask(daemon, 'GET', `${PROJECT}feature_flags/${flag}/`)
    t.match(shown, {
      active: true,
      version: STEPS + 1,
      filters: { groups: [{ rollout_percentage: 100 }] },
    })
    const log = await ask(daemon, 'GET', `${PROJECT}feature_flags/${flag}/activity/`)
    t.equal(log['total_count'], STEPS + 1)
    t.match(await ask(daemon, 'GET', change), { ramp: { state: 'done' }, failure_reason: null })
  }
  t.ok(ramps.length > 0)
  for (const { flag, id, dueMs, isRecurring } of singles) {
    const entries = audit.filter((entry) => entry.startsWith(`${flag} `))
    t.equal(entries.length, 1, `audit log of flag ${flag}: ${entries.join()}`)
    const shown = await ask(daemon, 'GET', `${PROJECT}feature_flags/${flag}/`)
    t.match(shown, { active: true, version: 2 })
    const change = await changeOf(id)
    t.equal(change['failure_reason'], null)
    const nextMs = Date.parse(String(change['scheduled_at']))
    t.equal(nextMs, isRecurring ? dueMs + DAY_MS : dueMs, 'the time of the next execution')
  }
  t.strictSame(await daemon.stop(), { code: 0, signal: null })
})
