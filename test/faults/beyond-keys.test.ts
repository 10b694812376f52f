/**
 * Tests numbers and ids that no store can hold: they are not found, and cause no server error.
 *
 * @lane all
 */
import t from 'tap'
import { PERSONAL_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { closeConnections, jsonOf, send } from '../fixtures/exact-client.ts'

const NUMBER = 2 ** 32
const LONG = 'x'.repeat(7000)

t.teardown(closeConnections)

t.test('numbers from 2^32 on and ids that are too long are not found', async (t) => {
  const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
  t.teardown(() => daemon.stop())
  const ask = async (path: string, body?: object): Promise<number> => {
    const answer = await send(`${daemon.url}/api/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (answer.status >= 400)
      t.match(jsonOf(answer), { type: String, code: String, detail: String })
    return answer.status
  }
  t.equal(await ask(`projects/1/cohorts/${NUMBER}/`), 404)
  t.ok((await ask(`projects/1/persons/?cohort=${NUMBER}`)) < 500)
  t.equal(await ask(`projects/1/persons/1/?distinct_ids_offset=${NUMBER}`), 404)
  t.equal(
    await ask('personal_api_keys/', { label: 'x', scopes: ['event:read'], scoped_teams: [NUMBER] }),
    400,
  )
  t.equal(await ask(`projects/1/persons/?distinct_id=${LONG}`), 200)
  t.equal(await ask(`projects/1/persons/?search=${LONG}`), 200)
  t.equal(await ask(`projects/1/events/?distinct_id=${LONG}`), 200)
})
