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
  const counted = (name: string, help: string) => page.counters(name, help, []).with()
  const made = counted('cluster_control_changes_total', 'Changes of the catalogue made here.')
  const again = counted(
    'cluster_control_conflicts_total',
    'Changes decided again, because others were first.',
  )
  const refused = counted('cluster_control_refused_total', 'Changes that no majority has taken.')
  const number = page
    .gauges('cluster_control_number', 'The newest change of the catalogue, by whomever.', [])
    .with()
  const asked = counted('cluster_questions_total', 'Questions to machines that hold events.')
  const unanswered = counted(
    'cluster_questions_unanswered_total',
    'Questions to them that were refused or got no answer.',
  )
  const answers = counted('cluster_answers_total', 'Questions of other machines answered here.')
  page.onCollect(() => {
    const now = figures()
    asked.value = now.asked
    unanswered.value = now.unanswered
    answers.value = now.answered
    made.value = now.control.made
    again.value = now.control.again
    refused.value = now.control.refused
    number.value = now.controlNumber
    alone.value = now.isAlone ? 1 : 0
    unsent.value = now.unsentBlocks
    waiting.value = now.waiting
    answered.value = now.alone
    messages.value = now.messages
    bytes.value = now.messageBytes
  })
}
