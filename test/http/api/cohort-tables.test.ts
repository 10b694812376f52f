/**
 * Static cohorts from the tables that Tenrec writes: lists of persons, actors and events, with ids of any form.
 *
 * @lane quick
 */
import t from 'tap'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const IDS = ['ann', '=y', '-x', '+49 170 1', '@z', 'a,b', 'say "hi"', '-5', ' edge ', ' =f']

t.test('a table that Tenrec wrote gives a cohort of its persons', async (t) => {
  const daemon = await shareDecisions()
  const timestamp = '2024-05-06T10:00:00Z'
  await daemon.capture(
    IDS.map((distinct_id) => ({
      event: 'view',
      distinct_id,
      timestamp,
      properties: { $set: { email: `${IDS.indexOf(distinct_id)}@x.example` } },
    })),
  )
  const send = async (path: string, method = 'GET', body?: string, type = 'text/csv') => {
    const answer = await fetch(`${daemon.url}${daemon.path(1, path)}`, {
      method,
      headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': type },
      ...(body === undefined ? {} : { body }),
    })
    return { status: answer.status, text: await answer.text() }
  }
  let made = 0
  const countOf = async (table: string): Promise<unknown> => {
    const path = `cohorts/?is_static=true&name=c${made++}`
    const { status, text } = await send(path, 'POST', table)
    return status === 201 ? (JSON.parse(text) as { count: unknown }).count : JSON.parse(text)
  }
  const query = (select: readonly string[]) =>
    send(
      'query/?format=csv',
      'POST',
      JSON.stringify({ query: { kind: 'ActorsQuery', select } }),
      'application/json',
    )
  const persons = (await send('persons/?format=csv')).text
  t.equal(await countOf(persons), IDS.length, 'the list of persons')
  t.equal(await countOf((await query(['person'])).text), IDS.length, 'actors')
  t.equal(await countOf((await query(['id', 'created_at'])).text), IDS.length, 'ids of actors')
  t.equal(await countOf((await send('events/export/?format=csv&event=view')).text), IDS.length)
  const lines = persons.split('\r\n')
  t.match(lines[0], /distinct_ids\.0/)
  t.equal(await countOf('distinct_id;name\r\nann;Ann\r\n'), 1, 'semicolons')
  t.equal(await countOf('name\tdistinct_id\nAnn\tann'), 1, 'tabs')
  t.equal(await countOf('"distinct_id";"name"\n"ann";"Ann"\n'), 1, 'quotes and semicolons')
  t.equal(await countOf('"name"\t"distinct_id"\n"Ann"\t"ann"\n'), 1, 'quotes and tabs')
  t.equal(await countOf('Name, $distinct_id \nAnn, ann \nB,"@z" \n'), 2, 'blanks around cells')
  t.equal(await countOf('Name,Distinct ID\nAnn,ann\n'), 1, 'a header of Mixpanel')

  const ann = await send('cohorts/?is_static=true&name=ann', 'POST', 'ann\n')
  const { id } = JSON.parse(ann.text) as { readonly id: number }
  const before = (await send('cohorts/')).text
  for (const table of [
    'nobody\n',
    'distinct_id\n',
    'uuid\n00000000-0000-4000-8000-000000000000',
    'ann;1',
    'distinct_id\n"ann\n@z\n"a,b"\n',
    '"distinct_id;"name"\nann;Ann\n',
  ]) {
    t.match(await countOf(table), { code: 'invalid_input', attr: 'csv' }, table)
    const changed = await send(`cohorts/${id}/`, 'PATCH', table)
    t.match(JSON.parse(changed.text), { code: 'invalid_input', attr: 'csv' }, `PATCH ${table}`)
  }
  t.equal((await send('cohorts/')).text, before, 'a table without persons is refused')
})
