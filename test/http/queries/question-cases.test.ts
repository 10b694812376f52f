/**
 * The worked examples of queries over HTTP.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { caseFaults, casesOf, QueryCases } from '../../fixtures/queries/query-cases.ts'

const CASES = casesOf('question-cases.json')

/**
 * The case expects persons without `$browser`, but every event with `$browser` sets it (docs/compatibility/persons.md,
 * "Persons"). Ingestion takes precedence.
 */
const CONTRADICTED = 'tr-016'

t.test('every case gets its expected answer', async (t) => {
  const cases = await QueryCases.start(t, CASES)
  const only = process.env['QUERY_CASES'] ?? ''
  const differences = new Differences()
  for (const [index, one] of CASES.entries()) {
    if (!one.id.startsWith(only) || one.id === CONTRADICTED) continue
    const answer = await cases.ask(index, one, 'POST', 'query/', one.request)
    differences.same(caseFaults(one, answer), [], `${one.id} ${one.title}`)
  }
  t.strictSame(differences.list(), [], 'every case has its expected answer')
})
