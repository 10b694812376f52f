/**
 * Tests the table of reasons for 503 and 429: the answer, its use in the code, and the text for the operator.
 *
 * @lane quick
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ERROR_CODES } from '../../src/base/errors.ts'
import {
  REFUSALS,
  type RefusalDefinition,
  type RefusalReason,
  reasonText,
  refusal,
} from '../../src/base/refusals.ts'
import { addWarehouseMetrics } from '../../src/clickhouse/warehouse-metrics.ts'
import { clusterMetricPage } from '../fixtures/cluster/metric-page.ts'
import { Differences } from '../fixtures/differences.ts'

const TABLE = 'src/base/refusals.ts'
const REASONS: readonly (readonly [string, RefusalDefinition])[] = Object.entries(REFUSALS)
const SOURCES = new Map(
  readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => [join('src', path), readFileSync(join('src', path), 'utf8')] as const),
)

t.test('a reason is thrown as the table defines it', async (t) => {
  const differences = new Differences()
  for (const [reason, { code, retryAfterSeconds }] of REASONS) {
    const error = refusal(reason as RefusalReason, { limit: 7, retryAfterSeconds: 9 })
    const found = [error.code, error.status, error.retryAfterSeconds]
    const status = code === 'throttled' ? 429 : 503
    const seconds = retryAfterSeconds === 'given' ? 9 : retryAfterSeconds
    differences.same(found, [code, status, seconds], reason)
    differences.equal(
      /[{}]/.exec(error.message)?.[0],
      undefined,
      `${reason} has no unfilled placeholder`,
    )
  }
  t.strictSame(differences.list(), [], 'every reason has its code, status and time')
  const cause = new Error('no')
  t.equal(refusal('not_stored', { cause }).cause, cause)
  t.match(refusal('erasures_full', { limit: 7 }).message, /^7 erasures/)
  t.match(refusal('project_events', { retryAfterSeconds: 9 }).message, /after 9 seconds\.$/)
})

t.test('public health shows the fault without the remedy', async (t) => {
  t.equal(reasonText('disk_full'), 'The disk is nearly full.')
  t.equal(reasonText('log_backlog'), 'Too many events wait to be processed.')
})

t.test('every reason is used, and 503 or 429 is only answered through the table', async (t) => {
  const sources = [...SOURCES].filter(([path]) => path !== TABLE)
  const past = /new ServiceError\(\s*'(server_error|throttled)'/
  t.strictSame(
    sources.filter(([, text]) => past.test(text)).map(([path]) => path),
    [],
    'every source takes its refusals from the table',
  )
  const others = sources.map(([, text]) => text)
  t.ok(others.length > 100, `there are ${others.length} sources`)
  const unused = REASONS.filter(([reason]) => !others.some((text) => text.includes(`'${reason}'`)))
  t.strictSame(unused, [])
})

t.test('the metrics named in the table are exposed', async (t) => {
  const page = clusterMetricPage()
  const waiting = { waitingEvents: 0, waitingErasures: 0, lagSeconds: 0 }
  const sent = { rows: 0, bytes: 0, inserts: 0, failures: 0, segments: 0 }
  addWarehouseMetrics(page, () => ({ ...waiting, ...sent, isAway: false }))
  const text = page.render()
  const differences = new Differences()
  for (const [reason, { metric }] of REASONS) {
    if (metric !== null)
      differences.ok(text.includes(`# HELP ${metric} `), `${reason} names the metric ${metric}`)
  }
  t.strictSame(differences.list(), [], 'every metric is on the page')
})

t.test('docs/OPERATIONS.md has the table', async (t) => {
  const text = readFileSync('docs/OPERATIONS.md', 'utf8')
  const [, section = ''] = /^## Refusals\n(.*?)^## /ms.exec(text) ?? []
  const documented = section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .map((cells) => cells.slice(1, -1))
  const expected = REASONS.map(([reason, { code, detail, retryAfterSeconds, metric }]) => [
    `\`${reason}\``,
    String(ERROR_CODES[code].status),
    retryAfterSeconds === 'given' ? 'until there is room' : String(retryAfterSeconds ?? ''),
    detail,
    metric === null ? '' : `\`${metric}\``,
  ])
  t.strictSame(documented, expected)
})
