/**
 * Runs the query of every panel of the Grafana dashboard with product numbers against a daemon.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

interface Target {
  readonly url: string
  readonly url_options: { readonly method: string; readonly data: string }
  readonly columns: readonly { readonly selector: string }[]
}

interface Dashboard {
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly current?: { value: string } }[]
  }
  readonly panels: readonly { readonly title: string; readonly targets: readonly Target[] }[]
}

const DASHBOARD = JSON.parse(
  readFileSync('docs/monitoring/grafana-product.json', 'utf8'),
) as Dashboard
const DAY_MS = 86_400_000

t.test('every panel gets rows with its columns', async (t) => {
  const daemon = await shareDecisions()
  const nowMs = Date.now()
  const seen = (daysAgo: number, event: string, url: string) => ({
    event,
    distinct_id: 'ann',
    timestamp: new Date(nowMs - daysAgo * DAY_MS).toISOString(),
    properties: { $current_url: url, $browser: 'Firefox', $session_id: 's' },
  })
  const events = [
    seen(3, '$pageview', 'https://x.example/'),
    seen(2, '$pageview', 'https://x.example/a'),
    seen(1.9999, '$pageview', 'https://x.example/b'),
    seen(1, 'signed_up', 'https://x.example/'),
  ]
  const json = { api_key: daemon.key(1), batch: events }
  t.equal((await daemon.ask('/batch/', { json })).status, 200)
  await daemon.until(async () => {
    const { body } = await daemon.api('GET', 'events/')
    return Array.isArray(body['results']) && body['results'].length === events.length
  })

  const variables = new Map([
    ...DASHBOARD.templating.list.map(({ name, current }) => [name, current?.value] as const),
    ['project', String(daemon.idOf())],
    ['__from:date:iso', new Date(nowMs - 30 * DAY_MS).toISOString()],
    ['__to:date:iso', new Date(nowMs).toISOString()],
  ])
  const filled = (text: string): string =>
    text.replace(/\$\{([^}]+)\}/g, (whole, name: string) => {
      const value = variables.get(name)
      t.type(value, 'string', `${whole} is a variable of the dashboard`)
      return value ?? ''
    })
  t.ok(DASHBOARD.panels.length > 10)
  for (const { title, targets } of DASHBOARD.panels) {
    t.equal(targets.length, 1, title)
    for (const { url, url_options, columns } of targets) {
      const answer = await fetch(`${daemon.url}${filled(url)}`, {
        method: url_options.method,
        headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
        body: filled(url_options.data),
      })
      const text = await answer.text()
      t.equal(answer.status, 200, `${title}: ${text}`)
      const [header = '', ...rows] = text.trimEnd().split('\r\n')
      t.ok(rows.length > 0, `${title} has rows`)
      const missing = columns.filter(({ selector }) => !header.split(',').includes(selector))
      t.strictSame(missing, [], `${title}: ${header}`)
    }
  }
})
