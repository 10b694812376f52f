/**
 * Sentences about queries, each verified over HTTP: every math, interval, breakdown, filter and refusal.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import {
  caseFaults,
  casesOf,
  type Json,
  type QueryCase,
  QueryCases,
} from '../../fixtures/queries/query-cases.ts'

/** Events, and the queries about them. */
type Sentences = Omit<QueryCase, 'id' | 'request' | 'expect'> & {
  readonly asked: readonly {
    readonly now?: string
    readonly query: Json
    readonly expect: Json
  }[]
}

const SENTENCES = casesOf<Sentences>('sentence-cases.json')

t.test('every sentence holds', async (t) => {
  const worlds = SENTENCES.map((one) => ({
    ...one,
    id: one.title,
    request: {},
    expect: {},
    requires: ['clock'],
  }))
  const cases = await QueryCases.start(t, worlds)
  const differences = new Differences()
  for (const [index, world] of worlds.entries()) {
    const names = await cases.prepare(index, world)
    for (const { query, ...rest } of world.asked) {
      const one = { ...world, ...rest }
      const answer = await cases.askPrepared(index, one, names, 'POST', 'query/', { query })
      const name = `${world.title}: ${JSON.stringify(query)}`
      differences.same(caseFaults(one, answer), [], name)
    }
  }
  t.strictSame(differences.list(), [], 'every sentence has its expected answer')
})
