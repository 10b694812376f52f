/**
 * Tests that two machines of a cluster make each step of a ramp once, also if one of them is killed, and that both show
 * the same flag and the same audit log. When a guard stops a ramp, one machine writes the event about it.
 *
 * @lane cluster
 */
import t, { type Test } from 'tap'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { ask, makeFlagAtLast, Node } from '../fixtures/cluster/nodes.ts'
import { PROJECT_KEY } from '../fixtures/daemon.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)

const RAMPS = 3
const STEPS = 8
/** Enough for a guard to decide. */
const PERSONS = 200

interface Row {
  readonly [name: string]: unknown
}

async function read(node: Node, path: string): Promise<Row> {
  return JSON.parse(await node.text(path)) as Row
}

/** Creates a flag that nobody has yet. Resolves with its number when the other machine knows it. */
async function makeFlag(t: Test, one: Node, two: Node, key: string): Promise<number> {
  const filters = { groups: [{ properties: [], rollout_percentage: 0 }] }
  const made = await makeFlagAtLast(one, key, filters)
  t.equal(made.status, 201)
  const flag = Number((JSON.parse(made.text) as Row)['id'])
  const isKnown = async (): Promise<boolean> =>
    (await ask(two, 'GET', `/api/projects/1/feature_flags/${flag}/`)).status === 200
  t.ok(await eventually(isKnown), 'the other machine has the flag')
  return flag
}

/** Schedules a ramp that begins at once. Returns its path. */
async function makeRamp(t: Test, node: Node, flag: number, value: object): Promise<string> {
  const scheduled = await ask(node, 'POST', '/api/projects/1/scheduled_changes/', {
    record_id: flag,
    model_name: 'FeatureFlag',
    payload: { operation: 'ramp', value },
  })
  t.equal(scheduled.status, 201, scheduled.text)
  return `/api/projects/1/scheduled_changes/${String((JSON.parse(scheduled.text) as Row)['id'])}/`
}

async function movesOf(node: Node): Promise<readonly string[]> {
  const { results } = await read(node, '/api/organizations/@current/audit_log/?limit=1000')
  return (results as readonly Row[])
    .filter(({ source }) => source === 'schedule')
    .map((entry) => `${String(entry['object_id'])} ${String(entry['route'])}`)
    .sort()
}

t.test('each step is made once', { skip: areBrokersMissing }, async (t) => {
  const folder = t.testdir({})
  const brokers = await Brokers.start(t, folder)
  const one = new Node(t, folder, 'one', brokers.addresses)
  const two = new Node(t, folder, 'two', brokers.addresses)
  await Promise.all([one.start(), two.start()])
  const changes: string[] = []
  const wanted: string[] = []
  for (let ramp = 0; ramp < RAMPS; ramp++) {
    const flag = await makeFlag(t, one, two, `ramp-${ramp}`)
    const steps = Array.from({ length: STEPS }, (_, index) => ({
      rollout_percentage: (index + 1) * 10,
      ...(index === 0 ? {} : { after_seconds: 1 }),
    }))
    const change = await makeRamp(t, two, flag, { steps })
    changes.push(change)
    const id = /(\d+)\/$/.exec(change)?.[1]
    for (let step = 1; step <= STEPS; step++) {
      wanted.push(`${flag} scheduled change ${id}: ramp, step ${step} of ${STEPS}: ${step * 10} %`)
    }
  }
  const [first = ''] = changes
  const stepsMade = async (node: Node): Promise<number> => {
    const { ramp } = await read(node, first)
    const { steps } = ramp as { readonly steps: readonly Row[] }
    return steps.filter((step) => step['executed_at'] !== null).length
  }
  const hasAll = async (): Promise<boolean> => {
    const { count } = await read(one, '/api/projects/1/scheduled_changes/')
    return count === RAMPS
  }
  t.ok(await eventually(hasAll))
  t.ok(await eventually(async () => (await stepsMade(one)) >= 2))
  await two.kill()
  t.ok(await eventually(async () => (await stepsMade(one)) >= 4), 'the other machine goes on')
  await two.start()
  const areDone = async (node: Node): Promise<boolean> => {
    const shown = await Promise.all(changes.map((change) => read(node, change)))
    return shown.every((change) => change['executed_at'] !== null)
  }
  for (const node of [one, two]) {
    t.ok(await eventually(() => areDone(node)))
    t.strictSame(await movesOf(node), wanted.sort())
  }
  const counts = await Promise.all(
    [one, two].map((node) => node.metric('flag_schedule_moves_total\\{outcome="executed"\\}')),
  )
  t.comment(`steps made by each machine since its start: ${counts.join(', ')}`)
  await stopByGuard(t, one, two)
})

/** Lets a guard turn a ramp back. Checks that both machines then have the event about it, written by one of them. */
async function stopByGuard(t: Test, one: Node, two: Node): Promise<void> {
  const flag = await makeFlag(t, one, two, 'bad')
  const steps = [{ rollout_percentage: 20 }, { rollout_percentage: 100, after_seconds: 3600 }]
  const change = await makeRamp(t, one, flag, { steps, guards: [{}] })
  const rampOn = async (node: Node): Promise<Row> => (await read(node, change))['ramp'] as Row
  const isWatched = async (): Promise<boolean> => (await rampOn(two))['watched_from'] !== null
  t.ok(await eventually(isWatched))
  const acceptedBy = (node: Node): Promise<number> =>
    node.metric('ingest_events_total\\{project="1",fate="accepted"\\}')
  const batch = [false, true].flatMap((value) =>
    Array.from({ length: PERSONS }, (_, number) => {
      const distinct_id = `${value} ${number}`
      const properties = { $feature_flag: 'bad', $feature_flag_response: value }
      const exposed = { event: '$feature_flag_called', distinct_id, properties }
      const failed = { event: '$exception', distinct_id, properties: {} }
      return value && number % 2 === 0 ? [exposed, failed] : [exposed]
    }).flat(),
  )
  const sent = await ask(one, 'POST', '/batch/', { api_key: PROJECT_KEY, batch })
  t.equal(sent.status, 200)
  for (const node of [one, two]) {
    const isBack = async (): Promise<boolean> => (await rampOn(node))['state'] === 'turned_back'
    t.ok(await eventually(isBack))
    const told = async (): Promise<readonly Row[]> => {
      const path = '/api/projects/1/events/?event=$feature_flag_guard_triggered'
      return (await read(node, path))['results'] as readonly Row[]
    }
    t.ok(await eventually(async () => (await told()).length > 0))
    t.match(await told(), [{ properties: { $feature_flag: 'bad', action: 'turned_back' } }])
  }
  const accepted = await Promise.all([one, two].map(acceptedBy))
  const total = accepted.reduce((sum, count) => sum + (Number.isNaN(count) ? 0 : count), 0)
  t.equal(total, batch.length + 1, 'one machine wrote the event')
}
