/**
 * Tests the change from one machine to three and back under load: no acknowledged event is lost or duplicated, and the
 * machines are equal.
 *
 * @lane cluster
 */
import { execFile } from 'node:child_process'
import { cpSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { outboxFolder } from '../../src/store/directory/data-dir.ts'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { Node, Sender } from '../fixtures/cluster/nodes.ts'
import { spawnAndKill } from '../fixtures/daemon.ts'
import { tableDigests } from '../fixtures/table-digests.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

const run = promisify(execFile)

t.setTimeout(300_000)
// Each test has its own brokers and machines, and waits most of its time.
t.jobs = 2

async function command(...args: readonly string[]): Promise<string> {
  const { stdout } = await run(process.execPath, ['dist/main.js', ...args])
  return stdout
}

/** Returns the acknowledged events that a node lacks, and those it has twice. */
async function wrongOf(node: Node, sender: Sender): Promise<readonly string[]> {
  const uuids = await node.uuids()
  const lost = [...sender.acknowledged].filter((uuid) => !uuids.has(uuid))
  const twice = [...uuids].filter(([, count]) => count > 1).map(([uuid]) => uuid)
  return [...lost.map((uuid) => `lost ${uuid}`), ...twice.map((uuid) => `twice ${uuid}`)].slice(
    0,
    9,
  )
}

/** Waits until a node has processed all acknowledged events. */
async function hasAll(node: Node, sender: Sender): Promise<boolean> {
  return await eventually(async () => {
    const unsent = await node.metric('cluster_outbox_blocks').catch(() => 0)
    return !(unsent > 0) && (await wrongOf(node, sender)).length === 0
  })
}

t.test('a single machine becomes a cluster of three', { skip: areBrokersMissing }, async (t) => {
  const folder = t.testdir({})
  const brokers = await Brokers.start(t, folder)
  const box = new Node(t, folder, 'one', '')
  const front = { url: '' }
  await box.start()
  front.url = box.url
  const sender = new Sender([front], 2)
  await sender.more(400)
  const backup = join(folder, 'backup')
  await command('backup', join(folder, 'early'), '--data-dir', box.dataDir)
  // Not stopped: its log contains unprocessed blocks.
  await box.kill()
  const before = new Set(sender.acknowledged)
  const [one, two, three, four] = ['one', 'two', 'three', 'four'].map(
    (name) => new Node(t, folder, name, brokers.addresses),
  ) as [Node, Node, Node, Node]
  await one.start()
  front.url = one.url
  await sender.more(300)
  await command('backup', backup, '--data-dir', one.dataDir)
  for (const node of [two, three]) {
    await command('restore', backup, '--data-dir', node.dataDir)
    await node.start()
  }
  const wide = new Sender([one, two, three], 3, sender)
  await Promise.all([sender.more(100), wide.more(300)])
  await sender.stop()
  await wide.stop()
  for (const uuid of sender.acknowledged) wide.acknowledged.add(uuid)
  t.ok([...before].every((uuid) => wide.acknowledged.has(uuid)))
  for (const node of [one, two, three]) {
    t.ok(await hasAll(node, wide), 'all machines receive all events')
    t.strictSame(await wrongOf(node, wide), [])
  }
  await four.start()
  t.ok(
    await eventually(async () => (await four.text('/_health')).includes('lacks blocks')),
    'a machine without a backup reports its missing data',
  )
  await four.kill()
  await command('restore', join(folder, 'early'), '--data-dir', join(folder, 'five'))
  const five = new Node(t, folder, 'five', brokers.addresses)
  await t.rejects(
    five.start(),
    /Restore a backup of a machine of the cluster/,
    'a backup of the single machine is not accepted, either',
  )
  for (const node of [one, two, three]) await node.stop()
  const { shared_log: _, ...tables } = await tableDigests(one.dataDir)
  for (const { dataDir } of [two, three]) t.match(await tableDigests(dataDir), tables)
})

t.test('a cluster machine becomes a single machine', { skip: areBrokersMissing }, async (t) => {
  const folder = t.testdir({})
  const brokers = await Brokers.start(t, folder)
  const three = new Node(t, folder, 'three', brokers.addresses)
  await three.start()
  const sender = new Sender([three], 2)
  await sender.more(300)
  await sender.stop()
  // Then with events that no broker and no copy has.
  await brokers.killAll()
  const alone = new Sender([three], 2, sender)
  await alone.more(300)
  await alone.stop()
  await three.kill()
  cpSync(three.dataDir, join(folder, 'again'), { recursive: true })
  const last = new Node(t, folder, 'three', '')
  await last.start()
  t.ok(await hasAll(last, alone), 'the events that only it has accepted are stored')
  t.notOk(existsSync(outboxFolder(last.dataDir)))
  t.match(await command('project', 'create', '--name', 'Own', '--data-dir', last.dataDir), /Own/)
  const after = new Sender([last], 2, alone)
  await after.more(100)
  await after.stop()
  await last.stop()
  await last.start()
  t.ok(await hasAll(last, after))
  t.strictSame(await wrongOf(last, after), [])
  brokers.beginAll()
  await last.stop()
  const rejoined = new Node(t, folder, 'three', brokers.addresses)
  await t.rejects(
    rejoined.start(),
    /The brokers already have events/,
    'a machine that left the cluster stays out',
  )

  // The change back may be interrupted at any time.
  const again = new Node(t, folder, 'again', '')
  for (const delayMs of [250, 350, 450, 550]) {
    await spawnAndKill({ dataDir: again.dataDir }, delayMs)
  }
  await again.start()
  t.ok(await hasAll(again, alone))
  t.strictSame(await wrongOf(again, alone), [])
})
