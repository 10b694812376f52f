/**
 * Quoted property names: every name can be queried in the notation of PostHog's clients. A malformed name is refused
 * and is never looked up together with its quotes.
 *
 * @lane quick
 */
import t from 'tap'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const NAMES = [
  '$feature/x-y',
  'with space',
  'a,b',
  'two\nlines',
  'x -- y',
  'coalesce(a, b)',
  'a)b',
  "it's",
  'a.b',
  'ä 日本',
  'x DESC',
  '[0]',
  '"',
  'back\\slash',
]

/** Quotes a name as PostHog's clients do. */
function written(name: string): readonly string[] {
  const escaped = name.replaceAll('\\', '\\\\')
  return [
    `."${escaped.replaceAll('"', '\\"')}"`,
    `."${escaped.replaceAll('"', '""')}"`,
    `.\`${escaped.replaceAll('`', '\\`')}\``,
    `['${escaped.replaceAll("'", "\\'")}']`,
    `['${escaped.replaceAll("'", "''")}']`,
  ]
}

t.test('a property with any name can be a column', async (t) => {
  const daemon = await shareDecisions()
  const properties = Object.fromEntries(NAMES.map((name, index) => [name, `v${index}`]))
  const event = { event: 'x', distinct_id: 'a', timestamp: '2023-01-02T00:00:00Z' }
  await daemon.capture([
    { ...event, properties: { ...properties, $set: { 'Full Name': 'Ann', 'a,b': 'c', n: 1 } } },
  ])
  const ask = async (query: Json) => {
    const range = { kind: 'EventsQuery', after: '2023-01-01', before: '2023-02-01', event: 'x' }
    const { body } = await daemon.api('POST', 'query/', 1, { query: { ...range, ...query } })
    return body
  }
  const rowOf = async (query: Json) => ((await ask(query))['results'] as readonly unknown[])[0]

  for (const [index, name] of NAMES.entries()) {
    const select = written(name).map((rest) => `properties${rest}`)
    const expected = select.map(() => `v${index}`)
    t.strictSame(await rowOf({ select }), expected, name)
    const labeled = select.map((text) => `coalesce(properties.none, ${text}) -- its label`)
    t.strictSame(await rowOf({ select: labeled }), expected, `${name}, with a label`)
    const orderBy = [`${select[0]} DESC`]
    t.strictSame(await rowOf({ select: [...select, 'count()'], orderBy }), [...expected, 1])
  }
  const persons = [
    'person.properties."Full Name"',
    "person.properties['a,b']",
    'person.properties.n',
  ]
  t.strictSame(await rowOf({ select: persons }), ['Ann', 'c', 1])

  const refused = [
    'properties.with space',
    'properties."x',
    'properties.`x',
    'properties."x"y',
    'properties.""',
    "properties['x'",
    'properties[x]',
    'properties["x"]',
    'properties.',
    "properties.'x'",
    'properties."a" || properties."b"',
    'properties."a", event',
  ]
  for (const text of refused) {
    const body = await ask({ select: ['event', text] })
    t.match(body, { code: 'invalid_query', attr: 'select.1' }, text)
  }

  const actors = { kind: 'ActorsQuery', orderBy: ['properties."Full Name" DESC'] }
  const select = ['properties."Full Name"', 'properties.`Full Name`', 'properties.Full Name']
  const { body } = await daemon.api('POST', 'query/', 1, { query: { ...actors, select } })
  t.strictSame((body['results'] as readonly unknown[])[0], ['Ann', 'Ann', 'Ann'])
  const broken = await daemon.api('POST', 'query/', 1, {
    query: { ...actors, select: ['properties."Full Name'] },
  })
  t.match(broken.body, { code: 'invalid_query', attr: 'select.0' })
})
