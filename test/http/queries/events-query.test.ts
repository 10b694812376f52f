/**
 * Events as rows over HTTP: their order, their elements, and filters that requests must not override.
 *
 * @lane quick
 */
import t from 'tap'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const CLICKED = [
  {
    tag_name: 'a',
    $el_text: 'Go',
    attr__href: '/go',
    attr__class: 'big red',
    nth_child: 2,
    nth_of_type: 1,
    attr__id: 'go',
  },
  { tag_name: 'div' },
]

t.test('events are returned as rows', async (t) => {
  const daemon = await shareDecisions()
  const at = (hour: number) => `2023-01-02T0${hour}:00:00Z`
  await daemon.capture([
    { event: 'x', distinct_id: 'a', timestamp: at(1), properties: { n: 1 } },
    { event: 'x', distinct_id: 'a', timestamp: at(2), properties: {} },
    { event: 'x', distinct_id: 'a', timestamp: at(3), properties: { n: 3 } },
    {
      event: '$autocapture',
      distinct_id: 'a',
      timestamp: at(4),
      properties: { $elements: CLICKED },
    },
  ])
  const ask = (query: Json, more: Json = {}) => {
    const range = { after: '2023-01-01', before: '2023-02-01' }
    return daemon.api('POST', 'query/', 1, {
      query: { kind: 'EventsQuery', ...range, ...query },
      ...more,
    })
  }
  const rows = async (query: Json) =>
    (await ask(query)).body['results'] as readonly (readonly unknown[])[]

  await t.test('rows without a value are last in both directions', async (t) => {
    const ordered = async (orderBy: string, select: readonly string[] = ['properties.n']) =>
      (await rows({ event: 'x', select, orderBy: [orderBy] })).map(([value]) => value)
    t.strictSame(await ordered('properties.n'), [1, 3, null])
    t.strictSame(await ordered('properties.n DESC'), [3, 1, null])
    t.strictSame(await ordered('properties.n DESC', ['properties.n', 'count()']), [3, 1, null])
  })

  await t.test('elements are returned with the events that have them', async (t) => {
    const found = await rows({ select: ['*'], events: ['x', '$autocapture'] })
    const [clicked, plain] = found.map(([event]) => event as Json)
    const others = { attr__class: 'big red', attr__href: '/go', attr__id: 'go' }
    const none = { text: null, attr_class: null, href: null, attr_id: null, attributes: {} }
    t.strictSame(clicked?.['elements'], [
      {
        text: 'Go',
        tag_name: 'a',
        attr_class: ['big', 'red'],
        href: '/go',
        attr_id: 'go',
        nth_child: 2,
        nth_of_type: 1,
        attributes: others,
        order: 0,
      },
      { ...none, tag_name: 'div', nth_child: 0, nth_of_type: 0, order: 1 },
    ])
    t.notOk('elements' in (plain ?? {}))
  })

  await t.test('filters that override those of the query are refused', async (t) => {
    for (const filters_override of [{ date_from: '-7d' }, { properties: [{ key: 'n' }] }, 'x']) {
      const { status, body } = await ask({}, { filters_override })
      const expected = { status: 400, code: 'invalid_query', attr: 'filters_override' }
      t.match({ status, ...body }, expected)
    }
    for (const filters_override of [null, {}, { date_from: null, properties: [] }]) {
      t.equal((await ask({}, { filters_override })).status, 200)
    }
  })
})
