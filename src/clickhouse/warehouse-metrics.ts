/** The metrics that `/metrics` shows if a daemon copies events to ClickHouse. */
import type { MetricPage } from '../base/metrics.ts'

/** The current values of these metrics. */
export interface WarehouseFigures {
  readonly isAway: boolean
  readonly waitingEvents: number
  readonly waitingErasures: number
  readonly lagSeconds: number
  readonly rows: number
  readonly bytes: number
  readonly inserts: number
  readonly failures: number
  readonly segments: number
}

/** Adds the metrics of a warehouse to the page. */
export function addWarehouseMetrics(page: MetricPage, figures: () => WarehouseFigures): void {
  const away = page.gauges('warehouse_away', '1 while ClickHouse accepts no events.', []).with()
  const waiting = page
    .gauges('warehouse_waiting_events', 'Stored events that ClickHouse does not have yet.', [])
    .with()
  const erasures = page
    .gauges('warehouse_waiting_erasures', 'Erasures that ClickHouse has not completed yet.', [])
    .with()
  const lag = page
    .gauges(
      'warehouse_lag_seconds',
      'Age of the oldest event that ClickHouse does not have yet.',
      [],
    )
    .with()
  const rows = page
    .counters('warehouse_rows_total', 'Events that ClickHouse has stored. Some are sent twice.', [])
    .with()
  const bytes = page
    .counters('warehouse_bytes_total', 'Bytes that were sent to ClickHouse for these events.', [])
    .with()
  const inserts = page
    .counters('warehouse_inserts_total', 'Inserts that ClickHouse has confirmed.', [])
    .with()
  const failures = page
    .counters(
      'warehouse_failures_total',
      'Failed attempts to reach ClickHouse. Tenrec pauses after each one.',
      [],
    )
    .with()
  const segments = page
    .counters(
      'warehouse_segments_total',
      'Segments whose copy in ClickHouse is complete, so most of their columns may be removed here.',
      [],
    )
    .with()
  page.onCollect(() => {
    const now = figures()
    away.value = now.isAway ? 1 : 0
    waiting.value = now.waitingEvents
    erasures.value = now.waitingErasures
    lag.value = now.lagSeconds
    rows.value = now.rows
    bytes.value = now.bytes
    inserts.value = now.inserts
    failures.value = now.failures
    segments.value = now.segments
  })
}
