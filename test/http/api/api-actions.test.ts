/**
 * Actions over HTTP and in the store, from the command to the scan.
 *
 * @lane quick
 */
import t from 'tap'
import { type ActionView, actionSteps } from '../../../src/rules/filters/actions.ts'
import { EMPTY_STEP } from '../../fixtures/action-step.ts'
import { PersonLog } from '../../fixtures/persons/person-log.ts'
import { parseCsv, startPersons } from '../../fixtures/persons/persons-port.ts'

function action(id: number, changes: Partial<ActionView> = {}): ActionView {
  return {
    id,
    name: `a${id}`,
    description: '',
    tags: [],
    steps: [{ ...EMPTY_STEP, event: 'signup' }],
    created_at: '2023-01-02T10:00:00Z',
    created_by: null,
    deleted: false,
    is_calculating: false,
    ...changes,
  }
}

t.test('actions are listed in pages and can be read by number', async (t) => {
  const { store, ask } = await startPersons(t)
  store.actions = [action(1), action(2, { tags: ['x'] })]
  const { body } = await ask('1/actions?limit=1')
  t.strictSame(body, {
    count: 2,
    next: 'https://t.example/api/projects/1/actions?limit=1&offset=1',
    previous: null,
    results: [action(1)],
  })
  t.strictSame((await ask('1/actions/2/')).body, action(2, { tags: ['x'] }))
  for (const path of ['1/actions/9', '1/actions/x', '2/actions/2']) {
    t.match(await ask(path), { status: 404, body: { code: 'not_found' } }, path)
  }
  t.equal(parseCsv((await ask('1/actions?format=csv')).text).length, 3)
  t.match(await ask('1/actions', { key: 'phx_read' }), { status: 403 })
  t.match(await ask('1/actions', { key: null }), { status: 401 })
})

t.test('an action is made of steps', async (t) => {
  const { store, ask } = await startPersons(t)
  store.actions = [action(1)]
  const steps = [
    { event: 'signup', url: '', url_matching: null, name: 'ignored' },
    { event: '$autocapture', selector: 'ul > a', text: 'Go', text_matching: 'regex', href: null },
    { url: '/x', url_matching: 'exact', properties: [{ key: 'plan', value: 'pro' }] },
  ]
  const body = { name: ' Sign up ', description: 'd', tags: ['growth'], steps, other: 1 }
  t.match(await ask('1/actions/', { method: 'POST', body }), { status: 201, body: action(1) })
  t.strictSame(store.commands.pop()?.[2], {
    kind: 'create_action',
    action: {
      name: 'Sign up',
      description: 'd',
      tags: ['growth'],
      steps: [
        { ...EMPTY_STEP, event: 'signup' },
        {
          ...EMPTY_STEP,
          event: '$autocapture',
          selector: 'ul > a',
          text: 'Go',
          text_matching: 'regex',
        },
        {
          ...EMPTY_STEP,
          url: '/x',
          url_matching: 'exact',
          properties: [{ key: 'plan', value: 'pro' }],
        },
      ],
    },
  })
})

t.test(
  'an action can be changed, and the number of a deleted action is not used again',
  async (t) => {
    const { store, ask } = await startPersons(t)
    store.actions = [action(1)]
    for (const method of ['PATCH', 'PUT']) {
      const answer = await ask('1/actions/1', { method, body: { name: 'b' } })
      t.match(answer, { status: 200, body: action(1) })
      const command = { kind: 'update_action', id: 1, changes: { name: 'b' } }
      t.strictSame(store.commands.pop()?.[2], command)
    }
    t.match(await ask('1/actions/1', { method: 'DELETE' }), { status: 204, text: '' })
    const command = { kind: 'update_action', id: 1, changes: { deleted: true } }
    t.strictSame(store.commands.pop()?.[2], command)
    store.result = { kind: 'not_found' }
    for (const [method, body] of [
      ['PATCH', {}],
      ['PATCH', { name: '' }],
      ['PUT', { steps: 'x' }],
      ['DELETE', {}],
    ] as const) {
      const answer = await ask('1/actions/7', { method, body })
      t.match(answer, { status: 404, body: { detail: /no such action/ } }, JSON.stringify(body))
    }
  },
)

t.test('an invalid action is refused', async (t) => {
  const { store, ask } = await startPersons(t)
  store.actions = [action(1)]
  const cases: readonly (readonly [object, string, string])[] = [
    [{}, 'required', 'name'],
    [{ name: ' ' }, 'required', 'name'],
    [{ name: 'x'.repeat(401) }, 'invalid_input', 'name'],
    [{ name: 1 }, 'invalid_input', 'name'],
    [{ name: 'a', description: 'x'.repeat(1001) }, 'invalid_input', 'description'],
    [{ name: 'a', steps: {} }, 'invalid_input', 'steps'],
    [{ name: 'a', steps: ['signup'] }, 'invalid_input', 'steps'],
    [{ name: 'a', steps: Array.from({ length: 101 }, () => ({})) }, 'invalid_input', 'steps'],
    [{ name: 'a', steps: [{ event: 1 }] }, 'invalid_input', 'steps'],
    [{ name: 'a', steps: [{ url: 'x', url_matching: 'like' }] }, 'invalid_input', 'steps'],
    [{ name: 'a', steps: [{ selector: 'a:hover' }] }, 'invalid_input', 'steps'],
    [{ name: 'a', steps: [{ properties: 'x' }] }, 'invalid_input', 'steps'],
    [{ name: 'a', tags: 'x' }, 'invalid_input', 'tags'],
    [{ name: 'a', tags: [''] }, 'invalid_input', 'tags'],
    [{ name: 'a', tags: [null] }, 'invalid_input', 'tags'],
    [{ deleted: 'maybe' }, 'invalid_input', 'deleted'],
    [{ name: 'a', deleted: 'maybe' }, 'invalid_input', 'deleted'],
  ]
  for (const [body, code, attr] of cases) {
    const answer = await ask('1/actions/', { method: 'POST', body })
    t.match(answer, { status: 400, body: { code, attr } }, JSON.stringify(body).slice(0, 80))
  }
  const answer = await ask('1/actions/1', { method: 'PATCH', body: { name: '' } })
  t.match(answer, { status: 400, body: { code: 'invalid_input', attr: 'name' } })
})

t.test('texts in the query stand for lists and booleans, and null for nothing', async (t) => {
  const { store, ask } = await startPersons(t)
  store.actions = [action(1)]
  const query = new URLSearchParams({ tags: '["a"]', steps: 'null', deleted: 'FALSE' })
  const patch = { method: 'PATCH', body: { description: null } }
  t.equal((await ask(`1/actions/1?${query.toString()}`, patch)).status, 200)
  t.strictSame(store.commands.pop()?.[2], {
    kind: 'update_action',
    id: 1,
    changes: { tags: ['a'], deleted: false },
  })
  const answer = await ask('1/actions/1?tags=a', patch)
  t.match(answer, { status: 400, body: { attr: 'tags', detail: /must be JSON/ } })
})

t.test('actions are stored in order and match events by their steps', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const draft = {
    name: 'a',
    description: '',
    tags: [],
    steps: [{ ...EMPTY_STEP, event: 'signup' }],
  }
  const made = log.run(1, { kind: 'create_action', action: draft })
  t.match(made, { kind: 'done', action: { id: 1, created_by: { first_name: 'Ann' } } })
  t.match(log.run(1, { kind: 'create_action', action: { ...draft, name: 'b' } }), {
    action: { id: 2 },
  })
  await log.reopen()
  const changes = { steps: [{ ...EMPTY_STEP, selector: 'a.go' }] }
  log.run(1, { kind: 'update_action', id: 2, changes })
  log.run(1, { kind: 'update_action', id: 1, changes: { deleted: true } })
  t.same(log.run(1, { kind: 'update_action', id: 1, changes: {} }), { kind: 'not_found' })
  t.match(log.run(1, { kind: 'create_action', action: draft }), { action: { id: 3 } })
  const persons = log.reader.persons()
  t.match(persons.actions(1, 100, 0), { count: 2, results: [{ id: 2, name: 'b' }, { id: 3 }] })
  t.equal(persons.action(1, 1), null)
  t.equal(persons.action(2, 2), null)
  const elements = [{ tag_name: 'a', attr__class: 'go' }]
  log.send(1, [
    { event: '$autocapture', distinct_id: 'u', properties: { $elements: elements } },
    { event: '$autocapture', distinct_id: 'u', properties: {} },
    { event: 'signup', distinct_id: 'v', properties: {} },
  ])
  log.process()
  const limits = { deadlineMs: Number.POSITIVE_INFINITY, isCanceled: () => false }
  const scanner = log.reader.scanner(limits)
  const { persons: reader } = log.reader.answers()
  const names = [2, 3].map((id) => {
    const steps = actionSteps(reader.action(1, id)?.steps ?? [])
    const columns = scanner.scan({
      projectId: 1,
      fromMs: 0,
      toMs: 4e12,
      nowMs: 0,
      filter: null,
      persons: null,
      series: [{ names: null, filter: null, steps }],
      values: [{ kind: 'event_name' }],
    })
    return Array.from(columns.values[0]?.ids ?? [], (value) => columns.values[0]?.values[value])
  })
  t.strictSame(names, [['$autocapture'], ['signup']])
})
