/** What a node of a cluster tells at `/metrics`; a single box has none of it. */
import type { MetricPage } from '../base/metrics.ts'

/** Figures of a node, now. */
export interface ClusterFigures {
  readonly isAlone: boolean
  readonly unsentBlocks: number
  /** Commits that were answered without a majority. */
  readonly alone: number
  readonly messages: number
  readonly messageBytes: number
  /** Messages that were taken from the stream and are not processed. */
  readonly waiting: number
}

/** Adds the metrics of a node to the page. */
export function addMetrics(page: MetricPage, figures: () => ClusterFigures): void {
  const alone = page.gauges('cluster_alone', 'Whether no majority of brokers answers.', []).with()
  const unsent = page
    .gauges('cluster_outbox_blocks', 'Accepted blocks that the brokers do not have.', [])
    .with()
  const waiting = page
    .gauges('cluster_messages_waiting', 'Messages of the shared log that wait to be processed.', [])
    .with()
  const answered = page
    .counters('cluster_alone_commits_total', 'Commits answered from this disk alone.', [])
    .with()
  const messages = page
    .counters('cluster_messages_total', 'Messages that the brokers have taken.', [])
    .with()
  const bytes = page
    .counters('cluster_message_bytes_total', 'Bytes of these messages, compressed.', [])
    .with()
  page.onCollect(() => {
    const now = figures()
    alone.value = now.isAlone ? 1 : 0
    unsent.value = now.unsentBlocks
    waiting.value = now.waiting
    answered.value = now.alone
    messages.value = now.messages
    bytes.value = now.messageBytes
  })
}
