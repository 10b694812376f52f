/**
 * Tests the way from JSON text to clean, structurally checked events and to the project that they belong to.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import type {
  PersonalKeyAccess,
  ProjectDirectory,
} from '../../../src/rules/access/project-directory.ts'
import { readQuery } from '../../../src/rules/capture/decode.ts'
import { checkEvents, type Envelope, parseEnvelope } from '../../../src/rules/capture/envelope.ts'
import { cleanText, parseJsonText } from '../../../src/rules/capture/json-text.ts'
import {
  findKey,
  findProjectId,
  type KeySources,
  resolveProject,
} from '../../../src/rules/capture/key.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const LONE_SURROGATE_OR_NUL = /[\0\ud800-\udfff]/u
const NO_FORM = {
  apiKey: undefined,
  token: undefined,
  compression: undefined,
  sentAt: undefined,
  underscore: undefined,
  projectId: undefined,
  beacon: undefined,
}

const parse = (text: string): unknown => parseJsonText(Buffer.from(text))
const envelopeOf = (text: string, isEngage = false): Envelope =>
  parseEnvelope(Buffer.from(text), { isEngage })

function refusalOf(action: () => unknown): { code: string; attr: string | null; detail: string } {
  try {
    action()
  } catch (error) {
    if (error instanceof ServiceError) return error.toBody()
    throw error
  }
  return { code: 'none', attr: null, detail: '' }
}
const checked = (envelope: Envelope): readonly object[] => [...checkEvents(envelope)]
const codeOf = (action: () => unknown): string => refusalOf(action).code

t.test('clean JSON parses as with JSON.parse', async () => {
  fc.assert(
    fc.property(fc.json({ noUnicodeString: false }), (text) => {
      fc.pre(!text.includes('__proto__') && !/\\u|\\\\u/.test(text))
      const wellFormed = Buffer.from(text).toString()
      return JSON.stringify(parse(wellFormed)) === JSON.stringify(JSON.parse(wellFormed))
    }),
    runsOf(500),
  )
})

t.test('lone surrogates and NUL are removed from keys and values', async () => {
  const unit = fc.constantFrom('\ud83d', '\ude00', '\0', 'a', '"', '\\', 'é', '_')
  const text = fc.string({ unit, maxLength: 6 })
  const value = fc.letrec((tie) => ({
    any: fc.oneof(text, fc.array(tie('any')), fc.dictionary(text, tie('any'))),
  })).any
  fc.assert(
    fc.property(value, (given) => {
      const again = JSON.stringify(parse(JSON.stringify(given)))
      const isClean = !LONE_SURROGATE_OR_NUL.test(again) && !/\\ud|\\u0000/.test(again)
      return isClean && JSON.stringify(JSON.parse(again)) === again
    }),
    runsOf(500),
  )
})

t.test('escapes in every spelling are cleaned', async (t) => {
  t.equal(parse('"\\uD83D\\uDE00"'), '😀')
  t.equal(parse('"a\\ud83Db\\u0000"'), 'a\ufffdb\ufffd')
  t.equal(parse('"\\\\u0000"'), '\\u0000', 'an escaped backslash does not start an escape')
  t.same(parse('{"a\\u0000":1,"a\\ufffd":2}'), { 'a\ufffd': 2 }, 'the last of two equal keys wins')
  t.equal(cleanText('💻'), '💻')
})

t.test('__proto__ keys are dropped at every depth', async (t) => {
  for (const key of ['__proto__', '\\u005f_proto__', '__pr\\u006fto__', '__proto\\u005F_']) {
    const value = parse(`{"a":{"${key}":{"x":1},"b":[{"${key}":1}]},"c":1}`)
    t.equal(JSON.stringify(value), '{"a":{"b":[{}]},"c":1}', key)
  }
  t.same(parse('["__proto__"]'), ['__proto__'], 'as a value it is only text')
  t.notOk('x' in {}, 'nothing was polluted')
})

t.test('nesting is limited before anything is parsed', async (t) => {
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
  t.ok(parse(nested(128)))
  t.equal(
    codeOf(() => parse(nested(129))),
    'invalid_payload',
  )
  t.equal(
    codeOf(() => parse('{"a":'.repeat(500_000))),
    'invalid_payload',
  )
  t.ok(parse(`["${'['.repeat(1000)}\\"${'{'.repeat(1000)}"]`), 'brackets in strings do not count')
})

t.test('numbers that JSON cannot represent are replaced', async (t) => {
  t.same(parse('[1e400,-1E+999,1.5e3]'), [null, null, 1500])
  t.same(parse(`[${'9'.repeat(400)}]`), [null])
  t.same(parse('[NaN,-Infinity,{"a":Infinity},"NaN"]'), [null, null, { a: null }, 'NaN'])
  t.same(parse('["a\\"NaN",NaN]'), ['a"NaN', null])
  for (const text of ['[nan]', '[1NaN]', '[NaN NaN]', '{NaN:1}', '["NaN]', '[+Infinity]']) {
    t.equal(
      codeOf(() => parse(text)),
      'invalid_payload',
      text,
    )
  }
})

t.test('integers that name a group keep their digits, others are rounded', async (t) => {
  const read = (text: string, which?: 'ids' | 'requests' | 'all') =>
    parseJsonText(Buffer.from(text), Number.POSITIVE_INFINITY, which)
  const long = '1234567890123456789'
  t.strictSame(
    read(
      `{"properties":{"$group_key": ${long} ,"$groups":{"guild":${long},"a":-${long},"b":1,"c":"${long}"},"n":${long}}}`,
    ),
    {
      properties: {
        $group_key: long,
        $groups: { guild: long, a: `-${long}`, b: 1, c: long },
        n: Number(long),
      },
    },
  )
  const unchanged = [
    `{"$group_key":[${long}]}`,
    `{"$groups":{"a":{"b":${long}}},"b":${long}}`,
    `{"$group_key":${long}.0}`,
    `{"$group_key":${long}e3}`,
    '{"$group_key":9007199254740991}',
    `{"a":"\\"$group_key\\":${long},"}`,
    `["${long}\\\\",${long}]`,
  ]
  for (const text of unchanged) t.strictSame(read(text), JSON.parse(text), text)
  t.strictSame(read(`{"a":[${long},{"b":-${long}}],"c":1.5,"d":"x${long}"}`, 'all'), {
    a: [long, { b: `-${long}` }],
    c: 1.5,
    d: `x${long}`,
  })
  t.equal(read(` ${long} `, 'all'), long)
  t.strictSame(read(`{"\\u0024groups":{"a":${long}},"alia\\u0073":${long}}`), {
    $groups: { a: long },
    alias: long,
  })
  const request = `{"group_key":${long},"distinct_ids":[${long}],"value":${long},"n":[${long}],"properties":[{"value":${long}},{"value":[1,${long}]}],"payloads":{"n":${long}},"filters":{"payloads":{"true":{"n":[${long}]}}}}`
  t.strictSame(read(request, 'requests'), {
    group_key: long,
    distinct_ids: [long],
    value: Number(long),
    n: [Number(long)],
    properties: [{ value: long }, { value: [1, long] }],
    payloads: { n: Number(long) },
    filters: { payloads: { true: { n: [long] } } },
  })
})

t.test('integer ids beyond 2^53 keep their digits', async (t) => {
  const digits = '12345678901234567890'
  for (const key of ['distinct_id', '$distinct_id', '$anon_distinct_id', 'alias']) {
    t.same(parse(`{"a":1,"${key}" : ${digits}}`), { a: 1, [key]: digits })
  }
  t.same(parse(`[{"distinct_id":-${digits}\n}]`), [{ distinct_id: `-${digits}` }])
  t.same(parse('{"distinct_id":9007199254740991}'), { distinct_id: 9007199254740991 })
  t.same(parse('{"distinct_id":1234567890123456.5}'), { distinct_id: 1234567890123456.5 })
  t.same(parse(`{"distinct_id":${'1'.repeat(2_000_000)}}`), { distinct_id: null }, 'no id at all')
  t.equal(
    codeOf(() => parse(`{"distinct_id"${' '.repeat(2_000_000)}`)),
    'invalid_payload',
  )
  const quoted = JSON.stringify({ note: `{"distinct_id":${digits}}` })
  t.same(parse(quoted), JSON.parse(quoted), 'not inside of strings')
  t.equal(
    codeOf(() => parse(`{"distinct_id":0${digits}}`)),
    'invalid_payload',
  )
})

t.test('empty bodies, and bodies that are not events, are refused', async (t) => {
  for (const text of ['', ' \n', 'null', '0', 'false', '""', '{}', '[]', '-0']) {
    t.equal(
      codeOf(() => envelopeOf(text)),
      'no_data',
      text,
    )
  }
  for (const text of ['1', 'true', '"x"', '{', '{"a":1,}', "{'a':1}", '[1]]', 'undefined']) {
    t.equal(
      codeOf(() => envelopeOf(text)),
      'invalid_payload',
      text,
    )
  }
})

t.test('every shape of a body is accepted', async (t) => {
  t.match(envelopeOf('[{"event":"a","project_id":3},{}]'), {
    root: null,
    isBatch: true,
    projectId: 3,
    sentAt: undefined,
    isHistorical: false,
    events: [{ event: 'a' }, {}],
  })
  t.match(envelopeOf('{"batch":[1],"sent_at":"x","historical_migration":true,"project_id":"2"}'), {
    isBatch: true,
    isBatchMalformed: false,
    events: [1],
    projectId: '2',
    sentAt: 'x',
    isHistorical: true,
  })
  t.match(envelopeOf('{"event":"a","historical_migration":1}'), {
    isBatch: false,
    isHistorical: false,
  })
  t.same(checked(envelopeOf('{"batch":[]}')), [])
  for (const batch of ['null', '{}', '"x"', '1']) {
    t.equal(
      codeOf(() => checked(envelopeOf(`{"batch":${batch}}`))),
      'invalid_payload',
    )
  }
})

t.test('engage names every event and does not accept refused events', async (t) => {
  t.match(checked(envelopeOf('{"$token":"k","event":"x"}', true)), [{ event: '$identify' }])
  t.match(checked(envelopeOf('[{"a":1},{"event":"b"}]', true)), [
    { a: 1, event: '$identify' },
    { event: '$identify' },
  ])
  t.equal(
    codeOf(() => checked(envelopeOf('[{"a":1},{}]', true))),
    'invalid_payload',
  )
})

t.test('one bad element refuses the whole body and is named', async (t) => {
  const good = '{"event":"e"}'
  const bad: [string, RegExp][] = [
    ...(['null', '{}', '"x"', '1', '[]'] as const).map((text): [string, RegExp] => [
      text,
      /^Event 1 .*must/,
    ]),
    ['{"properties":"x"}', /^Event 1 .*'properties' must be object/],
    ['{"properties":[]}', /^Event 1 .*'properties' must be object/],
    ['{"uuid":"x"}', /^Event 1 .*'uuid' must be a UUID/],
    ['{"uuid":12}', /^Event 1 .*'uuid' must be a UUID/],
    ['{"uuid":{}}', /^Event 1 .*'uuid' must be a UUID/],
  ]
  for (const [text, detail] of bad) {
    const refusal = refusalOf(() => checked(envelopeOf(`[${good},${text},${good}]`)))
    t.match(refusal, { code: 'invalid_payload', attr: null, detail }, text)
  }
  t.match(refusalOf(() => checked(envelopeOf('{"uuid":"secret"}'))).detail, /^The event: 'uuid'/)
  t.notMatch(refusalOf(() => checked(envelopeOf('{"uuid":"secret"}'))).detail, /secret/)
})

t.test('fields of any type, and every form of a uuid', async (t) => {
  const uuids = [
    'null',
    '""',
    '"550e8400-e29b-41d4-a716-446655440000"',
    '"550E8400E29B41D4A716446655440000"',
    '"{550e8400-e29b-41d4-a716-446655440000}"',
    '"urn:uuid:550e8400-e29b-41d4-a716-446655440000"',
  ]
  for (const uuid of uuids) t.equal(checked(envelopeOf(`[{"uuid":${uuid}}]`)).length, 1, uuid)
  const odd = '{"event":[],"distinct_id":{},"timestamp":{},"$set":1,"$unset":"x","properties":null}'
  t.equal(checked(envelopeOf(odd)).length, 1)
})

const PERSONAL_KEYS = new Map<
  string,
  Partial<PersonalKeyAccess> & Pick<PersonalKeyAccess, 'projects'>
>([
  ['phx_all', { projects: 'all' }],
  ['phx_one', { projects: [1, 9] }],
  ['phx_sends', { projects: [1], scopes: ['person:read', 'event:write'] }],
  ['phx_reads', { projects: [1], scopes: ['event:read', 'project:write'] }],
])
const directory: ProjectDirectory = {
  projectByKey: (key) => (key === 'phc_1' ? { id: 1, apiKey: key, isIpAnonymized: false } : null),
  projectById: (id) => (id <= 2 ? { id, apiKey: `phc_${id}`, isIpAnonymized: false } : null),
  personalKey: (key) => {
    const access = PERSONAL_KEYS.get(key)
    return access === undefined ? null : { scopes: ['*'], ...access }
  },
}

function sourcesOf(
  text: string,
  other: Partial<KeySources> & { search?: string } = {},
): KeySources {
  const { search = '', ...rest } = other
  return {
    method: 'POST',
    query: readQuery(search),
    form: NO_FORM,
    envelope: envelopeOf(text),
    ...rest,
  }
}

t.test('the key is looked up in a fixed order of places', async (t) => {
  const all = '{"$token":"a","token":"b","api_key":"c","properties":{"token":"d"}}'
  t.equal(findKey(sourcesOf(all)), 'a')
  t.equal(findKey(sourcesOf('{"token":"b","api_key":"c"}')), 'b')
  t.equal(findKey(sourcesOf('{"token":"","api_key":0,"properties":{"token":"d"}}')), 'd')
  t.same(findKey(sourcesOf('{"api_key":{"x":1}}')), { x: 1 })
  t.equal(findKey(sourcesOf(all, { form: { ...NO_FORM, token: 'f' } })), 'f')
  t.equal(findKey(sourcesOf(all, { search: 'token=q' })), 'a', 'POST ignores the query')
  t.equal(findKey(sourcesOf(all, { search: 'api_key=p&token=q', method: 'GET' })), 'q')
  t.equal(findKey(sourcesOf(all, { search: 'api_key=p', method: 'GET' })), 'p')
})

t.test('keys of elements must agree, and are ignored if the root has a key', async (t) => {
  t.equal(findKey(sourcesOf('[{"a":1},null,{"token":"x"},{"api_key":"x"}]')), 'x')
  t.equal(findKey(sourcesOf('{"batch":[{"properties":{"token":"x"}}]}')), 'x')
  t.equal(findKey(sourcesOf('{"api_key":"r","batch":[{"token":"x"},{"token":"y"}]}')), 'r')
  t.equal(
    codeOf(() => findKey(sourcesOf('[{"token":"x"},{"token":"y"}]'))),
    'invalid_api_key',
  )
  t.equal(
    codeOf(() => findKey(sourcesOf('[{"token":{}},1,"x",{"event":"e"}]'))),
    'missing_api_key',
  )
  t.equal(
    codeOf(() => findKey(sourcesOf('{"batch":{"token":"x"}}'))),
    'missing_api_key',
  )
})

t.test('the project id is looked up in a fixed order of places', async (t) => {
  t.equal(findProjectId(sourcesOf('{"project_id":3}')), 3)
  t.equal(findProjectId(sourcesOf('[{"project_id":3}]')), 3)
  t.equal(findProjectId(sourcesOf('{"project_id":3}', { search: 'project_id=4' })), '4')
  t.equal(findProjectId(sourcesOf('{"a":3}', { form: { ...NO_FORM, projectId: '5' } })), '5')
  t.equal(findProjectId(sourcesOf('{"project_id":null}', { search: 'project_id=' })), undefined)
})

t.test('a key opens its own project only', async (t) => {
  const resolve = (key: unknown, id?: unknown): string => {
    const { code, attr } = refusalOf(() => resolveProject(key, id, directory))
    return attr === null ? code : `${code} ${attr}`
  }
  t.equal(resolveProject('phc_1', 'nonsense', directory).id, 1)
  t.equal(resolveProject('phx_one', 1, directory).id, 1)
  t.equal(resolveProject('phx_all', '2', directory).id, 2)
  for (const key of [1, {}, null, 'phc_1 ', 'phc_é', 'x'.repeat(65), 'a\n', 'nope']) {
    t.equal(resolve(key), 'invalid_api_key', JSON.stringify(key))
  }
  t.equal(resolve('phx_nope'), 'invalid_personal_api_key')
  t.equal(resolve('phx_one'), 'invalid_project project_id')
  t.equal(resolve('nope', 'abc'), 'invalid_project project_id')
  t.equal(resolve('phx_one', 1.5), 'invalid_project project_id')
  t.equal(resolve('phx_one', []), 'invalid_project project_id')
  t.equal(resolve('nope', 1), 'invalid_personal_api_key')
  t.equal(resolve('phx_one', 2), 'invalid_project project_id')
  t.equal(resolve('phx_one', 9), 'invalid_project project_id', 'the project was deleted')
  t.equal(resolveProject('phx_sends', 1, directory).id, 1)
  const { code, detail } = refusalOf(() => resolveProject('phx_reads', 1, directory))
  t.equal(code, 'invalid_personal_api_key')
  t.match(detail, /lacks the scope event:write/)
  t.equal(resolve('phx_reads'), 'invalid_project project_id', 'the project is looked up first')
  t.equal(
    resolve('phx_reads', 2),
    'invalid_personal_api_key',
    'the error reveals nothing about projects',
  )
})
