/**
 * The channels of sessions: events that are sent to the capture route appear under the right channel in a table of web
 * analytics, also with the rules of a project.
 *
 * @lane quick
 */
import t from 'tap'
import {
  caseFaults,
  type Json,
  type QueryCase,
  QueryCases,
  vectorsOf,
} from '../../fixtures/queries/query-cases.ts'

const SESSION = '018e1b5c-0800-7b85-8000-000000000015'
const NAMES: Readonly<Record<string, string>> = {
  referring_domain: '$referring_domain',
  url: '$current_url',
}

const CASES = vectorsOf('web-cases.json').map(({ id, in: given, rules, channel }): QueryCase => {
  const values = Object.entries(given).map(([name, value]) => [NAMES[name] ?? name, value])
  const properties = { $session_id: SESSION, ...(Object.fromEntries(values) as Json) }
  const query = {
    kind: 'WebStatsTableQuery',
    properties: [],
    breakdownBy: 'InitialChannelType',
    dateRange: { date_from: '2024-03-08', date_to: '2024-03-08' },
  }
  const timestamp = '2024-03-08T10:00:00Z'
  return {
    id,
    title: channel,
    now: timestamp,
    ...(rules === undefined ? {} : { project: { customChannelTypeRules: rules } }),
    events: [{ distinct_id: 'a', event: '$pageview', timestamp, properties }],
    request: { query },
    expect: { status: 200, results: [[channel, [1, null], [1, null], 1]] },
  }
})

t.test('every session has the channel of its entry', async (t) => {
  const cases = await QueryCases.share(CASES)
  t.ok(CASES.length > 50)
  for (const [index, one] of CASES.entries()) {
    const answer = await cases.ask(index, one, 'POST', 'query/', one.request)
    t.strictSame(caseFaults(one, answer), [], `${one.id} ${one.title}`)
  }
})
