/**
 * Tests three machines that store one partition each, and an edge. A project of each partition is accepted, answered
 * and decided on every machine, whatever is killed meanwhile.
 *
 * @lane cluster
 */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { ask, Node, Sender } from '../fixtures/cluster/nodes.ts'
import { boxOf } from '../fixtures/cluster/stream-box.ts'
import { run } from '../fixtures/cluster/tenrec-command.ts'
import { PROJECT_KEY } from '../fixtures/daemon.ts'
import { tableDigests } from '../fixtures/table-digests.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)

const PARTITIONS = [0, 1, 2] as const
/** Project 1 exists from the start. */
const KEYS = [PROJECT_KEY, 'phc_key_of_the_second_project', 'phc_key_of_the_third_project'] as const
const TRENDS = { query: { kind: 'TrendsQuery', series: [{ kind: 'EventsNode', event: 'seen' }] } }

/** Requests with the same answer on every machine. */
function readsOf(project: number): readonly string[] {
  const paths = [
    'events/?limit=50',
    'events/export/?format=ndjson',
    'persons/?limit=100',
    'persons/?format=csv&limit=100000',
    'persons/values/?key=n',
    'event_definitions/',
    'property_definitions/',
    'groups_types/',
    'erasures/',
    'cohorts/',
    'actions/',
    'feature_flags/?limit=100',
    'insights/',
    'annotations/',
  ]
  return paths.map((path) => `/api/projects/${project}/${path}`)
}

/** The same for requests that an empty project, or a query without parameters, answers with another status than 200. */
function otherReadsOf(project: number): readonly string[] {
  const paths = [
    '',
    'secret_keys/',
    'retention/',
    'dashboards/',
    'ingestion_warnings/',
    'dropped_events/',
    'dropped_events/counts/',
    'events/values/?key=n',
    'sessions/property_definitions/',
    'persons/activity/',
    'persons/trends/?events=[{"id":"seen"}]',
    'persons/stickiness/',
    'persons/retention/',
    'persons/funnel/',
    'persons/path/',
    'groups/?group_type_index=0',
    'feature_flags/activity/',
    'feature_flags/my_flags/',
    'feature_flags/local_evaluation/',
    'feature_flags/evaluation_reasons/?distinct_id=ann',
    'persons/cohorts/?person_id=1',
  ]
  return paths.map((path) => `/api/projects/${project}/${path}`)
}

interface Machines {
  readonly brokers: Brokers
  /** Projects by partition. */
  readonly holders: readonly [Node, Node, Node]
  readonly edge: Node
  readonly all: readonly Node[]
}

async function command(...words: readonly string[]): Promise<string> {
  const { code, out, err } = await run(...words)
  if (code !== 0) throw new Error(`${words.join(' ')}: ${err}`)
  return out
}

async function startMachines(t: Test): Promise<Machines> {
  const folder = t.testdir({})
  const brokers = await Brokers.start(t, folder)
  const node = (name: string, partitions: string): Node =>
    new Node(t, folder, name, brokers.addresses, [
      '--partitions',
      partitions,
      '--cluster-copies',
      '1',
    ])
  const holders = [node('zero', '0'), node('one', '1'), node('two', '2')] as const
  const edge = node('edge', 'none')
  const all = [...holders, edge]
  for (const one of all) await one.start()
  for (const partition of [1, 2]) {
    const text = await command(
      'project',
      'create',
      '--name',
      `Of ${partition}`,
      '--partition',
      String(partition),
      '--project-key',
      KEYS[partition] ?? '',
      '--data-dir',
      edge.dataDir,
      '--json',
    )
    t.match(JSON.parse(text), { id: partition + 1, partition })
  }
  return { brokers, holders, edge, all }
}

interface Decided {
  readonly errorsWhileComputingFlags: boolean
  readonly featureFlags: Readonly<Record<string, unknown>>
}

async function decide({ url }: Node, token: string, distinctId: string): Promise<Decided> {
  const body = JSON.stringify({ token, distinct_id: distinctId })
  const answer = await fetch(`${url}/decide/?v=3`, { method: 'POST', body })
  return (await answer.json()) as Decided
}

async function capture({ url }: Node, key: string, event: object): Promise<void> {
  const body = JSON.stringify({ api_key: key, ...event })
  const answer = await fetch(`${url}/capture/`, { method: 'POST', body })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
  await answer.text()
}

/**
 * Checks that no acknowledged event is lost or duplicated, and that each machine equals a single machine with its log.
 */
async function check(
  t: Test,
  { brokers, holders, all }: Machines,
  senders: readonly Sender[],
): Promise<void> {
  const isSent = async (): Promise<boolean> => {
    const unsent = await Promise.all(all.map((node) => node.metric('cluster_outbox_blocks')))
    return unsent.every((blocks) => blocks === 0)
  }
  t.ok(await eventually(isSent), 'no outbox has anything left')
  for (const [index, sender] of senders.entries()) {
    const [holder, project] = [holders[index] ?? holders[0], index + 1]
    const lost = async (): Promise<readonly string[]> => {
      const uuids = await holder.uuids(project)
      return [...sender.acknowledged].filter((uuid) => !uuids.has(uuid))
    }
    t.ok(await eventually(async () => (await lost()).length === 0), 'all events are stored')
    const twice = [...(await holder.uuids(project))].filter(([, count]) => count > 1)
    t.same(twice, [], `nothing of ${sender.acknowledged.size} is there twice`)
  }
  for (const node of all) await node.stop()
  const folder = t.testdir({})
  for (const partition of PARTITIONS) {
    const box = join(folder, `box ${partition}`)
    await boxOf(brokers, box, partition)
    const [ofBox, ofMachine] = await Promise.all([
      tableDigests(box),
      tableDigests((holders[partition] ?? holders[0]).dataDir),
    ])
    t.strictSame({ ...ofMachine, shared_log: '' }, { ...ofBox, shared_log: '' }, `${partition}`)
    const names = Object.keys(ofMachine).filter((name) => name.startsWith('events of'))
    t.strictSame(names, [`events of ${partition + 1}`], 'the events of its project, and no others')
  }
}

/**
 * Kills machines while events are sent, and checks that no event of `before` or of the senders is lost. In the end all
 * are stopped.
 */
async function killThem(t: Test, machines: Machines, before: readonly Sender[]): Promise<void> {
  const { holders, edge, all } = machines
  const [zero, one, two] = holders
  const senders = KEYS.map((key, index) => new Sender(all, 4, before[index], key))
  const more = async (count: number): Promise<void> => {
    await Promise.all(senders.map((sender) => sender.more(count)))
  }
  await more(200)
  await one.kill()
  await more(200)
  const refused = await ask(zero, 'GET', '/api/projects/2/persons/')
  t.match(refused, { status: 503, text: /No replica of this project/ })
  t.equal(
    (await ask(zero, 'GET', '/api/projects/3/persons/')).status,
    200,
    'the others are answered',
  )
  await edge.kill()
  await one.start()
  await more(200)
  await Promise.all([zero.kill(), two.kill()])
  await edge.start()
  await more(200)
  await Promise.all([zero.start(), two.start()])
  await more(200)
  for (const sender of senders) await sender.stop()
  await check(t, machines, senders)
}

t.test('three partitions and an edge answer requests', { skip: areBrokersMissing }, async (t) => {
  const machines = await startMachines(t)
  const { holders, edge, all } = machines
  const senders = KEYS.map((key) => new Sender(all, 4, undefined, key))
  for (const sender of senders) await sender.more(200)
  for (const sender of senders) await sender.stop()
  for (const [index, key] of KEYS.entries()) {
    const elsewhere = holders[(index + 1) % holders.length] ?? edge
    const plan = { $set: { plan: 'free' } }
    await capture(elsewhere, key, { event: 'seen', distinct_id: 'ann', properties: plan })
    const count = (senders[index]?.acknowledged.size ?? 0) + 1
    t.ok(
      await eventually(async () => (await edge.uuids(index + 1)).size === count),
      'the event is shown',
    )
  }

  await t.test('reads are the same on all machines', async (t) => {
    for (const project of PARTITIONS.map((partition) => partition + 1)) {
      const [first, ...others] = all
      const askAll = async (path: string): Promise<number> => {
        const wanted = await ask(first ?? edge, 'GET', path)
        for (const node of others) t.strictSame(await ask(node, 'GET', path), wanted, path)
        return wanted.status
      }
      for (const path of readsOf(project)) t.equal(await askAll(path), 200, path)
      for (const path of otherReadsOf(project)) t.ok((await askAll(path)) < 500, path)
      const answers = await Promise.all(
        all.map((node) => ask(node, 'POST', `/api/projects/${project}/query/`, TRENDS)),
      )
      const results = answers.map(({ text }) => (JSON.parse(text) as { results: unknown }).results)
      for (const result of results) t.strictSame(result, results[0], 'a query')
      const missing = `/api/projects/${project}/persons/00000000-0000-4000-8000-000000000000/`
      for (const node of all) t.equal((await ask(node, 'GET', missing)).status, 404)
    }
  })

  await t.test('a writer reads its own writes, and decisions use them', async (t) => {
    for (const [index, key] of KEYS.entries()) {
      const api = `/api/projects/${index + 1}`
      const filter = { key: 'plan', value: 'pro', type: 'person', operator: 'exact' }
      const flag = { key: 'pro', filters: { groups: [{ properties: [filter] }] } }
      const made = await ask(
        all[(index + 2) % all.length] ?? edge,
        'POST',
        `${api}/feature_flags/`,
        flag,
      )
      t.equal(made.status, 201)
      const { text } = await ask(edge, 'GET', `${api}/persons/?distinct_id=ann`)
      const { results } = JSON.parse(text) as { results: readonly { readonly uuid: string }[] }
      const person = `${api}/persons/${results[0]?.uuid}/`
      for (const [turn, node] of all.entries()) {
        const value = turn === all.length - 1 ? 'pro' : `turn ${turn}`
        const changed = await ask(node, 'POST', `${person}update_property/`, { key: 'plan', value })
        t.equal(changed.status, 202)
        t.match(JSON.parse((await ask(node, 'GET', person)).text), { properties: { plan: value } })
      }
      for (const node of all) {
        const isOn = async (): Promise<boolean> => {
          const { featureFlags, errorsWhileComputingFlags } = await decide(node, key, 'ann')
          return featureFlags['pro'] === true && !errorsWhileComputingFlags
        }
        t.ok(await eventually(isOn), 'the flag is decided on every machine')
      }
    }
  })

  await t.test('routes that belong to one machine', async (t) => {
    const status = JSON.parse(
      (await run('cluster', 'status', '--json', '--data-dir', edge.dataDir)).out,
    ) as { readonly partitions: readonly object[]; readonly nodes: readonly object[] }
    t.match(status.partitions, [
      { partition: 0, machines: 1 },
      { partition: 1, machines: 1 },
      { partition: 2, machines: 1 },
    ])
    t.equal(status.nodes.length, 4)
    const stream = await ask(holders[0], 'GET', '/api/projects/2/events/stream/')
    t.match(stream, { status: 503, text: /does not store the events/ })
    const nobody = await run(
      'project',
      'create',
      '--name',
      'Nowhere',
      '--partition',
      '9',
      '--data-dir',
      holders[1].dataDir,
    )
    t.match(nobody, {
      code: 1,
      err: /No machine of the cluster reports that it stores partition 9/,
    })
    t.match(await holders[0].text('/metrics'), /cluster_partition_outbox_blocks\{partition="2"\} 0/)
  })

  await t.test('nothing is lost when replicas of partitions and an edge are killed', async (t) => {
    await killThem(t, machines, senders)
  })

  const other = await run(
    'serve',
    '--data-dir',
    holders[1].dataDir,
    '--port',
    '0',
    '--partitions',
    '2',
    '--cluster',
    machines.brokers.addresses,
  )
  t.match(other, { code: 1, err: /stores partition 1, not 2/ })
  const alone = await run('serve', '--data-dir', holders[0].dataDir, '--port', '0')
  t.match(alone, { code: 1, err: /stored in several partitions/ })
})

t.test('a single machine has no partitions', async (t) => {
  const dataDir = t.testdir({})
  await command('init', '--data-dir', dataDir)
  const made = await run(
    'project',
    'create',
    '--name',
    'Other',
    '--partition',
    '1',
    '--data-dir',
    dataDir,
  )
  t.match(made, { code: 1, err: /is only for a cluster/ })
  const several = await run('serve', '--data-dir', dataDir, '--partitions', '0-7')
  t.match(several, { code: 2, err: /is allowed only in a cluster/ })
})
