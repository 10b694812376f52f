/**
 * Computes the status of a cluster: how far each machine is, and what would be lost if a machine or a broker failed
 * now. All functions are pure.
 */
import { type ClusterView, holdersOf, partitionsOf } from '../../cluster/cluster-view.ts'

type NodeReport = ClusterView['nodes'][number]
type StreamState = NonNullable<ClusterView['control']>

/** The status of one machine of the cluster. */
export interface NodeStatus {
  readonly host: string
  /** The first digits of the machine's name in the cluster. */
  readonly node: string
  /** The partition that the machine stores. Null if it only accepts events and forwards requests. */
  readonly partition: number | null
  /** The number of messages of the stream that the machine has not received yet. Null if it is unknown. */
  readonly behind: number | null
  /** The number of messages that the machine has received but not processed. */
  readonly waiting: number
  /** The number of accepted blocks that the brokers do not have yet. They are only on the disk of this machine. */
  readonly unsent: number
  /** The number of the newest change of the catalogue that the machine has. */
  readonly catalogue: number
}

/** The status of one partition of the cluster. */
export interface PartitionStatus {
  readonly partition: number
  /** The number of machines that report that they store the partition. */
  readonly machines: number
  /**
   * The age of the oldest message in the stream of the partition, in seconds. `streamBytes` is the size of the stream
   * in bytes. Both are null if they are unknown.
   */
  readonly streamSeconds: number | null
  readonly streamBytes: number | null
}

/** The status of a cluster. */
export interface ClusterStatus {
  readonly nodes: readonly NodeStatus[]
  readonly partitions: readonly PartitionStatus[]
  readonly brokers: readonly string[]
  /** Sentences that say what is wrong now, or what would be lost if one more machine or broker failed. */
  readonly risks: readonly string[]
}

/** Brokers of older versions may lose data when they are killed. Source: docs/CLUSTER.md, "Older brokers". */
const SERVER_WANTED = '2.10.23'

/** Returns advice about brokers that may lose more data than newer versions. */
export function serverAdvice({
  serverVersion,
}: Pick<ClusterView, 'serverVersion'>): readonly string[] {
  if (serverVersion === null) return []
  if (serverVersion.localeCompare(SERVER_WANTED, 'en', { numeric: true }) >= 0) return []
  return [
    `A broker has version ${serverVersion}. If several such brokers are killed or cut off within seconds, they may end up with different ends of a stream. Use version ${SERVER_WANTED} or newer; see "Older brokers" in docs/CLUSTER.md.`,
  ]
}

/** Computes the status. `copies` is the number of machines that should have each event (setting `cluster_copies`). */
export function clusterStatus(view: ClusterView, copies: number, nowMs: number): ClusterStatus {
  const { events, nodes } = view
  return {
    nodes: nodes.map((node) => nodeStatus(node, events)),
    partitions: [...events].map(([partition, state]) => ({
      partition,
      machines: holdersOf(nodes, partition).length,
      streamSeconds: state?.oldestMs == null ? null : Math.round((nowMs - state.oldestMs) / 1000),
      streamBytes: state?.bytes ?? null,
    })),
    brokers: (events.get(0)?.brokers ?? []).map(({ name, isCurrent }) =>
      isCurrent ? name : `${name} (not current)`,
    ),
    risks: [...brokerRisks(view), ...nodes.flatMap(nodeRisks), ...copyRisks(nodes, copies)],
  }
}

function nodeStatus(report: NodeReport, events: ClusterView['events']): NodeStatus {
  const { host, replica, partition, position, waiting, unsent, control: catalogue } = report
  const stream = partition === null ? null : (events.get(partition) ?? null)
  const isSame = stream !== null && stream.incarnation === position.incarnation
  const behind = isSame ? Math.max(0, stream.last - position.sequence) : (stream?.last ?? null)
  const node = replica.slice(0, 8)
  const late = partition === null ? 0 : behind
  return { host, node, partition, behind: late, waiting, unsent, catalogue }
}

function brokerRisks({ events, control }: ClusterView): readonly string[] {
  const noMajority =
    'No majority of the brokers answers. Each new event is on one disk only, and nothing in the catalogue can be changed.'
  if ((events.get(0) ?? null) === null || control === null) return [noMajority]
  const streams = [...events.values()].filter((state) => state !== null)
  return [...new Set(streams.flatMap((state) => streamRisks(state, noMajority)))]
}

function streamRisks({ brokers }: StreamState, noMajority: string): readonly string[] {
  const current = brokers.filter(({ isCurrent }) => isCurrent)
  const majority = Math.floor(brokers.length / 2) + 1
  if (current.length < majority) return [noMajority]
  if (brokers.length < 3) {
    return [
      'There are fewer than three brokers, so the majority would be lost if one of them failed.',
    ]
  }
  if (current.length > majority) return []
  const names = current.map(({ name }) => name).join(', ')
  return [
    `Only the brokers ${names} are up to date. If one of them failed, there would be no majority, but no event would be lost.`,
  ]
}

function nodeRisks({ host, unsent, troubles }: NodeReport): readonly string[] {
  const alone = `If the disk of ${host} failed, ${unsent} blocks of events would be lost, because no broker has them yet.`
  return [...(unsent > 0 ? [alone] : []), ...troubles.map((trouble) => `${host}: ${trouble}`)]
}

/** Returns sentences that name missing copies of events, of the catalogue or of the warehouse. */
function copyRisks(nodes: readonly NodeReport[], copies: number): readonly string[] {
  if (nodes.length === 0) return ['No machine has reported its status.']
  const risks: string[] = []
  for (const partition of partitionsOf(nodes)) {
    const { length } = holdersOf(nodes, partition)
    if (length >= copies) continue
    const what = `Only ${length} of the ${copies} machines that should store each event of partition ${partition} report their status`
    risks.push(`${what}, so the outboxes grow.`)
  }
  const newest = Math.max(...nodes.map(({ control }) => control))
  const known = nodes.filter(({ control }) => control === newest)
  const [only] = known
  if (nodes.length > 1 && known.length === 1 && only !== undefined) {
    risks.push(`Only ${only.host} and the brokers have the newest change of the catalogue.`)
  }
  const warehouse = nodes.find((node) => node.warehouse !== null)?.warehouse
  if (warehouse !== undefined && !nodes.some(({ isCopying }) => isCopying)) {
    risks.push(
      `Receipts of erasures wait for the warehouse ${warehouse}, but no machine reports that it copies to it. See "A warehouse" in docs/CLUSTER.md.`,
    )
  }
  return risks
}
