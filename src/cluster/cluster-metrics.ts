/** The metrics that a cluster node shows at `/metrics`. A single machine has none of them. */
import type { MetricPage } from '../base/metrics.ts'

/** The current values from which the metrics of a node are computed. */
export interface ClusterFigures {
  readonly isAlone: boolean
  readonly unsent: number
  readonly unsentBlocks: ReadonlyMap<number, number>
  /** The number of commits that were answered before a majority of brokers had the events. */
  readonly alone: number
  readonly messages: number
  readonly messageBytes: number
  /** The number of messages that were taken from the stream but are not processed yet. */
  readonly waiting: number
  /** The numbers of catalogue changes that this node made, ran again because another change came first, or refused. */
  readonly control: { readonly made: number; readonly again: number; readonly refused: number }
  /** The number of the newest catalogue change, whichever node made it. */
  readonly controlNumber: number
  /** The number of requests to replicas, and the number of those that got no answer. */
  readonly asked: number
  readonly unanswered: number
  /** The number of requests of other machines that this node answered. */
  readonly answered: number
}

/**
 * For each metric: its help text, and a function that reads its value. Metrics whose names end in `_total` are
 * counters, all others are gauges.
 */
const METRICS: Readonly<Record<string, readonly [string, (now: ClusterFigures) => number]>> = {
  cluster_alone: [
    '1 if fewer than a majority of the brokers answer, otherwise 0.',
    (now) => Number(now.isAlone),
  ],
  cluster_outbox_blocks: ['Accepted blocks that the brokers have not stored.', (now) => now.unsent],
  cluster_messages_waiting: [
    'Messages of the shared log that wait to be processed.',
    (now) => now.waiting,
  ],
  cluster_alone_commits_total: [
    'Commits that were answered when only this machine had stored them.',
    (now) => now.alone,
  ],
  cluster_messages_total: ['Messages that the brokers have stored.', (now) => now.messages],
  cluster_message_bytes_total: [
    'Bytes of the messages that the brokers have stored.',
    (now) => now.messageBytes,
  ],
  cluster_control_changes_total: [
    'Catalogue changes made by this machine.',
    ({ control }) => control.made,
  ],
  cluster_control_conflicts_total: [
    "Catalogue changes that ran again because another machine's change came first.",
    ({ control }) => control.again,
  ],
  cluster_control_refused_total: [
    'Catalogue changes that no majority of brokers has confirmed.',
    ({ control }) => control.refused,
  ],
  cluster_control_number: [
    'Number of the newest catalogue change of the cluster.',
    (now) => now.controlNumber,
  ],
  cluster_questions_total: ['Requests to replicas.', (now) => now.asked],
  cluster_questions_unanswered_total: [
    'Requests to replicas that were refused or not answered.',
    (now) => now.unanswered,
  ],
  cluster_answers_total: [
    'Requests of other machines answered by this machine.',
    (now) => now.answered,
  ],
}
const OF_PARTITION = 'cluster_partition_outbox_blocks'
const OF_PARTITION_HELP = 'Accepted blocks that the brokers have not stored, by partition.'

/** Adds the metrics of a node to the page. */
export function addMetrics(page: MetricPage, figures: () => ClusterFigures): void {
  const metrics = Object.entries(METRICS).map(([name, [help, read]]) => {
    const isCounter = name.endsWith('_total')
    const family = isCounter ? page.counters(name, help, []) : page.gauges(name, help, [])
    return [family.with(), read] as const
  })
  const unsent = page.gauges(OF_PARTITION, OF_PARTITION_HELP, ['partition'])
  page.onCollect(() => {
    const now = figures()
    for (const [metric, read] of metrics) metric.value = read(now)
    for (const [of, blocks] of now.unsentBlocks) unsent.with(String(of)).value = blocks
  })
}
