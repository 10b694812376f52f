/**
 * Tests the rules that a request body must meet to become a flag: each rule with its code and its field, and their
 * order.
 *
 * @lane quick
 */
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import type { JsonObject } from '../../../src/base/json.ts'
import { changeFlag, draftFlag } from '../../../src/rules/flags/edit/flag-changes.ts'
import type { Flag, FlagRepository } from '../../../src/rules/flags/types.ts'
import {
  NOW_MS,
  onFlag,
  refusal,
  repositoryOf,
  taken,
} from '../../fixtures/flags/flag-repository.ts'

function flagOf(repository: FlagRepository, id: number): Flag {
  const flag = repository.flagById(id)
  if (flag === null) throw new Error(`there is no flag ${id}`)
  return flag
}

t.test('each invalid field is refused with its code', (t) => {
  const long = 'a'.repeat(401)
  const rows: readonly (readonly [string, JsonObject, string, string])[] = [
    ['key missing', {}, 'required', 'key'],
    ['key null', { key: null }, 'null', 'key'],
    ['key blank', { key: '  ' }, 'blank', 'key'],
    ['key too long', { key: long }, 'max_length', 'key'],
    ['key of a wrong type: boolean', { key: true }, 'invalid_input', 'key'],
    ['key of a wrong type: list', { key: ['a'] }, 'invalid_input', 'key'],
    ['key of a wrong type: object', { key: {} }, 'invalid_input', 'key'],
    ['key exists', { key: ' taken ' }, 'unique', 'key'],
    ['key characters', { key: 'a b' }, 'invalid_key', 'key'],
    ['key characters: letters of other scripts', { key: 'ä' }, 'invalid_key', 'key'],
    ['key characters: line break', { key: 'a\nb' }, 'invalid_key', 'key'],
    ['filters a list', { key: 'a', filters: [] }, 'not_a_dict', 'filters'],
    ['filters a text', { key: 'a', filters: '{}' }, 'not_a_dict', 'filters'],
    ['filters null', { key: 'a', filters: null }, 'null', 'filters'],
    ['boolean field: active', { key: 'a', active: 'maybe' }, 'invalid_input', 'active'],
    ['boolean field: deleted', { key: 'a', deleted: [] }, 'invalid_input', 'deleted'],
    ['boolean field: null', { key: 'a', active: null }, 'null', 'active'],
    [
      'continuity',
      { key: 'a', ensure_experience_continuity: 2 },
      'invalid_input',
      'ensure_experience_continuity',
    ],
    ['rollback', { key: 'a', performed_rollback: 'x' }, 'invalid_input', 'performed_rollback'],
    [
      'analytics',
      { key: 'a', has_enriched_analytics: {} },
      'invalid_input',
      'has_enriched_analytics',
    ],
    ['name null', { key: 'a', name: null }, 'null', 'name'],
    ['name of a wrong type', { key: 'a', name: [] }, 'invalid_input', 'name'],
    ['name too long', { key: 'a', name: 'n'.repeat(65_537) }, 'max_length', 'name'],
    ['created_at', { key: 'a', created_at: 'yesterday' }, 'invalid_input', 'created_at'],
    ['created_at number', { key: 'a', created_at: 5 }, 'invalid_input', 'created_at'],
    ['tags', { key: 'a', tags: 'web' }, 'not_a_list', 'tags'],
    ['tag of a wrong type', { key: 'a', tags: [1] }, 'invalid_input', 'tags'],
    ['tag null', { key: 'a', tags: [null] }, 'invalid_input', 'tags'],
    ['tag blank', { key: 'a', evaluation_tags: [' '] }, 'invalid_input', 'evaluation_tags'],
    [
      'dashboards null',
      { key: 'a', analytics_dashboards: null },
      'not_a_list',
      'analytics_dashboards',
    ],
    [
      'encryption of a wrong type',
      { key: 'a', has_encrypted_payloads: '' },
      'invalid_input',
      'has_encrypted_payloads',
    ],
    ['tag too long', { key: 'a', tags: ['t'.repeat(256)] }, 'max_length', 'tags'],
    [
      'too many tags',
      { key: 'a', tags: Array.from({ length: 201 }, (_, index) => `${index}`) },
      'invalid_input',
      'tags',
    ],
    ['dashboards', { key: 'a', analytics_dashboards: 1 }, 'not_a_list', 'analytics_dashboards'],
    [
      'dashboard unknown',
      { key: 'a', analytics_dashboards: [6] },
      'does_not_exist',
      'analytics_dashboards',
    ],
    [
      'dashboard of a wrong type',
      { key: 'a', analytics_dashboards: [{}] },
      'invalid_input',
      'analytics_dashboards',
    ],
    ['runtime', { key: 'a', evaluation_runtime: 'edge' }, 'invalid_choice', 'evaluation_runtime'],
    [
      'bucketing',
      { key: 'a', bucketing_identifier: 'ip' },
      'invalid_choice',
      'bucketing_identifier',
    ],
    [
      'encryption',
      { key: 'a', has_encrypted_payloads: true },
      'invalid_input',
      'has_encrypted_payloads',
    ],
    [
      'rollback_conditions too large',
      { key: 'a', rollback_conditions: ['r'.repeat(70_000)] },
      'invalid_input',
      'rollback_conditions',
    ],
  ]
  for (const [name, body, code, attr] of rows) {
    t.strictSame(
      refusal(() => draftFlag(body, taken)),
      [code, attr],
      name,
    )
  }
  t.end()
})

t.test('alternative forms of fields are accepted', (t) => {
  const draft = (body: JsonObject) => draftFlag({ key: 'a', ...body }, taken)
  t.equal(draft({ key: ` ${'a'.repeat(400)} ` }).key.length, 400)
  t.equal(draft({ key: 5 }).key, '5')
  t.equal(draft({ key: '__proto__' }).key, '__proto__')
  t.equal(draft({ key: 'gone' }).key, 'gone', 'the key of a deleted flag can be used again')
  t.equal(draft({ active: 'False' }).active, false)
  t.equal(draft({ active: 0 }).active, false)
  t.equal(draft({ ensure_experience_continuity: null }).ensureExperienceContinuity, null)
  t.equal(draft({ has_enriched_analytics: null }).hasEnrichedAnalytics, false)
  t.equal(draft({}).createdAtMs, NOW_MS)
  const times: readonly (readonly [string, number])[] = [
    ['2020-01-02', Date.UTC(2020, 0, 2)],
    ['2020-01-02T03:04:05Z', Date.UTC(2020, 0, 2, 3, 4, 5)],
    ['2020-01-02 03:04:05.250', Date.UTC(2020, 0, 2, 3, 4, 5, 250)],
    ['2020-01-02T03:04:05.123456+02:00', Date.UTC(2020, 0, 2, 1, 4, 5, 123)],
  ]
  for (const [text, timeMs] of times) t.equal(draft({ created_at: text }).createdAtMs, timeMs, text)
  t.strictSame(draft({ analytics_dashboards: [5, '5'] }).analyticsDashboards, [5])
  t.strictSame(draft({ evaluation_tags: ['Main'] }).evaluationContexts, ['Main'])
  t.equal(draft({ bucketing_identifier: 'device_id' }).bucketingIdentifier, 'device_id')
  t.equal(draft({ evaluation_runtime: 'server' }).evaluationRuntime, 'server')
  const readOnly = { id: 9, version: 7, can_edit: false, created_by: {}, is_simple_flag: 3 }
  t.strictSame(draft(readOnly), draft({}), 'what is read-only or unknown is ignored')
  t.end()
})

t.test('a flag cannot depend on itself or on flags that depend on it', (t) => {
  const repository = repositoryOf(
    { key: 'a' },
    { key: 'b', filters: onFlag(1) },
    { key: 'c', filters: onFlag(2) },
  )
  const change = (id: number) =>
    refusal(() => changeFlag(flagOf(repository, 1), { filters: onFlag(id) }, false, repository))
  t.strictSame(change(1), ['invalid_input', 'filters'])
  t.strictSame(change(2), ['invalid_input', 'filters'])
  t.strictSame(change(3), ['invalid_input', 'filters'])
  const free = changeFlag(flagOf(repository, 3), { filters: onFlag(1) }, false, repository)
  t.strictSame(free.filters, onFlag(1))
  t.end()
})

t.test('a flag that others depend on cannot be deleted', (t) => {
  const many = Array.from({ length: 7 }, (_, index) => ({ key: `d${index}`, filters: onFlag(1) }))
  const repository = repositoryOf({ key: 'base' }, ...many)
  const messageOf = (body: JsonObject): string => {
    try {
      changeFlag(flagOf(repository, 1), body, false, repository)
    } catch (error) {
      if (error instanceof ServiceError && error.attr === null && error.code === 'invalid_input') {
        return error.message
      }
    }
    return ''
  }
  for (const body of [{ deleted: true }, { active: false }]) {
    t.match(messageOf(body), /d0 \(2\), d1 \(3\), d2 \(4\), d3 \(5\), d4 \(6\) and 2 more/)
  }
  const idle = repositoryOf({ key: 'base' }, { key: 'd', active: false, filters: onFlag(1) })
  t.equal(changeFlag(flagOf(idle, 1), { deleted: true }, false, idle).deleted, true)
  t.end()
})

t.test('a flag is not enabled before the flags it depends on', (t) => {
  const repository = repositoryOf(
    { key: 'a', active: false },
    { key: 'b', active: false, filters: onFlag(1) },
  )
  const enable = () => changeFlag(flagOf(repository, 2), { active: true }, false, repository)
  t.strictSame(refusal(enable), ['invalid_input', null])
  const ready = repositoryOf({ key: 'a' }, { key: 'b', active: false, filters: onFlag(1) })
  t.equal(changeFlag(flagOf(ready, 2), { active: true }, false, ready).active, true)
  t.end()
})

t.test('the first invalid field is reported', (t) => {
  const wrong = {
    name: 5n,
    key: 'a b',
    filters: [],
    deleted: 'x',
    active: 'x',
    created_at: 'x',
    ensure_experience_continuity: 'x',
    performed_rollback: 'x',
    tags: 'x',
    analytics_dashboards: 'x',
    has_enriched_analytics: 'x',
  }
  const fixes: readonly (readonly [string, unknown])[] = [
    ['name', 'n'],
    ['key', 'a'],
    ['filters', undefined],
    ['deleted', false],
    ['active', true],
    ['created_at', '2024-01-01'],
    ['ensure_experience_continuity', null],
    ['performed_rollback', null],
    ['tags', []],
    ['analytics_dashboards', []],
    ['has_enriched_analytics', true],
  ]
  let body: JsonObject = wrong
  for (const [field, value] of fixes) {
    t.equal(refusal(() => draftFlag(body, taken))?.[1], field)
    body = { ...body, [field]: value }
  }
  t.equal(
    refusal(() => draftFlag(body, taken)),
    null,
  )
  t.equal(refusal(() => draftFlag({ key: 'taken', filters: [] }, taken))?.[0], 'unique')
  t.end()
})

t.test('PUT needs the key, PATCH does not', (t) => {
  const repository = repositoryOf({ key: 'a' })
  const flag = flagOf(repository, 1)
  t.strictSame(
    refusal(() => changeFlag(flag, { name: 'x' }, true, repository)),
    ['required', 'key'],
  )
  t.equal(changeFlag(flag, { key: 'a', name: 'x' }, true, repository).name, 'x')
  t.equal(changeFlag(flag, { name: 'x' }, false, repository).name, 'x')
  t.end()
})
