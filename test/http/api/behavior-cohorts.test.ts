/**
 * Cohorts by behavior on a daemon: the state of their calculation, merges, deletions, late events, restarts, every place
 * that uses a cohort, and refusals.
 *
 * @lane quick
 */
import t from 'tap'
import { PERSONAL_KEY, serveDecisions } from '../../fixtures/flags/decision-daemon.ts'
import {
  allOf,
  CohortProject,
  DAY_MS,
  eventOf,
  NOW_MS,
  startAtNow,
} from '../../fixtures/queries/cohort-project.ts'

type Json = Readonly<Record<string, unknown>>

const daemon = await startAtNow(t, 6)

/** A filter on an event in the last days. */
function did(key: string, days: number, more: Json = {}): Json {
  const time = { time_value: days, time_interval: 'day' }
  return {
    type: 'behavioral',
    key,
    value: 'performed_event',
    event_type: 'events',
    ...time,
    ...more,
  }
}

function times(key: string, days: number, least: number): Json {
  return did(key, days, {
    value: 'performed_event_multiple',
    operator: 'gte',
    operator_value: least,
  })
}

t.test('the state of the calculation is shown, and a changed rule has other members', async (t) => {
  const project = new CohortProject(daemon, 1)
  await project.capture([
    eventOf('a', 'view', NOW_MS - DAY_MS),
    eventOf('b', 'view', NOW_MS - 9 * DAY_MS),
    eventOf('b', 'buy', NOW_MS - DAY_MS),
  ])
  const made = await project.api('POST', 'cohorts/', {
    name: 'c',
    filters: allOf(did('view', 7)),
  })
  t.match(made.body, {
    is_calculating: true,
    count: null,
    last_calculation: null,
    is_static: false,
  })
  const id = Number(made.body['id'])
  t.match(await project.counted(id), {
    count: 1,
    last_calculation: /^2026-11-03T17:30/,
    errors_calculating: 0,
    last_error_message: null,
    filters: allOf(did('view', 7)),
  })
  t.strictSame(await project.membersOf(id), ['a'])
  await project.api('PATCH', `cohorts/${id}/`, { filters: allOf(did('view', 10)) })
  t.match(await project.counted(id), { count: 2 })
  await project.api('PATCH', `cohorts/${id}/`, {
    filters: allOf(did('view', 10, { negation: true })),
  })
  t.match(await project.counted(id), { count: 0 })
  const renamed = await project.api('PATCH', `cohorts/${id}/`, { name: 'd' })
  t.match(renamed.body, { is_calculating: false, name: 'd' }, 'a new name changes no member')
  const plan = { type: 'person', key: 'plan', value: 'x' }
  await project.api('PATCH', `cohorts/${id}/`, { filters: allOf(plan) })
  t.match(await project.counted(id), { count: 0, is_calculating: false, last_calculation: null })
  const again = await project.api('POST', `cohorts/${id}/calculate/`)
  t.match(again, { status: 202, body: { is_calculating: false } }, 'this rule needs no calculation')
  t.match(await project.api('POST', 'cohorts/99/calculate/'), { status: 404 })
  await project.api('PATCH', `cohorts/${id}/`, { filters: allOf(plan, did('view', 7)) })
  t.match(await project.counted(id), { count: 0 })
})

t.test('events that arrive late count by their own time', async (t) => {
  const project = new CohortProject(daemon, 2)
  await project.capture([eventOf('a', 'view', NOW_MS - DAY_MS)])
  const id = await project.makeCohort(allOf(times('view', 7, 2)))
  await project.capture([
    eventOf('a', 'view', NOW_MS - 6 * DAY_MS),
    eventOf('b', 'view', NOW_MS - 20 * DAY_MS),
    eventOf('b', 'view', NOW_MS - 2 * DAY_MS),
  ])
  t.strictSame(await project.membersOf(id), [], 'members are calculated from time to time')
  t.match(await project.countAgain(id), { count: 1 })
  t.strictSame(await project.membersOf(id), ['a'])
})

t.test('a merged person is one member, and has the events of both', async (t) => {
  const project = new CohortProject(daemon, 3)
  const view = (name: string) => eventOf(name, 'view', NOW_MS - DAY_MS)
  await project.capture([
    view('a'),
    view('a'),
    view('b'),
    view('b'),
    view('c'),
    view('d'),
    view('d'),
  ])
  const twice = await project.makeCohort(allOf(times('view', 7, 2)))
  const often = await project.makeCohort(allOf(times('view', 7, 3)))
  const never = await project.makeCohort(allOf({ ...did('buy', 7), negation: true }))
  const merge = (distinct_id: string, alias: string) => ({
    event: '$merge_dangerously',
    distinct_id,
    properties: { alias },
  })
  await project.capture([merge('a', 'b'), merge('d', 'c')])
  t.strictSame(await project.membersOf(twice), ['a', 'd'], 'members stay members at once')
  t.match((await project.api('GET', `cohorts/${twice}/`)).body, { count: 2 })
  t.strictSame(await project.membersOf(often), [])
  t.match(await project.countAgain(often), { count: 2 })
  t.match(await project.countAgain(twice), { count: 2 })
  t.match(await project.countAgain(never), { count: 2 })
})

t.test('a deleted person and erased events no longer count', async (t) => {
  const project = new CohortProject(daemon, 4)
  const view = (name: string) => eventOf(name, 'view', NOW_MS - DAY_MS)
  await project.capture(['a', 'b', 'c'].map(view))
  const id = await project.makeCohort(allOf(did('view', 7)))
  const { body } = await project.api('GET', 'persons/?distinct_id=a')
  const [{ uuid = '' } = {}] = body['results'] as readonly { readonly uuid: string }[]
  await project.api('DELETE', `persons/${uuid}/?delete_events=true`)
  t.strictSame(await project.membersOf(id), ['b', 'c'], 'at once')
  t.match((await project.api('GET', `cohorts/${id}/`)).body, { count: 2 })
  const erased = await project.api('POST', 'erasures/', { distinct_id: 'b' })
  t.equal(erased.status, 202, JSON.stringify(erased.body))
  const receipt = `erasures/${String(erased.body['id'])}/`
  await daemon.until(async () => (await project.api('GET', receipt)).body['status'] === 'done')
  await project.countAgain(id)
  t.strictSame(await project.membersOf(id), ['c'])
})

t.test('flags, lists, filters and breakdowns use the calculated members', async (t) => {
  const project = new CohortProject(daemon, 5)
  await project.capture([
    eventOf('a', 'view', NOW_MS - DAY_MS),
    eventOf('a', 'view', NOW_MS - 2 * DAY_MS),
    eventOf('b', 'view', NOW_MS - DAY_MS),
  ])
  const id = await project.makeCohort(allOf(times('view', 7, 2)))
  const inner = { type: 'cohort', key: 'id', value: id }
  const outer = await project.api('POST', 'cohorts/', { name: 'outer', filters: allOf(inner) })
  const outerId = Number(outer.body['id'])
  t.strictSame(await project.membersOf(outerId), ['a'], 'a rule on persons may refer to it')
  const flagOn = (key: string, filter: Json) =>
    project.api('POST', 'feature_flags/', {
      key,
      filters: { groups: [{ properties: [filter], rollout_percentage: 100 }] },
    })
  t.match(await flagOn('often', { ...inner, operator: 'in' }), { status: 201 })
  t.match(await flagOn('seldom', { ...inner, operator: 'not_in' }), { status: 201 })
  t.match(await flagOn('nested', { ...inner, value: outerId, operator: 'in' }), { status: 201 })
  const decided = async (distinct_id: string) => {
    const { body } = await daemon.decide('/decide/?v=3', { distinct_id }, project.id)
    return body['featureFlags']
  }
  t.strictSame(await decided('a'), { often: true, seldom: false, nested: true })
  t.strictSame(await decided('b'), { often: false, seldom: true, nested: false })
  t.strictSame(await decided('nobody'), { often: false, seldom: true, nested: false })
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const definitions = await daemon.ask(
    `/flags/definitions?token=${daemon.key(project.id)}&send_cohorts`,
    {
      headers,
    },
  )
  t.strictSame(
    Object.keys(definitions.body['cohorts'] as object),
    [String(outerId)],
    'SDKs get no rule on behavior, and ask the server',
  )
  const query = async (body: Json) =>
    (await project.api('POST', 'query/', { query: body })).body['results'] as readonly Json[]
  const trends = {
    kind: 'TrendsQuery',
    series: [{ kind: 'EventsNode', event: 'view' }],
    dateRange: { date_from: '-7d' },
  }
  const [filtered] = await query({ ...trends, properties: [inner] })
  t.equal(filtered?.['count'], 2)
  const breakdownFilter = { breakdown_type: 'cohort', breakdown: [id, 'all'] }
  const split = await query({ ...trends, breakdownFilter })
  t.strictSame(
    split.map(({ count, breakdown_value }) => [breakdown_value, count]),
    [
      [id, 2],
      ['all', 3],
    ],
  )
  await project.capture([eventOf('b', 'view', NOW_MS - DAY_MS)])
  await project.countAgain(id)
  t.match(await decided('b'), { often: true }, 'decisions use the new members at once')
  const [later] = await query({ ...trends, properties: [inner] })
  t.equal(later?.['count'], 4)
  const ofPerson = await project.api('GET', 'persons/cohorts/?person_id=2')
  t.strictSame(
    (ofPerson.body['results'] as readonly Json[]).map((cohort) => cohort['id']),
    [id, outerId],
  )
})

t.test('members survive a restart, and are calculated again after a while', async (t) => {
  const first = await startAtNow(t, 1)
  const { dataDir } = first
  const before = new CohortProject(first, 1)
  await before.capture([
    eventOf('a', 'view', NOW_MS - DAY_MS),
    eventOf('b', 'buy', NOW_MS - DAY_MS),
  ])
  const id = await before.makeCohort(allOf(did('view', 7)))
  await first.stop()
  let nowMs = NOW_MS
  const clock = { now: () => nowMs, monotonic: () => performance.now() }
  const second = await serveDecisions(t, dataDir, {}, { clock, cohortsMs: 200 })
  const project = new CohortProject(second, 1)
  t.strictSame(await project.membersOf(id), ['a'])
  t.match((await project.api('GET', `cohorts/${id}/`)).body, { count: 1, is_calculating: false })
  await project.capture([eventOf('c', 'view', NOW_MS)])
  nowMs += 7 * DAY_MS
  await second.until(async () => (await project.membersOf(id)).join() === 'c')
  t.match((await project.api('GET', `cohorts/${id}/`)).body, {
    count: 1,
    last_calculation: /^2026-11-10T17:30/,
  })
})

t.test('a rule that cannot be calculated is refused with the reason', async (t) => {
  const project = new CohortProject(daemon, 6)
  const refusals: readonly (readonly [Json, RegExp])[] = [
    [did('view', 0), /whole number from 1 to 36500 as `time_value`/],
    [
      did('view', 7, { time_interval: 'minute' }),
      /hour, day, week, month, year as `time_interval`/,
    ],
    [did('', 7), /needs the name of an event as `key`/],
    [did('view', 7, { value: 'performed_event_rarely' }), /needs one of performed_event, /],
    [did('view', 7, { value: 'performed_event_multiple' }), /`operator_value`/],
    [did('view', 7, { value: 'performed_event_multiple', operator_value: 0 }), /`operator_value`/],
    [
      did('view', 7, { value: 'performed_event_multiple', operator: 'is_not', operator_value: 1 }),
      /`operator`/,
    ],
    [
      did('view', 7, { operator_value: 3 }),
      /has the member `operator_value`, which performed_event does not use/,
    ],
    [did('view', 7, { event_type: 'pages' }), /events, actions as `event_type`/],
    [did('view', 7, { event_type: 'actions' }), /needs the number of an action as `key`/],
    [did('5', 7, { event_type: 'actions' }), /refers to an action that does not exist/],
    [did('view', 7, { negation: 'yes' }), /`negation`/],
    [did('view', 7, { event_filters: {} }), /needs a list as `event_filters`/],
    [
      did('view', 7, { event_filters: [{ type: 'hogql', key: '1=1' }] }),
      /`event_filters\[0\]`, whose type must be event or element/,
    ],
    [
      did('view', 7, { event_filters: [{ key: 'a', value: 1, operator: 'like' }] }),
      /has the operator "like"/,
    ],
    [did('view', 7, { event_filters: [{ key: 'a' }] }), /needs a `key` and a `value`/],
    [
      did('view', 7, { event_filters: [{ key: 'a', value: '(', operator: 'regex' }] }),
      /event_filters\[0\] \("a"\) has a pattern/,
    ],
    [did('view', 7, { explicit_datetime: '2026-02-30' }), /`explicit_datetime`/],
    [did('view', 7, { explicit_datetime: 'soon' }), /needs a date such as/],
    [did('view', 7, { value: 'stopped_performing_event' }), /`seq_time_interval`/],
    [
      did('view', 7, {
        value: 'stopped_performing_event',
        seq_time_value: 1,
        seq_time_interval: 'week',
      }),
      /shorter than/,
    ],
    [
      did('view', 1, {
        value: 'performed_event_regularly',
        operator: 'gte',
        operator_value: 1,
        total_periods: 2,
        min_periods: 3,
      }),
      /`min_periods`/,
    ],
    [
      did('view', 1, {
        value: 'performed_event_regularly',
        operator: 'gte',
        operator_value: 1,
        total_periods: 101,
        min_periods: 3,
      }),
      /`total_periods`/,
    ],
    [
      did('view', 7, {
        value: 'performed_event_sequence',
        seq_time_value: 1,
        seq_time_interval: 'day',
      }),
      /`seq_event`/,
    ],
  ]
  for (const [filter, reason] of refusals) {
    const answer = await project.api('POST', 'cohorts/', { name: 'c', filters: allOf(filter) })
    t.match(
      answer,
      { status: 400, body: { code: 'invalid_input', attr: 'filters', detail: reason } },
      `${JSON.stringify(filter)}: ${String(answer.body['detail'])}`,
    )
  }
  const many = allOf(...Array.from({ length: 21 }, () => did('view', 7)))
  t.match(await project.api('POST', 'cohorts/', { name: 'c', filters: many }), {
    status: 400,
    body: { detail: /at most 20 filters on behavior/ },
  })
  const tested = { ...allOf(did('view', 7)), filterTestAccounts: true }
  t.match(await project.api('POST', 'cohorts/', { name: 'c', filters: tested }), {
    status: 400,
    body: { detail: /test accounts/ },
  })
  const derived = did('view', 7, { bytecode: [1], conditionHash: 'x', operator: null })
  const made = await project.api('POST', 'cohorts/', { name: 'c', filters: allOf(derived) })
  t.match(made, { status: 201 }, 'what PostHog derives from a filter is left out')
  t.notMatch(JSON.stringify(made.body), /bytecode/)
})
