/**
 * Compares the page that Prometheus reads with the files for Grafana and Prometheus.
 *
 * @lane quick
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { BusyTime } from '../../src/engine/threads/busy-time.ts'
import { clusterMetricPage } from '../fixtures/cluster/metric-page.ts'
import { closeConnections, postJson, send } from '../fixtures/exact-client.ts'
import { startDecisions } from '../fixtures/flags/decision-daemon.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.teardown(closeConnections)

const DASHBOARD = 'docs/monitoring/grafana.json'
const ALERTS = 'docs/monitoring/alerts.yml'
/** The Debian package `prometheus` contains it. */
const PROMTOOL = 'promtool'
const NO_PROMTOOL =
  spawnSync(PROMTOOL, ['--version']).status === 0
    ? false
    : 'promtool is not installed (apt-get install prometheus)'
/** Words of the query language, and labels, in expressions. */
const NO_METRICS =
  /^(?:sum|max|group_right|by|on|rate|changes|increase|predict_linear|histogram_quantile)$/

/** Additional metrics of machines in a cluster. */
const CLUSTER = clusterMetricPage().render()

/** Expressions of the dashboard. */
function panelExpressions(): readonly string[] {
  const dashboard = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as {
    panels: readonly { targets: readonly { expr: string }[] }[]
  }
  return dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
}

function alertExpressions(): readonly string[] {
  return [...readFileSync(ALERTS, 'utf8').matchAll(/^\s+expr: (.+)$/gm)].map(
    ([, text = '']) => text,
  )
}

/** Names of metrics in an expression. */
function metricsIn(expression: string): readonly string[] {
  const bare = expression.replace(/\{[^}]*\}|\[[^\]]*\]/g, '').replace(/\b(?:by|on) \([^)]*\)/g, '')
  return [...bare.matchAll(/[a-z_][a-z0-9_]*/g)]
    .map(([name]) => name)
    .filter((name) => !NO_METRICS.test(name))
}

t.test(
  'a daemon that has worked shows every metric family, well-formed for promtool',
  async (t) => {
    const { daemon } = await startDecisions(t)
    await postJson(`${daemon.url}/batch/`, {
      api_key: 'phc_project_1',
      batch: [
        { event: 'opened', distinct_id: 'a' },
        { event: '', distinct_id: 'a' },
      ],
    })
    await postJson(`${daemon.url}/flags/?v=2`, { token: 'phc_project_1', distinct_id: 'a' })
    const read = async (): Promise<string> => (await send(`${daemon.url}/metrics`)).body.toString()
    t.ok(
      await eventually(async () =>
        (await read()).includes('store_commit_duration_seconds_count{store="events"}'),
      ),
    )
    const page = await read()
    const families = new Set([...page.matchAll(/^# TYPE (\S+) /gm)].map(([, name = '']) => name))
    t.match(page, /^flag_decisions_total\{outcome="ok"\} 1$/m)
    t.match(page, /^flag_decision_duration_seconds_count 1$/m)
    t.match(page, /^service_ready 1$/m)
    t.match(page, /^worker_busy_seconds_total\{threads="writer"\} [0-9.]*[1-9]/m)
    t.match(page, /^worker_threads\{threads="readers"\} 1$/m)
    t.match(page, /^event_loop_busy_seconds_total [0-9.]+/m)
    t.match(page, /^flag_snapshot_version \d+$/m)

    t.test('dashboard and alerts use only metrics that exist', async (t) => {
      const used = [...panelExpressions(), ...alertExpressions()].flatMap(metricsIn)
      t.ok(used.length > 40)
      const known = (name: string): boolean =>
        name === 'up' ||
        CLUSTER.includes(`# TYPE ${name} `) ||
        families.has(name) ||
        families.has(name.replace(/_bucket$/, ''))
      t.same(
        used.filter((name) => !known(name)),
        [],
      )
    })

    t.test('promtool accepts the page', { skip: NO_PROMTOOL }, async (t) => {
      const { status, stderr, stdout } = spawnSync(PROMTOOL, ['check', 'metrics'], { input: page })
      t.equal(status, 0, `${stdout.toString()}${stderr.toString()}`)
    })

    t.test('promtool accepts the alert rules', { skip: NO_PROMTOOL }, async () => {
      execFileSync(PROMTOOL, ['check', 'rules', ALERTS])
    })
  },
)

t.test('threads are busy while they have tasks, up to the number of threads', async (t) => {
  let nowMs = 0
  const busy = new BusyTime(2, { now: () => nowMs, monotonic: () => nowMs })
  const ends: (() => void)[] = []
  const tasks = [1, 2, 3].map(() => busy.during(new Promise<void>((resolve) => ends.push(resolve))))
  nowMs = 1000
  t.equal(busy.seconds, 2, 'there are three tasks on two threads')
  for (const end of ends) end()
  await Promise.all(tasks)
  nowMs = 5000
  t.equal(busy.seconds, 2)
  await t.rejects(busy.during(Promise.reject(new Error('failed'))), /failed/)
})

t.test('every alert links to its runbook section', async (t) => {
  const rules = readFileSync(ALERTS, 'utf8')
    .split(/^ +- alert: /m)
    .slice(1)
  const headings = [...readFileSync('docs/OPERATIONS.md', 'utf8').matchAll(/^#+ (\w+)$/gm)]
  const anchors = new Set(headings.map(([, title = '']) => title.toLowerCase()))
  t.ok(rules.length > 10)
  for (const rule of rules) {
    const name = rule.split('\n')[0] ?? ''
    const [, anchor = ''] = /^ +runbook_url: docs\/OPERATIONS\.md#(\S+)$/m.exec(rule) ?? []
    t.equal(anchor, name.toLowerCase())
    t.ok(anchors.has(anchor), `${name} has its own section`)
  }
})
