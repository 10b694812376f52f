/**
 * Tests paths: how events become path items, how sessions are cut, and which keys match.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { PatternReplacement } from '../../../src/base/pattern/pattern-replacement.ts'
import { runQuestion } from '../../../src/rules/analytics/analytics.ts'
import { readQuestion } from '../../../src/rules/analytics/questions.ts'
import { casesOf, worldOf } from '../../fixtures/analytics/analytic-cases.ts'
import {
  contextOf,
  type MemoryScanner,
  parametersOf,
  type ShortEvent,
  scannerOf,
} from '../../fixtures/analytics/memory-scanner.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

type Query = Readonly<Record<string, unknown>>

/** Names of the persons of a page in order. */
function paths(scanner: MemoryScanner, query: Query, changes = {}) {
  const question = readQuestion('path', parametersOf({ ...RANGE, ...query }))
  const { actors, isFull } = runQuestion(question, contextOf(changes), scanner)
  const names = actors.map((actor) =>
    actor.kind === 'person' ? scanner.nameOf(actor.person) : actor.key,
  )
  return { names: names.join(' '), isFull }
}

const RANGE = { date_from: '2023-01-01', date_to: '2023-01-07' }

/** An event at a number of minutes after the start of 2 January. */
function at(who: string, minute: number, name: string, properties: Query = {}): ShortEvent {
  return [who, new Date(Date.UTC(2023, 0, 2) + minute * 60_000).toISOString(), name, properties]
}

function view(who: string, minute: number, url?: string): ShortEvent {
  return at(who, minute, '$pageview', url === undefined ? {} : { $current_url: url })
}

/** Each text is a person with one session of custom events, one minute apart. */
function walks(all: Readonly<Record<string, string>>): MemoryScanner {
  return scannerOf(
    Object.entries(all).flatMap(([who, items]) =>
      items.split(' ').map((item, minute) => at(who, minute, item)),
    ),
  )
}

for (const one of casesOf('persons/path')) {
  t.test(`${one.id}: ${one.title}`, async (t) => {
    const { scanner, context } = worldOf(one)
    const query = { ...one.request.query, ...one.request.body }
    const { error, people, count } = one.expect
    if (error !== undefined) {
      t.throws(() => paths(scanner, query, context), { code: error.code, attr: error.attr })
      return
    }
    const names = paths(scanner, query, context).names.split(' ').filter(Boolean)
    const wanted = people?.map((ids) => [...ids].sort()[0] ?? '') ?? []
    t.strictSame(names.sort(), [...wanted].sort())
    t.equal(names.length, count)
  })
}

t.test('events become path items', async (t) => {
  const scanner = scannerOf([
    view('a', 0, '/x/'),
    at('a', 1, '$screen', { $screen_name: 'Home/' }),
    at('a', 2, 'buy'),
    at('a', 3, '$autocapture'),
    view('b', 0),
    view('b', 1, '/x'),
    view('c', 0, '/'),
    view('d', 0, '//'),
  ])
  const has = (key: string, more: Query = {}): string =>
    paths(scanner, { path_end_key: key, ...more }).names
  t.equal(has('1_/x'), 'a')
  t.equal(has('2_Home/'), 'a')
  t.equal(has('3_buy'), 'a')
  t.equal(has('4_$autocapture'), 'a')
  t.equal(has('1_'), 'b')
  t.equal(has('1_/'), 'c d')
  t.equal(has('2_buy', { include_event_types: ['custom_event', '$pageview'] }), 'a')
  t.equal(has('2_$autocapture', { include_custom_events: ['$autocapture', 'buy'] }), 'a')
  // If the filter names it as an event and not as a type, the item has the name of the event.
  t.equal(has('1_$pageview', { include_custom_events: ['$pageview'] }), 'a b c d')
  t.equal(has('1_/x', { include_event_types: ['$pageview'], exclude_events: ['$pageview'] }), 'a')
  t.equal(has('1_Home/', { exclude_events: ['$pageview'] }), 'a')
  t.equal(has('1_buy', { exclude_events: ['$pageview', 'Home/'] }), 'a')
})

t.test('an empty item at the end is removed, others stay', async (t) => {
  const scanner = scannerOf([
    view('a', 0, '/x'),
    view('a', 1),
    view('b', 0, '/x'),
    view('b', 1),
    view('b', 2, '/y'),
    view('c', 0),
    view('c', 1),
  ])
  t.equal(paths(scanner, { path_dropoff_key: '1_/x' }).names, 'a')
  t.equal(paths(scanner, { path_end_key: '2_' }).names, 'b')
  t.equal(paths(scanner, {}).names, 'a b')
})

t.test('a gap of 30 minutes starts a session; events of other types do not fill it', async (t) => {
  const scanner = scannerOf([
    at('a', 0, 'x'),
    at('a', 30, 'y'),
    at('b', 0, 'x'),
    at('b', 29.999, 'y'),
    at('c', 0, 'x'),
    at('c', 15, 'z'),
    at('c', 30, 'y'),
    at('d', 0, 'x'),
    at('d', 20, 'x'),
    at('d', 40, 'y'),
  ])
  const query = { path_start_key: '1_x', path_end_key: '2_y' }
  t.equal(paths(scanner, query).names, 'b d')
  t.equal(paths(scanner, { ...query, exclude_events: ['z'] }).names, 'b d')
  t.equal(paths(scanner, { path_dropoff_key: '3_y' }).names, 'c')
  t.equal(paths(scanner, { path_end_key: '1_y' }).names, 'a')
})

t.test('groupings: stars match anything, the first match counts', async (t) => {
  const scanner = walks({ a: 'x/p/1/e q', b: 'x/p/2 q', c: 'p+1 q' })
  const has = (key: string, path_groupings: readonly string[]): string =>
    paths(scanner, { path_end_key: key, path_groupings }).names
  t.equal(has('1_/p/*', ['/p/*']), 'a b')
  t.equal(has('1_p/*/e', ['p/*/e', '/p/*']), 'a')
  t.equal(has('1_/p/*', ['p/*/e', '/p/*']), 'b')
  t.equal(has('1_.', ['.']), '')
  t.equal(has('1_p+', ['p+']), 'c')
  t.equal(has('1_*', ['*']), 'a b c')
})

t.test('cleaning runs before groupings, its rules in order', async (t) => {
  const scanner = walks({ a: '/u/17/x q', b: '/u/abc/x q' })
  const local_path_cleaning_filters = [
    { regex: '/u/(\\d+)', alias: '/user/<\\1>' },
    { regex: '<[0-9]+>', alias: '<id>' },
  ]
  const query = { local_path_cleaning_filters, path_end_key: '1_/user/<id>/x' }
  t.equal(paths(scanner, query).names, 'a')
  const grouped = { ...query, path_groupings: ['/user/*'], path_end_key: '1_/user/*' }
  t.equal(paths(scanner, grouped).names, 'a')
})

t.test('replacements follow the syntax of RE2', async (t) => {
  const replaced = (text: string, regex: string, alias: string): string | undefined =>
    PatternReplacement.compile(regex, alias)?.replaceAll(text)
  t.equal(replaced('a1b22', '[0-9]+', '#'), 'a#b#')
  t.equal(replaced('abc', 'x', '#'), 'abc')
  t.equal(replaced('abc', 'abc', ''), '')
  t.equal(replaced('k=v', '(\\w)=(\\w)', '\\2=\\1\\\\\\0\\7$1'), 'v=k\\k=v$1')
  t.equal(replaced('baac', 'a*', 'X'), 'XbXXcX')
  t.equal(replaced('abab', '^ab', ''), 'ab')
  t.equal(PatternReplacement.compile('(?=x)', ''), null)
  t.equal(PatternReplacement.compile('x'.repeat(501), ''), null)
  t.ok((replaced('a'.repeat(9000), 'a', 'b'.repeat(1000))?.length ?? 0) < 40_000)
})

t.test('start and end points cut the paths', async (t) => {
  const scanner = walks({ a: 'x s y e z', b: 's e s e', c: 'e s', d: 's', f: 'e x s y' })
  const ends = (key: string, more: Query): string =>
    paths(scanner, { path_dropoff_key: key, ...more }).names
  t.equal(ends('4_z', { start_point: 's' }), 'a')
  t.equal(ends('4_e', { start_point: 's' }), 'b')
  t.equal(ends('1_s', { start_point: 's' }), 'c d')
  t.equal(ends('4_e', { end_point: 'e' }), 'a')
  t.equal(ends('2_e', { end_point: 'e' }), 'b')
  t.equal(ends('1_e', { end_point: 'e' }), 'c f')
  t.equal(ends('3_e', { start_point: 's', end_point: 'e' }), 'a')
  t.equal(ends('2_e', { start_point: 's', end_point: 'e' }), 'b')
  t.equal(ends('3_s', { start_point: 's', end_point: 's' }), 'b')
  t.equal(paths(scanner, { start_point: 's', end_point: 'e' }).names, 'a b')
})

t.test('path keys select their persons', async (t) => {
  const scanner = walks({ a: 'x y z', b: 'x y', c: 'y x_y' })
  const found = (query: Query): string => paths(scanner, query).names
  t.equal(found({ path_start_key: '2_y' }), 'a')
  t.equal(found({ path_start_key: '1_x', path_end_key: '2_y' }), 'a b')
  t.equal(found({ path_start_key: '1_x', path_end_key: '3_z' }), '')
  t.equal(found({ path_start_key: '2_y', path_end_key: '3_z' }), 'a')
  t.equal(found({ path_end_key: '2_x_y' }), 'c')
  t.equal(found({ path_dropoff_key: '2_y', path_start_key: '1_q' }), 'b')
  for (const key of ['x', '01_x', '0_x', '_x', '1x']) t.equal(found({ path_end_key: key }), '')
})

t.test('the number of steps of a path is limited', async (t) => {
  const scanner = walks({ a: '1 2 3 4 5 6 7' })
  const found = (path_dropoff_key: string, more: Query): string =>
    paths(scanner, { path_dropoff_key, ...more }).names
  t.equal(found('5_5', {}), 'a')
  t.equal(found('7_7', { step_limit: 9 }), 'a')
  t.equal(found('3_6', { end_point: '6', step_limit: 3 }), 'a')
  const both = { start_point: '1', end_point: '7' }
  t.equal(found('5_7', both), 'a')
  t.equal(found('7_7', { ...both, step_limit: 7 }), 'a')
  t.equal(found('1_...', { ...both, step_limit: 1 }), 'a')
  t.equal(paths(scanner, { ...both, path_start_key: '2_2', path_end_key: '3_...' }).names, 'a')
  t.equal(paths(scanner, { ...both, path_start_key: '3_...', path_end_key: '4_6' }).names, 'a')
})

const FUNNEL = {
  events: [
    { id: 's', type: 'events', order: 0 },
    { id: 't', type: 'events', order: 1 },
    { id: 'u', type: 'events', order: 2 },
  ],
  ...RANGE,
}

t.test('paths around a funnel step', async (t) => {
  const scanner = walks({ a: 'x s y t z u w', b: 'x s y', c: 's y t', d: 'x y z' })
  const found = (funnel_paths: string, funnel_step: number, path_dropoff_key?: string): string => {
    const keys = path_dropoff_key === undefined ? {} : { path_dropoff_key }
    const funnel_filter = { ...FUNNEL, funnel_step }
    return paths(scanner, { funnel_paths, funnel_filter, step_limit: 9, ...keys }).names
  }
  t.equal(found('funnel_path_after_step', 2), 'a c')
  t.equal(found('funnel_path_after_step', 2, '4_w'), 'a')
  t.equal(found('funnel_path_after_step', 2, '1_t'), 'c')
  t.equal(found('funnel_path_after_step', -2, '2_y'), 'b')
  t.equal(found('funnel_path_before_step', 2, '4_t'), 'a')
  t.equal(found('funnel_path_before_step', 1, '2_s'), 'a b')
  t.equal(found('funnel_path_before_step', -2, '3_y'), 'b')
  t.equal(found('funnel_path_between_steps', 2, '3_t'), 'a c')
  t.equal(found('funnel_path_between_steps', 3, '3_u'), 'a')
  t.equal(found('funnel_path_between_steps', -3, '3_t'), 'c')
})

t.test('for a drop-off, paths before the step continue until the window ends', async (t) => {
  const scanner = scannerOf([at('a', 0, 's'), at('a', 60, 'x'), at('a', 61, 'y')])
  const funnel_filter = {
    ...FUNNEL,
    funnel_step: -2,
    funnel_window_interval: 1,
    funnel_window_interval_unit: 'hour',
  }
  const query = { funnel_paths: 'funnel_path_before_step', funnel_filter }
  t.equal(paths(scanner, { ...query, path_dropoff_key: '1_x' }).names, 'a')
})

t.test('filters, search and pages select the persons', async (t) => {
  const scanner = scannerOf([
    at('ann', 0, 'x', { app: 'web' }),
    at('ann', 1, 'y', { app: 'ios' }),
    at('ann', 2, 'z', { app: 'web' }),
    at('bob', 0, 'x', { app: 'web' }),
    at('bob', 1, 'z', { app: 'web' }),
  ])
  const query = { properties: [{ key: 'app', value: 'web' }], path_end_key: '2_z' }
  t.strictSame(paths(scanner, { ...query, limit: 2 }), { names: 'ann bob', isFull: true })
  t.strictSame(paths(scanner, { ...query, limit: 2, offset: 1 }), { names: 'bob', isFull: false })
  t.equal(paths(scanner, { ...query, search: 'BO' }).names, 'bob')
})

t.test('invalid path requests are refused', async (t) => {
  const scanner = walks({ a: 'x y' })
  const after = { funnel_paths: 'funnel_path_after_step' }
  const refusals: readonly (readonly [Query, string, string | null])[] = [
    [
      { include_event_types: ['custom_event'], include_custom_events: ['x'] },
      'invalid_input',
      null,
    ],
    [{ include_event_types: 'x' }, 'invalid_input', 'include_event_types'],
    [{ exclude_events: [5] }, 'invalid_input', 'exclude_events'],
    [{ path_groupings: { a: 1 } }, 'invalid_input', 'path_groupings'],
    [{ step_limit: 0 }, 'invalid_input', 'step_limit'],
    [{ step_limit: -1 }, 'invalid_input', 'step_limit'],
    [{ step_limit: 1001 }, 'invalid_input', 'step_limit'],
    [
      { local_path_cleaning_filters: [{ regex: '(', alias: '' }] },
      'invalid_input',
      'local_path_cleaning_filters',
    ],
    [
      { local_path_cleaning_filters: [{ regex: 'x' }] },
      'invalid_input',
      'local_path_cleaning_filters',
    ],
    [{ funnel_paths: 'sideways', funnel_filter: FUNNEL }, 'invalid_input', 'funnel_paths'],
    [after, 'required', 'funnel_filter'],
    [{ ...after, funnel_filter: FUNNEL }, 'required', 'funnel_step'],
    [{ ...after, funnel_filter: [] }, 'invalid_input', 'funnel_filter'],
    [{ ...after, funnel_filter: { funnel_step: 1 } }, 'required', 'events'],
    [
      {
        funnel_paths: 'funnel_path_between_steps',
        funnel_filter: { ...FUNNEL, funnel_step: 1 },
      },
      'invalid_input',
      'funnel_filter',
    ],
    [
      {
        ...after,
        funnel_filter: { ...FUNNEL, funnel_step: 1, aggregation_group_type_index: 0 },
      },
      'invalid_input',
      'funnel_filter',
    ],
  ]
  for (const [query, code, attr] of refusals) {
    t.throws(() => paths(scanner, query), { code, attr }, JSON.stringify(query))
  }
})

type Step = readonly [gapMinutes: number, item: string]

interface PlainRules {
  readonly start: string | null
  readonly end: string | null
  readonly limit: number
  readonly excluded: string
}

/** The definition, taken literally: the keys of each session of a person. */
function plainPaths(steps: readonly Step[], rules: PlainRules): readonly (readonly string[])[] {
  let minute = 0
  const timed = steps
    .map(([gap, item]) => {
      minute += gap
      return { minute, item }
    })
    .filter(({ item }) => item !== rules.excluded)
  const sessions: string[][] = []
  for (const [index, { minute, item }] of timed.entries()) {
    if (index === 0 || minute - (timed[index - 1]?.minute ?? 0) >= 30) sessions.push([])
    sessions.at(-1)?.push(item)
  }
  return sessions.flatMap((session) => {
    let path = session.filter((item, index) => index === 0 || item !== session[index - 1])
    if (path.at(-1) === '') path = path.slice(0, -1)
    const { start, end, limit } = rules
    if (start !== null) {
      if (!path.includes(start)) return []
      path = path.slice(path.indexOf(start))
    }
    if (end !== null) {
      const found = path.findIndex((item, index) => item === end && (start === null || index > 0))
      if (found < 0) return []
      path = path.slice(0, found + 1)
    }
    if (path.length > limit) {
      const half = Math.floor(limit / 2)
      if (end === null) path = path.slice(0, limit)
      else if (start === null) path = path.slice(path.length - limit)
      else path = [...path.slice(0, half), '...', ...path.slice(path.length - half)]
    }
    return path.length === 0 ? [] : [path.map((item, index) => `${index + 1}_${item}`)]
  })
}

function plainHas(sessions: readonly (readonly string[])[], query: Query): boolean {
  const { path_start_key: start, path_end_key: end, path_dropoff_key: dropOff } = query
  if (dropOff !== undefined) return sessions.some((keys) => keys.at(-1) === dropOff)
  return sessions.some((keys) =>
    keys.some((key, index) => {
      return (
        (end === undefined || key === end) && (start === undefined || keys[index - 1] === start)
      )
    }),
  )
}

const item = fc.constantFrom('', 'x', 'y', 'z')
const point = fc.option(fc.constantFrom('x', 'y'), { nil: null })
const key = fc.option(
  fc.tuple(fc.integer({ min: 1, max: 4 }), fc.constantFrom('', 'x', 'y', 'z', '...')),
  { nil: null },
)

t.test('the persons equal those of the plain definition', async () => {
  const worlds = fc.record({
    persons: fc.array(
      fc.array(fc.tuple(fc.constantFrom(0, 1, 29, 30), item), { minLength: 1, maxLength: 10 }),
      { minLength: 1, maxLength: 4 },
    ),
    start: point,
    end: point,
    limit: fc.integer({ min: 1, max: 6 }),
    excluded: fc.constantFrom('z', '-'),
    keys: fc.tuple(key, key, key),
  })
  const names = ['a', 'b', 'c', 'd']
  fc.assert(
    fc.property(worlds, ({ persons, start, end, limit, excluded, keys }) => {
      const scanner = scannerOf(
        persons.flatMap((steps, index) => {
          let minute = 0
          return steps.map(([gap, url]) => {
            minute += gap
            return view(names[index] ?? '', minute, url)
          })
        }),
      )
      const [startKey, endKey, dropOffKey] = keys.map((parts) => parts?.join('_'))
      const query = {
        step_limit: limit,
        exclude_events: [excluded],
        ...(start === null ? {} : { start_point: start }),
        ...(end === null ? {} : { end_point: end }),
        ...(startKey === undefined ? {} : { path_start_key: startKey }),
        ...(endKey === undefined ? {} : { path_end_key: endKey }),
        // Otherwise hardly anything but drop-offs would be tested.
        ...(dropOffKey === undefined || limit > 2 ? {} : { path_dropoff_key: dropOffKey }),
      }
      const found = paths(scanner, query).names
      const rules = { start, end, limit, excluded }
      const wanted = names.filter((_name, index) =>
        plainHas(plainPaths(persons[index] ?? [], rules), query),
      )
      if (found !== wanted.join(' ')) throw new Error(`${found} is not ${wanted.join(' ')}`)
    }),
    runsOf(1000),
  )
})
