/**
 * How a cluster is, seen by the brokers and by what its machines tell every two seconds: how far each has come, and
 * who would lose what if a machine or a broker were lost now.
 */
import { createLogger } from '../base/log.ts'
import { STATUS_LISTENED_MS } from './limits.ts'
import { CONTROL_STREAM, EVENT_STREAM, NatsBrokers } from './nats.ts'
import type { NodeReport, StreamState } from './shared-log.ts'

/** What was seen. */
export interface ClusterView {
  /** Null: no majority of brokers answers. */
  readonly events: StreamState | null
  readonly control: StreamState | null
  readonly nodes: readonly NodeReport[]
}

/** One machine. */
export interface NodeStatus {
  readonly host: string
  /** Its name in the cluster, the first digits. */
  readonly node: string
  /** It stores events; others accept them alone. */
  readonly isHolder: boolean
  /** Messages of the stream that it has not taken; null: that is not known. */
  readonly behind: number | null
  /** Messages that it has taken and not processed. */
  readonly waiting: number
  /** Accepted blocks that the brokers do not have: they are on its disk alone. */
  readonly unsent: number
  /** The newest change of the catalogue that it has. */
  readonly catalogue: number
}

/** What is told of it. */
export interface ClusterStatus {
  readonly nodes: readonly NodeStatus[]
  /** Of the stream of events: how far back it reaches, seconds, and its size; null: not known. */
  readonly streamSeconds: number | null
  readonly streamBytes: number | null
  readonly brokers: readonly string[]
  /** What is wrong now, and what would be lost with one more machine or broker: sentences. */
  readonly risks: readonly string[]
}

/** Looks for some seconds. Without brokers all is unknown. */
export async function lookAtCluster(servers: readonly string[]): Promise<ClusterView> {
  const brokers = new NatsBrokers(servers, createLogger({ level: 'silent', format: 'json' }))
  const reports = new Map<string, NodeReport>()
  brokers.onReport((report) => reports.set(report.replica, report))
  await new Promise((resolve) => setTimeout(resolve, STATUS_LISTENED_MS))
  const streams = [EVENT_STREAM, CONTROL_STREAM]
  const states = streams.map((options) => brokers.look(options).catch(() => null))
  const [events = null, control = null] = await Promise.all(states)
  await brokers.close()
  const nodes = [...reports.values()].sort((a, b) => (a.host < b.host ? -1 : 1))
  return { events, control, nodes }
}

/** What follows from it. `copies`: machines that should have each event (setting `cluster_copies`). */
export function clusterStatus(view: ClusterView, copies: number, nowMs: number): ClusterStatus {
  const { events, nodes } = view
  const oldestMs = events?.oldestMs ?? null
  return {
    nodes: nodes.map((node) => nodeStatus(node, events)),
    streamSeconds: oldestMs === null ? null : Math.round((nowMs - oldestMs) / 1000),
    streamBytes: events?.bytes ?? null,
    brokers: (events?.brokers ?? []).map(({ name, isCurrent }) =>
      isCurrent ? name : `${name} (not current)`,
    ),
    risks: [...brokerRisks(view), ...nodes.flatMap(nodeRisks), ...copyRisks(nodes, copies)],
  }
}

function nodeStatus(report: NodeReport, events: StreamState | null): NodeStatus {
  const { host, replica, isHolder, position, waiting, unsent, control: catalogue } = report
  const isSame = events !== null && events.incarnation === position.incarnation
  const behind = isSame ? Math.max(0, events.last - position.sequence) : (events?.last ?? null)
  const node = replica.slice(0, 8)
  return { host, node, isHolder, behind: isHolder ? behind : 0, waiting, unsent, catalogue }
}

function brokerRisks({ events, control }: ClusterView): readonly string[] {
  const brokers = events?.brokers ?? []
  const current = brokers.filter(({ isCurrent }) => isCurrent)
  const majority = Math.floor(brokers.length / 2) + 1
  if (events === null || control === null || current.length < majority) {
    return ['No majority of brokers answers: events are on one disk each, nothing can be changed.']
  }
  if (events.brokers.length < 3) {
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
  const holders = nodes.filter(({ isHolder }) => isHolder)
  if (holders.length < copies) {
    risks.push(
      `Only ${holders.length} of ${copies} machines that should store each event tell how they are: outboxes grow.`,
    )
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
