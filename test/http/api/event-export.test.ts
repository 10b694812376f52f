/**
 * Exports of events over HTTP: the same events as the list and the same lines as the command, sent in chunks.
 *
 * @lane all
 */
import t from 'tap'
import { linesOf, runCommand } from '../../fixtures/command-line.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { startOrganization } from '../../fixtures/organization-daemon.ts'
import { parseCsv } from '../../fixtures/persons/persons-port.ts'

t.setTimeout(300_000)

const organization = await startOrganization(t)
const { decisions } = organization

function read(query = '', { project = 1, key = PERSONAL_KEY } = {}): Promise<Response> {
  const url = `${decisions.url}/api/projects/${project}/events/export/${query}`
  return fetch(url, { headers: { Authorization: `Bearer ${key}` } })
}

async function rows(query = ''): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const lines = (await (await read(query)).text()).split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
}

/** Twelve events of three persons, three seconds apart. */
const EVENTS = Array.from({ length: 12 }, (_, number) => ({
  event: number % 2 === 0 ? 'seen' : 'bought',
  distinct_id: `person ${number % 3}`,
  timestamp: new Date(Date.UTC(2024, 0, 1, 0, 0, 3 * number)).toISOString(),
  properties: { price: number, note: '=1+1,"x"\n', $set: { plan: number % 3 === 0 ? 'pro' : '' } },
}))

t.before(async () => {
  for (const event of EVENTS) await decisions.capture([event])
})

t.test('without a filter the export equals the output of the command', async (t) => {
  const answer = await read()
  t.match(answer.headers.get('content-type'), 'application/x-ndjson')
  t.equal(answer.headers.get('content-disposition'), 'attachment; filename="events.ndjson"')
  const command = await runCommand('export', '--data-dir', decisions.dataDir)
  t.strictSame(await rows(), linesOf(command))
  t.ok((await rows()).length > EVENTS.length)
})

t.test('the filters are those of the list', async (t) => {
  const { body } = await decisions.api('GET', 'events/?distinct_id=person%200&limit=1')
  const [one] = body['results'] as readonly { readonly person_id: string }[]
  const plan = [{ key: 'plan', value: 'pro', type: 'person' }]
  const price = [{ key: 'price', value: 5, operator: 'gt' }]
  const queries = [
    'event=seen',
    'distinct_id=person%201',
    'distinct_id=nobody',
    `person_id=${one?.person_id}`,
    'after=2024-01-01T00:00:10Z&before=2024-01-01T00:00:25Z',
    `properties=${encodeURIComponent(JSON.stringify(plan))}`,
    `properties=${encodeURIComponent(JSON.stringify([...plan, ...price]))}&event=bought`,
  ]
  for (const query of queries) {
    const listed = (await decisions.api('GET', `events/?${query}`)).body['results']
    const ids = (listed as readonly { readonly id: number }[]).map(({ id }) => id)
    const exported = (await rows(`?${query}`)).map(({ id }) => Number(id))
    t.strictSame(
      exported,
      ids.toSorted((a, b) => a - b),
      query,
    )
    t.equal(exported.length > 0, query !== 'distinct_id=nobody', query)
  }
})

t.test('a table has one line for each event and is safe for spreadsheets', async (t) => {
  const answer = await read('?format=csv&event=bought')
  t.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8')
  const [head = [], first = [], ...others] = parseCsv(await answer.text())
  t.equal(
    head.join(),
    'id,uuid,event,distinct_id,person_id,timestamp,created_at,person_mode,elements_chain,properties',
  )
  t.equal(others.length, 5)
  t.match(first.slice(2, 4), ['bought', 'person 1'])
  t.equal(first[5], '2024-01-01T00:00:03.000Z')
  t.match(JSON.parse(first[9] ?? ''), { price: 1, note: '=1+1,"x"\n' })
  const none = await (await read('?format=csv&distinct_id=nobody')).text()
  t.equal(none, `${head.join()}\r\n`)
})

t.test('an invalid request is refused before the first byte is sent', async (t) => {
  for (const query of ['?format=xml', '?person_id=x', '?properties=x', '?after=x']) {
    const answer = await read(query)
    t.equal(answer.status, 400, query)
    t.match(await answer.json(), { attr: query.slice(1, query.indexOf('=')) })
  }
  const limited = organization.keyOf({ userId: 1, projectIds: [2] })
  const narrow = organization.keyOf({ userId: 1, scopes: ['feature_flag:read'] })
  await organization.settled()
  for (const key of [limited, narrow]) t.equal((await read('', { key })).status, 403)
  t.equal(await (await read('', { project: 2 })).text(), '')
})

t.test(
  'a large export is produced while it is read, and stops when the key is revoked',
  async (t) => {
    const properties = { text: 'x'.repeat(4000) }
    const batch = Array.from({ length: 500 }, (_, n) => ({
      event: `e${n}`,
      distinct_id: 'd',
      properties,
    }))
    for (let sent = 0; sent < 16; sent++) await decisions.capture(batch, 2)
    const whole = await (await read('', { project: 2 })).text()
    const lines = whole.split('\n').slice(0, -1)
    const ids = lines.map((line) => (JSON.parse(line) as { readonly id: number }).id)
    t.strictSame(
      ids,
      Array.from({ length: ids.length }, (_, index) => index + 1),
    )
    t.ok(ids.length > 16 * batch.length)
    const { text, key } = organization.store.projects.keys.create({ userId: 1 })
    await organization.settled()
    const stopped = await read('', { project: 2, key: text })
    const reader = stopped.body?.getReader()
    await reader?.read()
    t.equal(
      (await decisions.api('GET', 'events/?limit=1', 2)).status,
      200,
      'no thread waits for the reader',
    )
    organization.store.projects.keys.revoke(key.id)
    await organization.settled()
    await t.rejects(readRest(reader), 'the transfer is aborted')
  },
)

async function readRest(reader: ReadableStreamDefaultReader | undefined): Promise<void> {
  while ((await reader?.read())?.done === false);
}
