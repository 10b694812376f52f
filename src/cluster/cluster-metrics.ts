/** What a node of a cluster tells at `/metrics`; a single box has none of it. */
import type { MetricPage } from '../base/metrics.ts'

/** Figures of a node, now. */
export interface ClusterFigures {
  readonly isAlone: boolean
  readonly unsent: number
  /** The same by partition. */
  readonly unsentBlocks: ReadonlyMap<number, number>
  /** Commits that were answered without a majority. */
  readonly alone: number
  readonly messages: number
  readonly messageBytes: number
  /** Messages that were taken from the stream and are not processed. */
  readonly waiting: number
  /** Changes of the catalogue by this node. */
  readonly control: { readonly made: number; readonly again: number; readonly refused: number }
  /** The newest change of the catalogue, by whomever. */
  readonly controlNumber: number
  /** Questions to machines that hold events, and those of them that got no answer. */
  readonly asked: number
  readonly unanswered: number
  /** Questions of other machines that were answered here. */
  readonly answered: number
}

/** Those whose names end in `_total` are counters. */
const HELP = {
  cluster_alone: 'Whether no majority of brokers answers.',
  cluster_outbox_blocks: 'Accepted blocks that the brokers do not have.',
  cluster_messages_waiting: 'Messages of the shared log that wait to be processed.',
  cluster_alone_commits_total: 'Commits answered from this disk alone.',
  cluster_messages_total: 'Messages that the brokers have taken.',
  cluster_message_bytes_total: 'Bytes of these messages, compressed.',
  cluster_control_changes_total: 'Changes of the catalogue made here.',
  cluster_control_conflicts_total: 'Changes decided again, because others were first.',
  cluster_control_refused_total: 'Changes that no majority has taken.',
  cluster_control_number: 'The newest change of the catalogue, by whomever.',
  cluster_questions_total: 'Questions to machines that hold events.',
  cluster_questions_unanswered_total: 'Questions to them that were refused or got no answer.',
  cluster_answers_total: 'Questions of other machines answered here.',
} as const
const OF_PARTITION = 'cluster_partition_outbox_blocks'
const OF_PARTITION_HELP = 'Accepted blocks that the brokers do not have, by partition.'

/** Adds the metrics of a node to the page. */
export function addMetrics(page: MetricPage, figures: () => ClusterFigures): void {
  const metrics = Object.entries(HELP).map(([name, help]) => {
    const family = name.endsWith('_total')
      ? page.counters(name, help, [])
      : page.gauges(name, help, [])
    // A name of the table.
    return [name as keyof typeof HELP, family.with()] as const
  })
  const unsent = page.gauges(OF_PARTITION, OF_PARTITION_HELP, ['partition'])
  page.onCollect(() => {
    const now = figures()
    const values = valuesOf(now)
    for (const [name, metric] of metrics) metric.value = values[name]
    for (const [of, blocks] of now.unsentBlocks) unsent.with(String(of)).value = blocks
  })
}

function valuesOf(now: ClusterFigures): Readonly<Record<keyof typeof HELP, number>> {
  return {
    cluster_alone: now.isAlone ? 1 : 0,
    cluster_outbox_blocks: now.unsent,
    cluster_messages_waiting: now.waiting,
    cluster_alone_commits_total: now.alone,
    cluster_messages_total: now.messages,
    cluster_message_bytes_total: now.messageBytes,
    cluster_control_changes_total: now.control.made,
    cluster_control_conflicts_total: now.control.again,
    cluster_control_refused_total: now.control.refused,
    cluster_control_number: now.controlNumber,
    cluster_questions_total: now.asked,
    cluster_questions_unanswered_total: now.unanswered,
    cluster_answers_total: now.answered,
  }
}
