/**
 * The faults that are injected, and how they are repaired. Each fault names the resources that no other fault may use
 * at the same time. As many faults as possible are active at the same time, except combinations that a cluster need not
 * survive: if only one machine has some data and loses its disk, the data is lost.
 */
import { rmSync } from 'node:fs'
import { sleep } from '../harness.ts'
import type { Machines } from './machines.ts'
import type { RecordedLoad } from './recorded-load.ts'

/** What a fault can act on. */
export interface FaultSetup {
  readonly machines: Machines
  readonly load: RecordedLoad
  readonly random: () => number
  /** A log of the faults with their times, for debugging. */
  readonly story: {
    readonly name: string
    readonly machine: number
    readonly fromMs: number
    /** The time at which the fault was repaired. 0 means that it is not repaired yet. */
    toMs: number
  }[]
  /** True if the streams have all messages since the first one. */
  isWhole: boolean
}

/** A kind of fault. */
export interface FaultKind {
  readonly name: string
  /** How often the kind is chosen, relative to the other kinds. */
  readonly weight: number
  /** The resources that no other fault may use at the same time. `n` stands for the number of the machine. */
  readonly needs: readonly string[]
  /** Injects the fault and repairs it. */
  run(setup: FaultSetup, machine: number): Promise<void>
}

const HELD_MS_MIN = 100
const HELD_MS_MAX = 1500
const ALL_BROKERS = ['broker 0', 'broker 1', 'broker 2']
const ALL_NODES = ['node 0', 'node 1', 'node 2']
const CURRENT_MS_MAX = 60_000
const NOTED_MS = 6000

function waitDuringFault(random: () => number, factor = 1): Promise<void> {
  return sleep(HELD_MS_MIN + random() * (HELD_MS_MAX - HELD_MS_MIN) * factor)
}

/** Waits until all brokers have all messages, so that the next broker may lose its own copy. */
async function current({ machines }: FaultSetup): Promise<void> {
  const deadline = performance.now() + CURRENT_MS_MAX
  for (;;) {
    const unequal = await machines.unequal()
    if (unequal === null) return
    if (performance.now() > deadline) throw new Error(`brokers stay unequal: ${unequal}`)
    await sleep(100)
  }
}

function of<T>(list: readonly T[], index: number): T {
  const found = list[index]
  if (found === undefined) throw new RangeError(`there is no machine ${index}`)
  return found
}

/** All kinds of faults. The caller leaves out the kinds that the machines do not support. */
export const FAULT_KINDS: readonly FaultKind[] = [
  {
    name: 'kill a node',
    weight: 24,
    needs: ['node n'],
    async run({ machines, random }, machine) {
      const node = of(machines.nodes, machine)
      await node.kill()
      await waitDuringFault(random, 0.3)
      await node.start()
    },
  },
  {
    name: 'kill a broker',
    weight: 24,
    needs: ['broker n'],
    async run({ machines, random }, machine) {
      const broker = of(machines.brokers, machine)
      await broker.kill()
      await waitDuringFault(random)
      broker.begin()
    },
  },
  {
    name: 'pause a node',
    weight: 12,
    needs: ['node n'],
    async run({ machines, random }, machine) {
      const node = of(machines.nodes, machine)
      node.pause(true)
      await waitDuringFault(random, 2)
      node.pause(false)
    },
  },
  {
    name: 'pause a broker',
    weight: 12,
    needs: ['broker n'],
    async run({ machines, random }, machine) {
      const broker = of(machines.brokers, machine)
      broker.pause(true)
      await waitDuringFault(random, 2)
      broker.pause(false)
    },
  },
  {
    name: 'cut the network',
    weight: 14,
    needs: ['network n'],
    async run({ machines, random }, machine) {
      machines.network.cut(machine, true)
      await waitDuringFault(random, 2)
      machines.network.cut(machine, false)
    },
  },
  {
    name: 'kill ClickHouse',
    weight: 6,
    needs: ['clickhouse'],
    async run({ machines, random }) {
      await machines.clickhouse?.kill()
      await waitDuringFault(random, 2)
      machines.clickhouse?.begin()
    },
  },
  {
    name: 'kill a machine',
    weight: 8,
    needs: ['node n', 'broker n'],
    async run({ machines, random }, machine) {
      const node = of(machines.nodes, machine)
      const broker = of(machines.brokers, machine)
      await Promise.all([node.kill(), broker.kill()])
      await waitDuringFault(random)
      broker.begin()
      await node.start()
    },
  },
  {
    name: 'kill all brokers',
    weight: 4,
    needs: ALL_BROKERS,
    async run({ machines, random }) {
      await Promise.all(machines.brokers.map((broker) => broker.kill()))
      await waitDuringFault(random, 2)
      for (const broker of machines.brokers) broker.begin()
    },
  },
  {
    name: 'kill all nodes',
    weight: 2,
    needs: ALL_NODES,
    async run({ machines, random }) {
      await Promise.all(machines.nodes.map((node) => node.kill()))
      await waitDuringFault(random, 0.3)
      await Promise.all(machines.nodes.map((node) => node.start()))
    },
  },
  {
    name: 'wipe a broker',
    weight: 3,
    needs: [...ALL_BROKERS, 'network 0', 'network 1', 'network 2'],
    async run(setup, machine) {
      const broker = of(setup.machines.brokers, machine)
      await current(setup)
      await broker.kill()
      broker.wipe()
      await waitDuringFault(setup.random)
      broker.begin()
      await current(setup)
    },
  },
  {
    name: 'wipe a node',
    weight: 3,
    needs: [...ALL_BROKERS, ...ALL_NODES, 'network 0', 'network 1', 'network 2'],
    async run(setup, machine) {
      const { machines, load, random } = setup
      const node = of(machines.nodes, machine)
      await load.avoid(machine, true)
      while ((await node.metric('cluster_outbox_blocks')) !== 0) await sleep(100)
      await node.kill()
      rmSync(node.dataDir, { recursive: true })
      await waitDuringFault(random, 0.3)
      const other = of(machines.nodes, (machine + 1) % machines.nodes.length)
      const isEmpty = setup.isWhole && random() < 0.5
      if (!isEmpty) await machines.refill(node, other)
      await node.start()
      await load.avoid(machine, false)
    },
  },
  {
    name: 'forget the streams',
    weight: 1,
    needs: [...ALL_BROKERS, ...ALL_NODES, 'network 0', 'network 1', 'network 2'],
    async run(setup) {
      const { machines, load } = setup
      await load.hold(true)
      await machines.settled()
      await machines.forgetStreams()
      setup.isWhole = false
      await load.hold(false)
      // A broker that is killed before it has recorded a recreated stream empties the stream; see docs/CLUSTER.md,
      // "Older brokers".
      await current(setup)
      await sleep(NOTED_MS)
    },
  },
]
