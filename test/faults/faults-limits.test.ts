/**
 * Tests what happens when a limit is reached: new events get 503 with Retry-After, everything else works, and the
 * daemon accepts events again by itself.
 *
 * @lane all
 */
import { statfsSync } from 'node:fs'
import t from 'tap'
import { type Answer, closeConnections, jsonOf, postJson, send } from '../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../fixtures/flags/decision-daemon.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.teardown(closeConnections)

function batch(url: string, count: number): Promise<Answer> {
  const events = Array.from({ length: count }, (_, index) => ({
    event: 'filling',
    distinct_id: `user ${index}`,
    properties: { pad: 'x'.repeat(500) },
  }))
  return postJson(`${url}/batch/`, { api_key: 'phc_project_1', batch: events })
}

const HEADERS = { Authorization: `Bearer ${PERSONAL_KEY}` }

t.test('a backlog above its limit refuses events until it is processed', async (t) => {
  const { url } = await startDecisions(t, 1, { 'backlog-limit': '1MiB' })
  const answers: Answer[] = []
  while (answers.length < 40 && answers.at(-1)?.status !== 503) answers.push(await batch(url, 500))
  const refused = answers.filter(({ status }) => status === 503)
  t.ok(refused.length > 0, 'more events arrive than are processed')
  t.equal(answers.filter(({ status }) => status === 200).length + refused.length, answers.length)
  t.match(refused[0]?.headers['retry-after'], /^\d+$/)
  t.equal((await send(`${url}/api/projects/1/events/?limit=1`, { headers: HEADERS })).status, 200)
  const accepted = answers.length - refused.length
  t.ok(await eventually(async () => (await batch(url, 1)).status === 200))
  t.ok(
    await eventually(async () => {
      const page = (await send(`${url}/metrics`)).body.toString()
      const stored = /^ingest_events_total\{.*fate="stored"\} (\d+)$/m.exec(page)?.[1]
      return Number(stored) >= accepted * 500
    }),
    'events answered with 200 are stored',
  )
})

t.test('a full disk refuses events, and answers requests that need no space', async (t) => {
  const { url } = await startDecisions(t, 1, { 'disk-reserve': '16TiB' })
  const refused = await batch(url, 1)
  t.equal(refused.status, 503)
  t.match(refused.headers['retry-after'], /^\d+$/)
  const tooLarge = { method: 'POST', body: Buffer.alloc(20 * 1024 * 1024 + 1, 'x') }
  t.equal((await send(`${url}/batch/`, tooLarge)).status, 413, 'no room would make it fit')
  const readiness = await send(`${url}/_readyz`)
  t.equal(readiness.status, 503)
  t.match(jsonOf(readiness), { reasons: [/disk is nearly full/] })
  t.equal((await send(`${url}/_livez`)).status, 200)
  t.equal((await send(`${url}/api/projects/1/events/`, { headers: HEADERS })).status, 200)
  const decision = { token: 'phc_project_1', distinct_id: 'a' }
  t.equal((await postJson(`${url}/flags/?v=2`, decision)).status, 200)
})

t.test('a disk below its reserve accepts erasures while part of the reserve is left', async (t) => {
  const { bavail, bsize } = statfsSync('.')
  const reserve = String(bavail * bsize * 2)
  const daemon = await startDecisions(t, 1, { 'disk-reserve': reserve })
  t.equal((await batch(daemon.url, 1)).status, 503)
  const cohort = { name: 'A', is_static: true }
  t.equal(
    (await daemon.api('POST', 'cohorts/', 1, cohort)).status,
    503,
    'a change that is not an erasure is refused',
  )
  t.equal((await daemon.api('POST', 'erasures/', 1, { event: 'odd' })).status, 202)
  const receipt = async (): Promise<unknown> => (await daemon.api('GET', 'erasures/1/')).body
  t.ok(await eventually(async () => JSON.stringify(await receipt()).includes('"status":"done"')))
})
