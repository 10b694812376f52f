/** Three machines, each with a broker and a node. ClickHouse runs beside them if it is installed. */
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { createLogger } from '../../src/base/log.ts'
import { CONTROL_STREAM, eventStream, NatsBrokers, SALT_STREAM } from '../../src/cluster/nats.ts'
import type { NodeReport } from '../../src/cluster/shared-stream.ts'
import { freePort } from '../../test/fixtures/free-port.ts'
import { type Daemon, startDaemon } from '../daemon.ts'
import { type BenchContext, sleep } from '../harness.ts'
import { parseMetrics, readMetric, sumMetric } from '../metrics.ts'
import { runTenrec } from '../program.ts'
import { Network } from './network.ts'
import { Broker, ClickHouse, type KeptStream } from './servers.ts'

const LINES_KEPT = 60
const LOOK_MS = 100
/** A report counts only if it is not older than this, in milliseconds. A node reports its state every two seconds. */
const REPORT_MS_MAX = 3000
const SETTLED_MS_MAX = 120_000
const QUIET = createLogger({ level: 'silent', format: 'json' })

/** A node of the cluster: its daemon and its data directory. */
export class ClusterNode {
  readonly dataDir: string
  /** The last lines of the node's log, over all starts. */
  readonly lines: string[] = []
  readonly #start: () => Promise<Daemon>
  #daemon: Daemon | null = null
  /** The CPU seconds of the node's earlier daemons. */
  #cpuBefore = 0

  constructor(dataDir: string, start: (node: ClusterNode) => Promise<Daemon>) {
    this.dataDir = dataDir
    this.#start = () => start(this)
  }

  /** The URL of the node, or null while it is not running. */
  get url(): string | null {
    return this.#daemon?.url ?? null
  }

  /** The process ID of the node, or 0 while it is not running. */
  get pid(): number {
    return this.#daemon?.pid ?? 0
  }

  /** The user and system time of all daemons that the node has had, in seconds. */
  get cpuSeconds(): number {
    return this.#cpuBefore + (this.#daemon?.cpuSeconds() ?? 0)
  }

  async start(): Promise<void> {
    this.#daemon = await this.#start()
  }

  /** Sends SIGKILL and waits until the process has ended. */
  async kill(): Promise<void> {
    const daemon = this.#daemon
    this.#daemon = null
    if (daemon === null) return
    this.#cpuBefore += daemon.cpuSeconds()
    await daemon.kill()
  }

  async stop(): Promise<void> {
    const daemon = this.#daemon
    this.#daemon = null
    await daemon?.stop()
  }

  pause(isPaused: boolean): void {
    if (this.#daemon !== null) process.kill(this.#daemon.pid, isPaused ? 'SIGSTOP' : 'SIGCONT')
  }

  /** Returns a value of /metrics, or null while the node does not answer. */
  async metric(name: string): Promise<number | null> {
    try {
      const answer = await fetch(`${this.url}/metrics`, { signal: AbortSignal.timeout(5000) })
      return readMetric(parseMetrics(await answer.text()), name)
    } catch {
      return null
    }
  }

  /** Returns the number of events that the node has stored since its start. Throws while it does not answer. */
  async stored(): Promise<number> {
    const answer = await fetch(`${this.url}/metrics`)
    return sumMetric(parseMetrics(await answer.text()), 'ingest_events_total', { fate: 'stored' })
  }

  /** Returns the health of the node, or null while it does not answer. */
  async health(): Promise<string | null> {
    try {
      const answer = await fetch(`${this.url}/_health`, { signal: AbortSignal.timeout(5000) })
      return await answer.text()
    } catch {
      return null
    }
  }
}

/** Options of `Machines.make`. */
export interface MachinesOptions {
  readonly context: BenchContext
  readonly machines: number
  readonly hasWarehouse: boolean
  /**
   * Further arguments of each node. There are as many nodes as entries. Default: one node without arguments on each
   * machine.
   */
  readonly nodes?: readonly (readonly string[])[]
  /** If true, all machines use the network of this process, even if separate networks are possible. */
  readonly isTogether?: boolean
}

/** All machines of a cluster. They are removed at the end of the bench. */
export class Machines {
  readonly network: Network
  readonly brokers: readonly Broker[]
  readonly nodes: readonly ClusterNode[]
  readonly clickhouse: ClickHouse | null
  readonly #client: NatsBrokers
  readonly #servers: readonly string[]
  /** The last report of each node, by the name of the node. */
  readonly #reports = new Map<string, { readonly report: NodeReport; readonly atMs: number }>()
  readonly #backups: string

  private constructor(
    network: Network,
    folder: string,
    clickhouse: ClickHouse | null,
    args: readonly (readonly string[])[],
  ) {
    const { places } = network
    this.network = network
    this.clickhouse = clickhouse
    this.#backups = join(folder, 'backups')
    this.brokers = places.map((_, index) => new Broker(folder, places, index))
    const servers = places.map(({ innerHost, brokerPort }) => `nats://${innerHost}:${brokerPort}`)
    this.nodes = places.slice(0, args.length).map((place, index) => {
      const warehouse = index === 0 ? (clickhouse?.address(place.clientHost) ?? null) : null
      const words = ['--cluster', servers.join(','), '--workers', '1', ...(args[index] ?? [])]
      if (warehouse !== null) words.push('--warehouse', warehouse)
      return new ClusterNode(join(folder, `node-${index}`), (node) =>
        startDaemon({
          dataDir: node.dataDir,
          place,
          args: words,
          onLine: (line) => {
            node.lines.push(line)
            if (node.lines.length > LINES_KEPT) node.lines.shift()
          },
        }),
      )
    })
    this.#servers = servers
    this.#client = new NatsBrokers(servers, QUIET)
    this.#client.onReport((report) => {
      this.#reports.set(report.replica, { report, atMs: performance.now() })
    })
  }

  /** Starts all machines. Throws if nats-server is not installed. */
  static async make({
    context,
    machines,
    hasWarehouse,
    nodes = Array.from({ length: machines }, () => []),
    isTogether = false,
  }: MachinesOptions): Promise<Machines> {
    if (!isInstalled('nats-server')) throw new Error('nats-server is not installed')
    const folder = context.newFolder()
    const isWarehouse = hasWarehouse && isInstalled('clickhouse-server')
    const clickhouse = isWarehouse
      ? new ClickHouse(folder, await freePort(), await freePort())
      : null
    const made = new Machines(await Network.make(machines, isTogether), folder, clickhouse, nodes)
    context.cleanUpWith(() => made.#end())
    for (const broker of made.brokers) broker.begin()
    clickhouse?.begin()
    await Promise.all(made.nodes.map((node) => node.start()))
    return made
  }

  /** Returns the number of the broker that leads the stream of events, or -1 if it is unknown. */
  async leader(): Promise<number> {
    const state = await this.#client.look(eventStream(0)).catch(() => null)
    const name = state?.brokers[0]?.name ?? ''
    return this.brokers.findIndex((broker) => broker.name === name)
  }

  /**
   * Returns how the brokers differ, or null if each broker has all messages that any broker had at the time of the
   * call. Each broker is asked about its own state, because a leader may believe that a restarted broker has
   * everything.
   */
  async unequal(): Promise<string | null> {
    const look = () => Promise.all(this.brokers.map((broker) => broker.streams()))
    const before = await look()
    const now = await look()
    const of = (all: typeof now, name: string): readonly (KeptStream | undefined)[] =>
      all.map((streams) => (typeof streams === 'string' ? undefined : streams.get(name)))
    const isEqual = [eventStream(0), CONTROL_STREAM, SALT_STREAM].every(({ name }) => {
      const last = Math.max(...of(before, name).map((stream) => stream?.last ?? 0))
      const kept = of(now, name)
      const isSame = new Set(kept.map((stream) => stream?.created)).size === 1
      return isSame && kept.every((stream) => stream !== undefined && stream.last >= last)
    })
    if (isEqual) return null
    return now
      .map((told) => (typeof told === 'string' ? told : JSON.stringify([...told])))
      .join('; ')
  }

  /** Deletes all streams of the brokers while the brokers run. */
  async forgetStreams(): Promise<void> {
    const connection = await connect({ servers: [...this.#servers] })
    const manager = await jetstreamManager(connection, { checkAPI: false })
    for (const { name } of [eventStream(0), CONTROL_STREAM, SALT_STREAM]) {
      await manager.streams.delete(name)
    }
    await connection.close()
  }

  /** Restores the directory of a stopped node from a backup of another node. */
  async refill(node: ClusterNode, from: ClusterNode): Promise<void> {
    rmSync(node.dataDir, { recursive: true, force: true })
    await runTenrec(['backup', this.#backups, '--data-dir', from.dataDir, '--keep', '1'])
    await runTenrec(['restore', this.#backups, '--data-dir', node.dataDir])
  }

  /**
   * Waits until no data is on one machine alone, and all nodes have the same number of events. If that takes too long,
   * throws an error that says what is missing.
   */
  async settled(): Promise<void> {
    const deadline = performance.now() + SETTLED_MS_MAX
    for (;;) {
      const unsent = await this.#metrics('cluster_outbox_blocks')
      const waiting = await this.#metrics('cluster_messages_waiting')
      const depths = await this.#metrics('ingest_queue_depth')
      const all = [...unsent, ...waiting, ...depths]
      if (all.every((value) => value === 0) && (await this.#haveSamePosition())) return
      if (performance.now() > deadline) {
        const health = await Promise.all(this.nodes.map((node) => node.health()))
        throw new Error(`not settled: ${JSON.stringify({ unsent, waiting, depths, health })}`)
      }
      await sleep(LOOK_MS)
    }
  }

  #metrics(name: string): Promise<readonly (number | null)[]> {
    return Promise.all(this.nodes.map((node) => node.metric(name)))
  }

  /** Returns whether all nodes have recently reported that they have the whole stream. */
  async #haveSamePosition(): Promise<boolean> {
    const state = await this.#client.look(eventStream(0)).catch(() => null)
    const now = performance.now()
    const arrived = [...this.#reports.values()].filter(({ report, atMs }) => {
      const { incarnation, sequence } = report.position
      const isEnd = incarnation === state?.incarnation && sequence === state.last
      return isEnd && report.waiting === 0 && now - atMs < REPORT_MS_MAX
    })
    return arrived.length >= this.nodes.length
  }

  async #end(): Promise<void> {
    await this.#client.close()
    for (const node of this.nodes) {
      node.pause(false)
      await node.kill()
    }
    for (const server of [...this.brokers, this.clickhouse]) await server?.kill()
    this.network.remove()
  }
}

/** Returns whether a program is installed and can be started by its name. */
export function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
}

/** Returns the version text of the NATS server, such as `nats-server: v2.10.27`. */
export function brokerVersion(): string {
  return spawnSync('sh', ['-c', 'nats-server --version'], { encoding: 'utf8' }).stdout.trim()
}
