/**
 * Tests a machine that stores no events beside two that do. It accepts events, answers all requests, changes persons
 * and decides flags, also while one of the others is killed. Without them it accepts events, and reports which requests
 * it cannot answer.
 *
 * @lane cluster
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { type Answered, ask, makeFlag, Node, Sender } from '../fixtures/cluster/nodes.ts'
import { PROJECT_KEY } from '../fixtures/daemon.ts'
import { EventStream } from '../fixtures/event-stream.ts'
import { tableDigests } from '../fixtures/table-digests.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)
// Each test has its own brokers and machines, and waits most of its time.
t.jobs = 2

const PERSONS = '/api/projects/1/persons/'
const FLAGS = '/api/projects/1/feature_flags/'
const COHORTS = '/api/projects/1/cohorts/'
/** Requests with the same answer on all machines. */
const READS = [
  '/api/projects/1/events/?limit=50',
  '/api/projects/1/events/export/?format=ndjson',
  `${PERSONS}?limit=100`,
  `${PERSONS}?format=csv&limit=100000`,
  `${PERSONS}values/?key=n`,
  '/api/projects/1/event_definitions/',
  '/api/projects/1/groups_types/',
  '/api/projects/1/erasures/',
  `${FLAGS}?limit=100`,
  COHORTS,
]
const TRENDS = { query: { kind: 'TrendsQuery', series: [{ kind: 'EventsNode', event: 'seen' }] } }

interface Machines {
  readonly brokers: Brokers
  readonly one: Node
  readonly two: Node
  readonly edge: Node
}

async function startMachines(t: Test): Promise<Machines> {
  const folder = t.testdir({})
  const brokers = await Brokers.start(t, folder)
  const one = new Node(t, folder, 'one', brokers.addresses)
  const two = new Node(t, folder, 'two', brokers.addresses)
  const edge = new Node(t, folder, 'edge', brokers.addresses, ['--partitions', 'none'])
  await Promise.all([one.start(), two.start(), edge.start()])
  return { brokers, one, two, edge }
}

interface StoredPerson {
  readonly properties: { readonly plan?: string; readonly number?: number }
}

function resultsOf({ text }: Answered): unknown {
  return (JSON.parse(text) as { readonly results: unknown }).results
}

interface Decided {
  readonly errorsWhileComputingFlags: boolean
  readonly featureFlags: Readonly<Record<string, unknown>>
}

/** Decides once, also if stored data does not arrive in time. */
async function decideOnce({ url }: Node, distinctId: string, more: object = {}): Promise<Decided> {
  const answer = await fetch(`${url}/decide/?v=3`, {
    method: 'POST',
    body: JSON.stringify({ token: PROJECT_KEY, distinct_id: distinctId, ...more }),
  })
  return (await answer.json()) as Decided
}

/** Decides as clients do. On a busy machine an answer may lack data that did not arrive in time. */
async function decide(node: Node, distinctId: string, more: object = {}): Promise<Decided> {
  let decided = await decideOnce(node, distinctId, more)
  for (let again = 0; again < 600 && decided.errorsWhileComputingFlags; again++) {
    await sleep(100)
    decided = await decideOnce(node, distinctId, more)
  }
  return decided
}

async function capture({ url }: Node, event: object): Promise<number> {
  const body = JSON.stringify({ api_key: PROJECT_KEY, ...event })
  const answer = await fetch(`${url}/capture/`, { method: 'POST', body })
  await answer.text()
  return answer.status
}

function personIs(key: string, value: string): object {
  return { groups: [{ properties: [{ key, value, type: 'person', operator: 'exact' }] }] }
}

async function personOf(node: Node, distinctId: string): Promise<{ readonly uuid: string } | null> {
  const { text } = await ask(node, 'GET', `${PERSONS}?distinct_id=${distinctId}`)
  const { results } = JSON.parse(text) as { readonly results: readonly { readonly uuid: string }[] }
  return results[0] ?? null
}

/** Checks that both copies are equal. */
async function checkCopies(t: Test, { one, two, edge }: Machines): Promise<void> {
  const isSettled = async (): Promise<boolean> => {
    const [left, right] = await Promise.all([one.uuids(), two.uuids()])
    return left.size === right.size && (await edge.metric('cluster_outbox_blocks')) === 0
  }
  t.ok(await eventually(isSettled), 'both copies have reached the end')
  for (const node of [edge, one, two]) await node.stop()
  const [left, right] = await Promise.all([tableDigests(one.dataDir), tableDigests(two.dataDir)])
  t.strictSame({ ...right, shared_log: '' }, { ...left, shared_log: '' }, 'the tables are the same')
}

t.test('an edge answers all requests', { skip: areBrokersMissing }, async (t) => {
  const machines = await startMachines(t)
  const { one, edge } = machines
  const sender = new Sender([edge], 2)
  await sender.more(400)
  await sender.stop()
  const company = { $group_type: 'company', $group_key: 'acme', $group_set: { plan: 'pro' } }
  await capture(edge, { event: '$groupidentify', distinct_id: 'ann', properties: company })
  await capture(edge, { event: 'seen', distinct_id: 'ann', properties: { $set: { plan: 'free' } } })
  t.ok(await eventually(async () => (await edge.uuids()).size === sender.acknowledged.size + 2))
  for (const node of [one, machines.two]) {
    const isShown = async () => (await node.uuids()).size === sender.acknowledged.size + 2
    t.ok(await eventually(isShown))
  }

  await t.test('reads on an edge equal those on the machines that store the events', async (t) => {
    for (const path of READS) {
      const [here, there] = [await ask(edge, 'GET', path), await ask(one, 'GET', path)]
      const hereText = here.text.replaceAll(edge.url, '')
      t.strictSame([here.status, hereText], [200, there.text.replaceAll(one.url, '')], path)
    }
    const [here, there] = await Promise.all([
      ask(edge, 'POST', '/api/projects/1/query/', TRENDS),
      ask(one, 'POST', '/api/projects/1/query/', TRENDS),
    ])
    t.equal(here.status, 200)
    t.strictSame(resultsOf(here), resultsOf(there), 'a query')
    const missing = await ask(edge, 'GET', `${PERSONS}00000000-0000-4000-8000-000000000000/`)
    t.equal(missing.status, 404, 'a request refused there is refused here')
    const stream = await ask(edge, 'GET', '/api/projects/1/events/stream/')
    t.match(stream, { status: 503, retryAfter: '30', text: /does not store the events/ })
  })

  await t.test('a writer reads its own writes', async (t) => {
    const { uuid: id = '' } = (await personOf(edge, 'ann')) ?? {}
    t.match(await makeFlag(edge, 'pro', personIs('plan', 'pro 19')), { status: 201 })
    for (let time = 0; time < 20; time++) {
      const body = { key: 'plan', value: `pro ${time}` }
      const { status } = await ask(edge, 'POST', `${PERSONS}${id}/update_property/`, body)
      const { text } = await ask(edge, 'GET', `${PERSONS}${id}/`)
      const { featureFlags, errorsWhileComputingFlags } = await decide(edge, 'ann')
      const { properties } = JSON.parse(text) as StoredPerson
      const isOn = featureFlags['pro'] === true
      t.strictSame(
        [status, properties.plan, isOn, errorsWhileComputingFlags],
        [202, `pro ${time}`, time === 19, false],
      )
    }
  })

  await t.test('each machine tells its own listeners about a change of a flag', async (t) => {
    const streams = await Promise.all(
      [one, edge].map(({ url }) =>
        EventStream.open(`${url}/flags/changes?token=${PROJECT_KEY}`, {}),
      ),
    )
    t.teardown(() => streams.map((stream) => stream.close()))
    const versionsOf = ({ texts }: EventStream) =>
      [...texts.join('').matchAll(/event: flags\ndata: (.+)\n/g)].map(([, data = '']) => data)
    t.ok(await eventually(async () => streams.every((stream) => versionsOf(stream).length > 0)))
    const [before = [], same = []] = streams.map(versionsOf)
    t.strictSame(same, before, 'both machines have the same version')
    t.match(await makeFlag(one, 'told', { groups: [{ properties: [] }] }), { status: 201 })
    const areTold = async () => streams.every((stream) => versionsOf(stream).at(-1) !== before[0])
    t.ok(await eventually(areTold))
    const [now, there] = streams.map((stream) => versionsOf(stream).at(-1))
    t.equal(there, now)
  })

  await t.test('flags that need persons, lists or groups are decided on an edge', async (t) => {
    const fixed = await ask(edge, 'POST', COHORTS, { name: 'chosen', is_static: true })
    const { id: cohort } = JSON.parse(fixed.text) as { readonly id: number }
    const inList = [{ key: 'id', type: 'cohort', value: cohort }]
    t.match(await makeFlag(edge, 'listed', { groups: [{ properties: inList }] }), {
      status: 201,
    })
    const pro = [{ key: 'plan', type: 'group', group_type_index: 0, value: 'pro' }]
    const ofGroups = { aggregation_group_type_index: 0, groups: [{ properties: pro }] }
    t.match(await makeFlag(edge, 'company', ofGroups), { status: 201 })
    const all = { groups: [{ rollout_percentage: 50 }] }
    await makeFlag(edge, 'kept', all, { ensure_experience_continuity: true })
    const before = await decide(edge, 'ann', { groups: { company: 'acme' } })
    t.match(before, { errorsWhileComputingFlags: false, featureFlags: { company: true } })
    t.notOk(before.featureFlags['listed'])
    const { uuid: person = '' } = (await personOf(edge, 'ann')) ?? {}
    const added = await ask(edge, 'PATCH', `${COHORTS}${cohort}/`, { person_uuids: [person] })
    t.equal(added.status, 200)
    t.equal(
      (await decide(edge, 'ann')).featureFlags['listed'],
      true,
      'the change is visible immediately',
    )
    // A person that was hashed by another id keeps its result.
    const guests = Array.from({ length: 12 }, (_, index) => `visitor ${index}`)
    for (const guest of guests) {
      const { featureFlags } = await decide(edge, guest)
      const known = { $anon_distinct_id: guest }
      const member = `member of ${guest}`
      await capture(edge, { event: '$identify', distinct_id: member, properties: known })
      const isShown = async (): Promise<boolean> =>
        (await personOf(edge, encodeURIComponent(member))) !== null
      t.ok(await eventually(isShown))
      const first = await decide(edge, member, known)
      t.equal(first.featureFlags['kept'], featureFlags['kept'])
      const isKept = async (): Promise<boolean> =>
        (await decide(one, member)).featureFlags['kept'] === featureFlags['kept'] &&
        (await decide(edge, member)).featureFlags['kept'] === featureFlags['kept']
      t.ok(await eventually(isKept), 'the result is the same on all machines')
    }
  })

  t.ok((await edge.metric('cluster_questions_total')) > 50)
  t.ok((await one.metric('cluster_answers_total')) > 10)
  await checkCopies(t, machines)
  const { events_of_1: none, ...tables } = (await tableDigests(edge.dataDir)) as Record<
    string,
    string
  >
  t.equal(none, undefined)
  t.match(tables['persons'], /^0 /, 'the edge stores nothing')
})

t.test(
  'an edge keeps answering when the machines that store events are killed one after another',
  { skip: areBrokersMissing },
  async (t) => {
    const machines = await startMachines(t)
    const { one, two, edge } = machines
    const before = new Sender([edge], 1)
    await before.more(100)
    await before.stop()
    t.match(await makeFlag(edge, 'everybody', { groups: [{}] }), { status: 201 })
    t.match(await makeFlag(edge, 'pro', personIs('plan', 'pro')), { status: 201 })
    await capture(edge, {
      event: 'seen',
      distinct_id: 'ann',
      properties: { $set: { plan: 'pro' } },
    })
    // Each machine shows an event when it has processed it.
    for (const node of [one, two]) {
      t.ok(await eventually(async () => (await personOf(node, 'ann')) !== null))
    }
    const { uuid: id = '' } = (await personOf(edge, 'ann')) ?? {}
    t.ok(await eventually(async () => (await decide(edge, 'ann')).featureFlags['pro'] === true))

    let isOver = false
    let number = 0
    const wrong: unknown[] = []
    /** Changes, reads and decides repeatedly. */
    const use = async (): Promise<void> => {
      while (!isOver) {
        number++
        const body = { key: 'number', value: number }
        const { status } = await ask(edge, 'POST', `${PERSONS}${id}/update_property/`, body)
        const read = await ask(edge, 'GET', `${PERSONS}${id}/`)
        const isRead = read.status === 200 && status === 202
        const seen = isRead ? (JSON.parse(read.text) as StoredPerson).properties.number : null
        if (seen !== number) wrong.push([status, number, read.text])
        const { featureFlags, errorsWhileComputingFlags } = await decideOnce(edge, 'ann')
        if (featureFlags['everybody'] !== true) wrong.push(['decided', featureFlags])
        if (!errorsWhileComputingFlags && featureFlags['pro'] !== true) wrong.push(['pro', number])
        await sleep(20)
      }
    }
    const used = use()
    const rounds = async (count: number): Promise<void> => {
      const wanted = number + count
      t.ok(await eventually(async () => number >= wanted), 'the edge continues')
    }
    await rounds(5)
    await two.kill()
    await rounds(10)
    await two.start()
    await rounds(10)
    await one.kill()
    await rounds(10)
    isOver = true
    await used
    t.strictSame(wrong, [], `nothing of ${number} rounds was wrong`)

    await two.kill()
    const refused = await ask(edge, 'GET', `${PERSONS}${id}/`)
    t.match(refused, { status: 503, retryAfter: '5', text: /No replica of this project/ })
    t.match(await makeFlag(edge, 'late', { groups: [{}] }), { status: 503, retryAfter: '5' })
    const answered: string[] = []
    const reading = ask(edge, 'GET', `${PERSONS}${id}/`).finally(() => answered.push('read'))
    const partial = await decideOnce(edge, 'ann').finally(() => answered.push('decision'))
    t.match(partial, { errorsWhileComputingFlags: true, featureFlags: { everybody: true } })
    t.notOk(partial.featureFlags['pro'])
    await reading
    t.strictSame(answered, ['decision', 'read'], 'a decision does not wait as a read does')
    const isDegraded = async (): Promise<boolean> =>
      (await edge.text('/_health')).includes('degraded')
    t.ok(await eventually(isDegraded), 'the edge reports that no machine is available')
    const sender = new Sender([edge], 1, before)
    await sender.more(100)
    await sender.stop()
    await edge.kill()
    await edge.start()
    t.match(await decideOnce(edge, 'ann'), { featureFlags: { everybody: true } })
    await Promise.all([one.start(), two.start()])
    const lost = async (): Promise<readonly string[]> => {
      const stored = await edge.uuids()
      return [...sender.acknowledged].filter((uuid) => !stored.has(uuid))
    }
    t.ok(
      await eventually(async () => (await lost()).length === 0),
      'all accepted events are stored',
    )
    t.ok(await eventually(async () => (await decide(edge, 'ann')).featureFlags['pro'] === true))
    await checkCopies(t, machines)
  },
)
