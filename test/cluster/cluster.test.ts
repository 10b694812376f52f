/**
 * Tests three brokers and two nodes: whatever is killed, every acknowledged event is stored once on each node, and
 * their tables are equal.
 *
 * @lane cluster
 */
import t, { type Test } from 'tap'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { Node, Sender } from '../fixtures/cluster/nodes.ts'
import { boxOf } from '../fixtures/cluster/stream-box.ts'
import { tableDigests } from '../fixtures/table-digests.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

const SETTLED_MS = 60_000

t.setTimeout(300_000)
// Each test has its own brokers and machines, and waits most of its time.
t.jobs = 2

interface Cluster {
  readonly brokers: Brokers
  readonly nodes: readonly [Node, Node]
}

async function startCluster(t: Test, args: readonly string[] = []): Promise<Cluster> {
  const folder = t.testdir({})
  const brokers = await Brokers.start(t, folder)
  const one = new Node(t, folder, 'one', brokers.addresses, args)
  const two = new Node(t, folder, 'two', brokers.addresses, args)
  await Promise.all([one.start(), two.start()])
  return { brokers, nodes: [one, two] }
}

/** Waits until both nodes have the same events, at least as many as were acknowledged. */
async function settled({ nodes: [one, two] }: Cluster, sender: Sender): Promise<boolean> {
  const deadline = performance.now() + SETTLED_MS
  while (performance.now() < deadline) {
    const unsent = await Promise.all([one, two].map((node) => node.metric('cluster_outbox_blocks')))
    if (unsent.every((blocks) => blocks === 0)) {
      const [left, right] = await Promise.all([one.uuids(), two.uuids()])
      if (left.size === right.size && left.size >= sender.acknowledged.size) return true
    }
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  return false
}

/** Checks that no acknowledged event is lost or duplicated, and that both copies are equal. */
async function check(
  t: Test,
  cluster: Cluster,
  sender: Sender,
): Promise<Readonly<Record<string, string>>> {
  t.ok(await settled(cluster, sender), 'both copies have reached the end')
  for (const node of cluster.nodes) {
    const uuids = await node.uuids()
    const lost = [...sender.acknowledged].filter((uuid) => !uuids.has(uuid))
    const twice = [...uuids].filter(([, count]) => count > 1)
    t.same(lost.slice(0, 9), [], `nothing of ${sender.acknowledged.size} is lost`)
    t.same(twice.slice(0, 9), [], 'nothing is there twice')
  }
  for (const node of cluster.nodes) await node.stop()
  const [one, two] = cluster.nodes
  const [left, right] = await Promise.all([tableDigests(one.dataDir), tableDigests(two.dataDir)])
  const { shared_log: followed = '', ...tables } = left
  t.strictSame(
    { ...right, shared_log: '' },
    { ...tables, shared_log: '' },
    'the tables are the same',
  )
  t.notMatch(followed, /^0 /, 'the copies know how far they have followed')
  return tables
}

t.test('no event is lost if machines are killed', { skip: areBrokersMissing }, async (t) => {
  const cluster = await startCluster(t)
  const { brokers, nodes } = cluster
  const [one, two] = nodes
  const sender = new Sender(nodes, 4)
  await sender.more(500)
  await one.kill()
  await sender.more(300)
  await one.start()
  await sender.more(500)
  await brokers.kill(0)
  await sender.more(500)
  await two.kill()
  brokers.begin(0)
  await two.start()
  await brokers.kill(1)
  await sender.more(300)
  brokers.begin(1)
  await sender.more(500)
  await brokers.killAll()
  await sender.more(500)
  t.equal(await one.metric('cluster_alone'), 1, 'a node reports that it is alone')
  t.match(JSON.parse(await one.text('/_health')), { status: 'degraded' })
  await one.kill()
  await one.start()
  await sender.more(300)
  brokers.beginAll()
  t.ok(
    await eventually(async () => (await two.metric('cluster_alone')) === 0),
    'the node reports that it is not alone any more',
  )
  await sender.more(300)
  await sender.stop()
  const tables = await check(t, cluster, sender)
  const box = `${t.testdirName}/box`
  await boxOf(brokers, box)
  const { shared_log: none, ...ofBox } = await tableDigests(box)
  t.match(none, /^0 /)
  t.strictSame(ofBox, tables, 'and those of one box with the same log')
})

t.test('brokers that lose everything lose no event', { skip: areBrokersMissing }, async (t) => {
  const cluster = await startCluster(t)
  const { brokers, nodes } = cluster
  const sender = new Sender(nodes, 2)
  await sender.more(300)
  await sender.stop()
  t.ok(await settled(cluster, sender))
  const [one, two] = nodes
  await two.kill()
  // New events have one copy only. The brokers lose it, and the outbox must keep it.
  const alone = new Sender([one], 2, sender)
  await alone.more(300)
  await alone.stop()
  await brokers.killAll({ forget: true })
  brokers.beginAll()
  await two.start()
  await check(t, cluster, alone)
})

t.test(
  'a client that requires a majority gets 503 without a majority',
  { skip: areBrokersMissing },
  async (t) => {
    const { brokers, nodes } = await startCluster(t, ['--durability', 'replicated'])
    const sender = new Sender(nodes, 2)
    await sender.more(100)
    await brokers.killAll()
    const before = sender.acknowledged.size
    await new Promise((resolve) => setTimeout(resolve, 3000))
    t.ok(sender.acknowledged.size <= before + 40, 'no event is acknowledged')
    brokers.beginAll()
    await sender.more(100)
    await sender.stop()
  },
)
