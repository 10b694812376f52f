/**
 * Tests that two machines of a cluster make each step of a ramp once, also if one of them is killed, and that both show
 * the same flag and the same audit log.
 *
 * @lane cluster
 */
import t from 'tap'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { ask, makeFlagAtLast, Node } from '../fixtures/cluster/nodes.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)

const RAMPS = 3
const STEPS = 8

interface Row {
  readonly [name: string]: unknown
}

async function read(node: Node, path: string): Promise<Row> {
  return JSON.parse(await node.text(path)) as Row
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
    const filters = { groups: [{ properties: [], rollout_percentage: 0 }] }
    const made = await makeFlagAtLast(one, `ramp-${ramp}`, filters)
    t.equal(made.status, 201)
    const { id: flag } = JSON.parse(made.text) as Row
    const steps = Array.from({ length: STEPS }, (_, index) => ({
      rollout_percentage: (index + 1) * 10,
      ...(index === 0 ? {} : { after_seconds: 1 }),
    }))
    const isKnown = async (): Promise<boolean> =>
      (await ask(two, 'GET', `/api/projects/1/feature_flags/${String(flag)}/`)).status === 200
    t.ok(await eventually(isKnown), 'the other machine has the flag')
    const scheduled = await ask(two, 'POST', '/api/projects/1/scheduled_changes/', {
      record_id: Number(flag),
      model_name: 'FeatureFlag',
      payload: { operation: 'ramp', value: { steps } },
    })
    t.equal(scheduled.status, 201, scheduled.text)
    const { id } = JSON.parse(scheduled.text) as Row
    changes.push(`/api/projects/1/scheduled_changes/${String(id)}/`)
    for (let step = 1; step <= STEPS; step++) {
      wanted.push(
        `${String(flag)} scheduled change ${String(id)}: ramp, step ${step} of ${STEPS}: ${step * 10} %`,
      )
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
})
