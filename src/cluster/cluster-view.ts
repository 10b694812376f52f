/**
 * Collects the state of a cluster: what the brokers answer, and the reports that the machines send every two seconds.
 */
import { createLogger } from '../base/log.ts'
import { STATUS_LISTENED_MS } from './limits.ts'
import { CONTROL_STREAM, eventStream, NatsBrokers, type StreamOptions } from './nats.ts'
import type { NodeReport, StreamState } from './shared-stream.ts'

/** The state of a cluster, as observed during some seconds. */
export interface ClusterView {
  /**
   * The state of each event stream, by the number of its partition. Null: no majority of brokers answers, or the stream
   * does not exist yet.
   */
  readonly events: ReadonlyMap<number, StreamState | null>
  readonly control: StreamState | null
  readonly nodes: readonly NodeReport[]
  /** The version of the broker that was asked. Null: no broker was connected. */
  readonly serverVersion: string | null
}

/** Listens to a cluster for some seconds. If no broker answers, the result is empty. */
export async function lookAtCluster(servers: readonly string[]): Promise<ClusterView> {
  const brokers = new NatsBrokers(servers, createLogger({ level: 'silent', format: 'json' }))
  const reports = new Map<string, NodeReport>()
  brokers.onReport((report) => reports.set(report.replica, report))
  await new Promise((resolve) => setTimeout(resolve, STATUS_LISTENED_MS))
  const look = (options: StreamOptions) => brokers.look(options).catch(() => null)
  const nodes = [...reports.values()].sort((a, b) => (a.host < b.host ? -1 : 1))
  const events = new Map<number, StreamState | null>()
  for (const partition of partitionsOf(nodes)) {
    events.set(partition, await look(eventStream(partition)))
  }
  const control = await look(CONTROL_STREAM)
  const { serverVersion } = brokers
  await brokers.close()
  return { events, control, nodes, serverVersion }
}

/** Returns the partitions that projects belong to or that a machine stores. */
export function partitionsOf(nodes: readonly NodeReport[]): readonly number[] {
  const used = nodes.flatMap(({ partition, partitions }) => [partition ?? 0, ...partitions])
  return [...new Set([0, ...used])].sort((a, b) => a - b)
}

/** Returns the machines that report that they store a partition. */
export function holdersOf(nodes: readonly NodeReport[], partition: number): readonly NodeReport[] {
  return nodes.filter((node) => node.partition === partition)
}
