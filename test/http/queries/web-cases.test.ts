/**
 * The worked examples of web analytics and of definitions over HTTP.
 *
 * @lane quick
 */
import t from 'tap'
import { caseFaults, casesOf, QueryCases, requestOf } from '../../fixtures/queries/query-cases.ts'

const CASES = casesOf('web-cases.json')

t.test('every case gets its expected answer', async (t) => {
  const cases = await QueryCases.start(t, CASES)
  const only = process.env['QUERY_CASES'] ?? ''
  for (const [index, one] of CASES.entries()) {
    if (!one.id.startsWith(only)) continue
    const answer = await cases.ask(index, one, ...requestOf(one))
    t.strictSame(caseFaults(one, answer), [], `${one.id} ${one.title}`)
  }
})
