/**
 * Values of session properties, invalid rules of projects, and timelines, over HTTP.
 *
 * @lane quick
 */
import t from 'tap'
import { type QueryCase, QueryCases } from '../../fixtures/queries/query-cases.ts'

const NOW = '2024-03-08T12:00:00Z'
const session = (number: number) => `018e1b5c-0800-7b85-8000-00000000001${number}`
const event = (who: string, minute: number, $session_id: string | null, more: object = {}) => ({
  event: '$pageview',
  distinct_id: who,
  timestamp: new Date(Date.parse('2024-03-08T10:00:00Z') + minute * 60_000).toISOString(),
  properties: { ...($session_id === null ? {} : { $session_id }), ...more },
})
const EVENTS = [
  event('a', 0, session(1), { utm_source: 'google' }),
  event('a', 1, session(2), { utm_source: 'newsletter' }),
  event('b', 2, session(3), { utm_source: 'google' }),
  event('b', 3, session(4)),
  event('c', 4, null),
  event('c', 20, null),
  event('c', 55, null),
  event('c', 56, session(4)),
  event('c', 57, null),
]
const CASE: QueryCase = {
  id: 'one',
  title: '',
  now: NOW,
  events: EVENTS,
  request: {},
  expect: {},
  project: {
    customChannelTypeRules: [
      {
        channel_type: 'Letters',
        combiner: 'OR',
        items: [{ key: 'utm_source', op: 'exact', value: 'l' }],
      },
    ],
  },
}

t.test(
  'values of sessions and timelines are returned, and invalid rules are refused',
  async (t) => {
    const cases = await QueryCases.share([CASE])
    const get = (path: string) => cases.ask(0, CASE, 'GET', path)
    const valuesOf = async (query: string) => (await get(`sessions/values/?${query}`)).body
    t.strictSame(await valuesOf('key=$entry_utm_source'), [
      { name: 'google' },
      { name: 'newsletter' },
    ])
    t.strictSame(await valuesOf('key=$entry_utm_source&value=LETTER'), [{ name: 'newsletter' }])
    t.strictSame(await valuesOf('key=$is_bounce'), [{ name: '1' }, { name: '0' }])
    t.strictSame(await valuesOf('key=$channel_type&value=ette'), [{ name: 'Letters' }])
    t.match(await get('sessions/values/?key=other'), { status: 400, body: { attr: 'key' } })
    t.match(await get('sessions/values/'), { status: 400, body: { code: 'required', attr: 'key' } })

    const timeline = async (more: object) => {
      const query = {
        kind: 'SessionsTimelineQuery',
        after: '2024-03-08',
        before: '2024-03-09',
        ...more,
      }
      const { body } = await cases.ask(0, CASE, 'POST', 'query/', { query })
      const entries = body['results'] as {
        sessionId: string | null
        events: { timestamp: string }[]
      }[]
      return entries.map(({ sessionId, events }) => [
        sessionId?.slice(-1) ?? null,
        events.map(({ timestamp }) => timestamp.slice(11, 16)),
      ])
    }
    t.strictSame(await timeline({}), [
      [null, ['10:57']],
      [null, ['10:55']],
      [null, ['10:20', '10:04']],
      ['4', ['10:56', '10:03']],
      ['3', ['10:02']],
      ['2', ['10:01']],
      ['1', ['10:00']],
    ])
    t.strictSame(
      await timeline({ after: '2024-03-08T10:55:00Z', before: '2024-03-08T10:57:00Z' }),
      [['4', ['10:56']]],
    )
    t.strictSame(await timeline({ personId: '018e1b5c-0800-4b85-8000-000000000015' }), [])

    for (const [settings, attr] of [
      [{ path_cleaning_filters: [{ regex: '(', alias: 'x' }] }, 'path_cleaning_filters'],
      [
        { path_cleaning_filters: Array(101).fill({ regex: 'a', alias: 'b' }) },
        'path_cleaning_filters',
      ],
      [{ customChannelTypeRules: [{ channel_type: 'x' }] }, 'customChannelTypeRules'],
    ] as const) {
      const { status, body } = await cases.daemon.api('PATCH', '', 2, settings)
      t.match([status, body['attr']], [400, new RegExp(`^${attr}`)])
    }
  },
)

t.test('channel rules can also be set in the modifiers of a project', async (t) => {
  const { daemon } = await QueryCases.share([{ ...CASE, id: 'two' }])
  const rulesOf = (channel_type: string) => [{ channel_type, combiner: 'AND', items: [] }]
  const change = async (settings: object) => {
    const { status, body } = await daemon.api('PATCH', '', 2, settings)
    t.equal(status, 200)
    const customChannelTypeRules = body['customChannelTypeRules']
    t.strictSame(body['modifiers'], { customChannelTypeRules })
    return customChannelTypeRules
  }
  const mine = rulesOf('Mine')
  t.strictSame(await change({ modifiers: { customChannelTypeRules: mine } }), mine)
  const { body } = await daemon.api('GET', 'sessions/values/?key=$channel_type&value=min', 2)
  t.strictSame(body, [{ name: 'Mine' }])
  t.strictSame(await change({ modifiers: { other: true } }), mine, 'other modifiers are unchanged')
  t.strictSame(await change({ customChannelTypeRules: rulesOf('Ours') }), rulesOf('Ours'))
  for (const value of ['x', [{ channel_type: 'x' }]]) {
    const settings = { modifiers: { customChannelTypeRules: value } }
    const { status, body: refusal } = await daemon.api('PATCH', '', 2, settings)
    t.match([status, refusal['attr']], [400, /^modifiers/])
  }
})
