/**
 * What is told of a cluster: how far each machine has come, and who would lose what if a machine or a broker were lost
 * now. Pure.
 */
import { type ClusterView, holdersOf, partitionsOf } from '../../cluster/cluster-view.ts'

type NodeReport = ClusterView['nodes'][number]
type StreamState = NonNullable<ClusterView['control']>

/** One machine. */
export interface NodeStatus {
  readonly host: string
  /** Its name in the cluster, the first digits. */
  readonly node: string
  /** That it stores; null: none, it accepts events and asks. */
  readonly partition: number | null
  /** Messages of the stream that it has not taken; null: that is not known. */
  readonly behind: number | null
  /** Messages that it has taken and not processed. */
  readonly waiting: number
  /** Accepted blocks that the brokers do not have: they are on its disk alone. */
  readonly unsent: number
  /** The newest change of the catalogue that it has. */
  readonly catalogue: number
}

/** One partition. */
export interface PartitionStatus {
  readonly partition: number
  /** Machines that tell that they store it. */
  readonly machines: number
  /** Of its stream: how far back it reaches, seconds, and its size; null: not known. */
  readonly streamSeconds: number | null
  readonly streamBytes: number | null
}

/** What is told of it. */
export interface ClusterStatus {
  readonly nodes: readonly NodeStatus[]
  readonly partitions: readonly PartitionStatus[]
  readonly brokers: readonly string[]
  /** What is wrong now, and what would be lost with one more machine or broker: sentences. */
  readonly risks: readonly string[]
}

/** Older servers that are killed keep less: docs/CLUSTER.md, "Older brokers". */
const SERVER_WANTED = '2.10.23'

/** What to do about brokers that keep less than newer ones. */
export function serverAdvice({
  serverVersion,
}: Pick<ClusterView, 'serverVersion'>): readonly string[] {
  if (serverVersion === null) return []
  if (serverVersion.localeCompare(SERVER_WANTED, 'en', { numeric: true }) >= 0) return []
  return [
    `A broker has version ${serverVersion}: several of them that are killed or cut off within seconds may keep different ends of a stream. Use ${SERVER_WANTED} or newer: docs/CLUSTER.md, "Older brokers".`,
  ]
}

/** What follows from it. `copies`: machines that should have each event (setting `cluster_copies`). */
export function clusterStatus(view: ClusterView, copies: number, nowMs: number): ClusterStatus {
  const { events, nodes } = view
  return {
    nodes: nodes.map((node) => nodeStatus(node, events)),
    partitions: [...events].map(([partition, state]) => ({
      ...{ partition, machines: holdersOf(nodes, partition).length },
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
    'No majority of brokers answers: events are on one disk each, nothing can be changed.'
  if ((events.get(0) ?? null) === null || control === null) return [noMajority]
  const streams = [...events.values()].filter((state) => state !== null)
  return [...new Set(streams.flatMap((state) => streamRisks(state, noMajority)))]
}

function streamRisks({ brokers }: StreamState, noMajority: string): readonly string[] {
  const current = brokers.filter(({ isCurrent }) => isCurrent)
  const majority = Math.floor(brokers.length / 2) + 1
  if (current.length < majority) return [noMajority]
  if (brokers.length < 3) {
    return ['There are fewer than three brokers: with one of them the majority would be lost.']
  }
  if (current.length > majority) return []
  const names = current.map(({ name }) => name).join(', ')
  return [
    `Only ${names} have everything: with one of them the majority would be lost, and no event.`,
  ]
}

function nodeRisks({ host, unsent, troubles }: NodeReport): readonly string[] {
  const alone = `With the disk of ${host} ${unsent} blocks of events would be lost: no broker has them.`
  return [...(unsent > 0 ? [alone] : []), ...troubles.map((trouble) => `${host}: ${trouble}`)]
}

/** What was accepted by an edge is stored by so many. */
function copyRisks(nodes: readonly NodeReport[], copies: number): readonly string[] {
  if (nodes.length === 0) return ['No machine has told how it is.']
  const risks: string[] = []
  for (const partition of partitionsOf(nodes)) {
    const { length } = holdersOf(nodes, partition)
    if (length >= copies) continue
    const what = `Only ${length} of ${copies} machines that should store each event of partition ${partition}`
    risks.push(`${what} tell how they are: outboxes grow.`)
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
      `Receipts of erasures wait for the warehouse ${warehouse}, and no machine tells that it copies to it: see docs/CLUSTER.md, "A warehouse".`,
    )
  }
  return risks
}
