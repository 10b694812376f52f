/**
 * The routes of a project below `/api/environments/`, as PostHog's pages use them.
 *
 * @lane quick
 */
import t from 'tap'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const world = await shareDecisions(2)

t.test('an environment is an alias of its project', async (t) => {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const ask = (rest: string, more: object = {}) =>
    world.ask(`/api/environments/${world.idOf(1)}/${rest}`, { headers, ...more })
  await world.capture([{ event: 'e', distinct_id: 'ann' }], 1)
  const made = await ask('feature_flags/', { method: 'POST', json: { key: 'here' } })
  t.equal(made.status, 201)
  t.match((await world.api('GET', 'feature_flags/', 1)).body, { results: [{ key: 'here' }] })
  t.match((await world.api('GET', 'feature_flags/', 2)).body, { count: 0 })
  for (const rest of ['persons/', 'events/', 'cohorts/', 'groups_types/', 'insights/', '']) {
    const answer = await ask(rest)
    t.equal(answer.status, 200, rest)
    t.strictSame(
      JSON.stringify(answer.body).replaceAll('/environments/', '/projects/'),
      JSON.stringify((await world.api('GET', rest, 1)).body),
      rest,
    )
  }
  t.equal((await ask('query/', { method: 'POST', json: {} })).status, 400)
  t.equal((await ask('nothing/')).status, 404)
  t.equal((await ask('persons/', { headers: {} })).status, 401)
})
