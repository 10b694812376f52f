/**
 * Refusals of queries, and the paths below their route.
 *
 * @lane quick
 */
import t from 'tap'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const ID = '018f38bf-1d00-7a0e-8000-000000000001'

t.test('there are no routes below the query route', async (t) => {
  const daemon = await shareDecisions()
  const statusOf = async (method: string, path: string) =>
    (await daemon.api(method, path, 1, method === 'POST' ? {} : undefined)).status
  t.equal(await statusOf('GET', `query/${ID}/`), 404)
  t.equal(await statusOf('DELETE', `query/${ID}/`), 204)
  for (const name of ['check_auth_for_async', 'draft_sql', 'upgrade']) {
    t.equal(await statusOf('POST', `query/${name}/`), 404, name)
    t.equal(await statusOf('GET', `query/${name}/`), 404, name)
  }
  t.equal(await statusOf('GET', `query/${ID}/log/`), 404)

  const refusalOf = async (more: object): Promise<unknown> => {
    const series = [{ kind: 'EventsNode', event: 'a' }]
    const query = { kind: 'TrendsQuery', series, ...more }
    const { status, body } = await daemon.api('POST', 'query/', 1, { query })
    return status === 200 ? 200 : [status, body['code'], body['attr']]
  }
  const dated = (value: unknown) => ({
    properties: [{ key: 'k', operator: 'is_date_after', value }],
  })
  const unreadable = [400, 'invalid_query', 'properties.0.value']
  t.strictSame(await refusalOf(dated('someday')), unreadable, 'an invalid date')
  for (const date of ['-7d', '2026-01-31', '2026-01-31T10:00:00Z', 'mStart']) {
    t.equal(await refusalOf(dated(date)), 200, date)
  }
  for (const [body, expected] of [
    [{}, ['required', 'query']],
    [{ query: null }, ['required', 'query']],
    [{ query: 'TrendsQuery' }, ['invalid_query', 'query']],
    [{ query: [] }, ['invalid_query', 'query']],
    [{ query: {} }, ['unsupported_kind', 'kind']],
  ] as const) {
    const answer = await daemon.api('POST', 'query/', 1, body)
    const { status, body: refusal } = answer
    t.strictSame([status, refusal['code'], refusal['attr']], [400, ...expected])
  }
  // Such an object cannot be converted to a text.
  const odd = { toString: 1, valueOf: 1 }
  const withMath = { series: [{ kind: 'EventsNode', event: 'a', math: odd }] }
  t.strictSame(await refusalOf(withMath), [400, 'invalid_query', 'series.0.math'])
  const formula = { trendsFilter: { formula: 'A * 1e400' } }
  t.strictSame(await refusalOf(formula), [400, 'invalid_query', 'trendsFilter.formula'])
})
