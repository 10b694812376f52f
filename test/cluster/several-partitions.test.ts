/**
 * Tests a process that stores several partitions: all of them are answered at its address, and survive its death.
 *
 * @lane cluster
 */
import { join } from 'node:path'
import t from 'tap'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { ask, Node, Sender } from '../fixtures/cluster/nodes.ts'
import { boxOf } from '../fixtures/cluster/stream-box.ts'
import { type Outcome, run } from '../fixtures/cluster/tenrec-command.ts'
import { PROJECT_KEY } from '../fixtures/daemon.ts'
import { tableDigests } from '../fixtures/table-digests.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)

/** Projects by partition. Project 1 exists from the start. */
const KEYS = [PROJECT_KEY, 'phc_key_of_the_second_project', 'phc_key_of_the_third_project'] as const

t.test('a process stores several partitions', { skip: areBrokersMissing }, async (t) => {
  const folder = t.testdir({})
  const brokers = await Brokers.start(t, folder)
  const node = (name: string, partitions: string): Node =>
    new Node(t, folder, name, brokers.addresses, [
      '--partitions',
      partitions,
      '--cluster-copies',
      '1',
    ])
  const [several, other] = [node('several', '0,2'), node('other', '1')]
  await several.start()
  await other.start()
  for (const partition of [1, 2]) {
    const made = await run(
      'project',
      'create',
      '--name',
      `Of ${partition}`,
      '--partition',
      String(partition),
      '--project-key',
      KEYS[partition] ?? '',
      '--data-dir',
      several.dataDir,
      '--json',
    )
    t.match(made, { code: 0, out: `"partition":${partition}` })
  }
  const senders = KEYS.map((key) => new Sender([several, other], 4, undefined, key))
  const more = async (count: number): Promise<void> => {
    await Promise.all(senders.map((sender) => sender.more(count)))
  }
  await more(200)
  await several.kill()
  await senders[1]?.more(100)
  await several.start()
  await more(200)
  for (const sender of senders) await sender.stop()

  for (const [index, sender] of senders.entries()) {
    for (const machine of [several, other]) {
      const isThere = async (): Promise<boolean> => {
        const uuids = await machine.uuids(index + 1)
        return [...sender.acknowledged].every((uuid) => uuids.get(uuid) === 1)
      }
      t.ok(await eventually(isThere), `all ${sender.acknowledged.size} events are stored once`)
    }
  }
  const persons = await ask(several, 'GET', '/api/projects/3/persons/?limit=5')
  t.equal(persons.status, 200)
  t.strictSame(await ask(other, 'GET', '/api/projects/3/persons/?limit=5'), persons)

  const beside = join(several.dataDir, 'partition-2')
  const status = await run('cluster', 'status', '--json', '--data-dir', beside)
  const { partitions } = JSON.parse(status.out) as { readonly partitions: readonly object[] }
  t.match(partitions, [
    { partition: 0, machines: 1 },
    { partition: 1, machines: 1 },
    { partition: 2, machines: 1 },
  ])
  await several.stop()
  await other.stop()
  for (const [partition, dataDir] of [several.dataDir, other.dataDir, beside].entries()) {
    const box = join(folder, `box ${partition}`)
    await boxOf(brokers, box, partition)
    const [ofBox, ofMachine] = await Promise.all([tableDigests(box), tableDigests(dataDir)])
    t.strictSame({ ...ofMachine, shared_log: '' }, { ...ofBox, shared_log: '' }, `${partition}`)
  }

  // A list may grow, and skipped events return.
  for (const [list, machines] of [
    ['0', [1, 0, 0]],
    ['0,3,2', [1, 1, 1]],
  ] as const) {
    const changed = node('several', list)
    await changed.start()
    const { out } = await run('cluster', 'status', '--json', '--data-dir', several.dataDir)
    const told = JSON.parse(out) as {
      readonly partitions: readonly { readonly partition: number; readonly machines: number }[]
    }
    const machinesOf = (partition: number): number =>
      told.partitions.find((one) => one.partition === partition)?.machines ?? 0
    t.strictSame([0, 2, 3].map(machinesOf), machines, list)
    if (machines[1] === 1) {
      const uuids = await changed.uuids(3)
      t.ok(
        [...(senders[2]?.acknowledged ?? [])].every((uuid) => uuids.has(uuid)),
        'the events of the partition are stored',
      )
    }
    await changed.stop()
  }

  const serve = async (partitions: string): Promise<Outcome> =>
    await run(
      'serve',
      '--data-dir',
      several.dataDir,
      '--port',
      '0',
      '--partitions',
      partitions,
      '--cluster',
      brokers.addresses,
    )
  t.match(await serve('2,0'), { code: 1, err: /stores partition 0, not 2/ })
})
