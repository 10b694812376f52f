/**
 * Bodies that no correct client sends, against the built daemon. Each gets a clear 4xx or is accepted as the rules say,
 * no part of a refused body is stored, and memory stays bounded. A valid client on the same daemon is not affected.
 *
 * @lane all
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { PROJECT_KEY } from '../../fixtures/daemon.ts'
import { closeConnections } from '../../fixtures/exact-client.ts'
import {
  acceptBody,
  assertRefusal,
  badEvent,
  GoodClient,
  post,
  refuseAll,
  startTarget,
} from '../../fixtures/faults/hostile-client.ts'

const MEBIBYTE = 1024 ** 2
const LIMIT_BYTES = 20 * MEBIBYTE
/** The number of requests in flight. */
const AT_ONCE = 16

t.teardown(closeConnections)
t.setTimeout(300_000)

function bytes(...values: readonly number[]): Buffer {
  return Buffer.from(values)
}

t.test('bad bodies', async (t) => {
  const target = await startTarget(t)
  const good = new GoodClient(target)
  t.teardown(() => good.stop())

  await t.test('bodies that are not JSON or have the wrong shape are refused', async (t) => {
    const noData = ['', ' ', '\r\n\t', 'null', '0', 'false', '""', '{}', '[]']
    const invalid = ['1', '"x"', 'true', '{', '[', '{"a"', 'undefined', 'x', '<a/>', '{a:1}', '[,]']
    invalid.push(
      "{'a':1}",
      '{"a":1,}',
      '[1,]',
      '{"a":1}x',
      '{"a":1}{"b":2}',
      '{"a":01}',
      '{"a":+1}',
    )
    invalid.push(
      '{"a":.5}',
      '{"a":"\t"}',
      '{"a":"\\x"}',
      '{"a":"\\u12"}',
      '\\',
      '{"a":tru}',
      '//{}',
    )
    const shapes = ['null', '1', '"x"', 'true', '{}', '[null]', '[1]', '["x"]', '[[]]', '[{}]']
    shapes.push(`[{"event":"bad","distinct_id":"bad user"},null]`)
    const events = [
      badEvent('"x"'),
      badEvent('[1]'),
      badEvent('1'),
      badEvent('true'),
      badEvent('{},"uuid":"x"'),
    ]
    events.push(badEvent('{},"uuid":1'), badEvent('{},"uuid":{}'), badEvent('{},"uuid":[]'))
    await refuseAll(t, target, [
      ...noData.map((body) => ({ name: JSON.stringify(body), body, code: 'no_data' })),
      ...invalid.map((body) => ({ name: body, body, code: 'invalid_payload' })),
      ...events.map((body) => ({ name: body, body, code: 'invalid_payload' })),
      ...shapes.map((batch) => {
        const body = `{"api_key":"${PROJECT_KEY}","batch":${batch}}`
        return { name: body, body, code: 'invalid_payload' }
      }),
      { name: 'no key', body: '{"event":"bad","distinct_id":"u"}', code: 'missing_api_key' },
    ])
  })

  await t.test('invalid keys are refused', async (t) => {
    const keys = [
      '"phc_wrong"',
      `"${PROJECT_KEY} "`,
      `"${PROJECT_KEY.toUpperCase()}"`,
      '1',
      '{"a":1}',
    ]
    keys.push(
      '["x"]',
      'true',
      '"__proto__"',
      '"constructor"',
      `"${'k'.repeat(200_000)}"`,
      '"\\u0000"',
    )
    keys.push(`"${PROJECT_KEY}\\u0000"`, `"${PROJECT_KEY.slice(0, -1)}"`, '"größe"')
    await refuseAll(
      t,
      target,
      keys.map((key) => {
        const body = `{"api_key":${key},"event":"bad","distinct_id":"u"}`
        return { name: body.slice(0, 80), body, code: 'invalid_api_key' }
      }),
    )
  })

  await t.test('invalid UTF-8 is refused or replaced', async (t) => {
    const sequences = {
      'a lone byte': bytes(0xff),
      'a lone continuation': bytes(0x80),
      'a cut sequence': bytes(0xe2, 0x82),
      'an overlong slash': bytes(0xc0, 0xaf),
      'an overlong NUL': bytes(0xe0, 0x80, 0x80),
      'a surrogate': bytes(0xed, 0xa0, 0xbd),
      'beyond Unicode': bytes(0xf4, 0x90, 0x80, 0x80),
      'five bytes': bytes(0xf8, 0x88, 0x80, 0x80, 0x80),
    }
    const whole = badEvent('{"text":"@"}')
    const [before = '', after = ''] = whole.split('@')
    const invalid = Object.entries(sequences).flatMap(([name, sequence]) => [
      { name, body: Buffer.concat([Buffer.from(before), sequence, Buffer.from(after)]) },
      { name: `${name}, in front`, body: Buffer.concat([sequence, Buffer.from(whole)]) },
      { name: `${name}, behind`, body: Buffer.concat([Buffer.from(whole), sequence]) },
    ])
    invalid.push({ name: 'UTF-16', body: Buffer.from(whole, 'utf16le') })
    invalid.push({ name: 'UTF-16, marked', body: Buffer.from(`\ufeff${whole}`, 'utf16le') })
    invalid.push({ name: 'a bare NUL', body: Buffer.from(badEvent('{"text":"\0"}')) })
    invalid.push({ name: 'NULs behind', body: Buffer.from(`${whole}\0\0`) })
    await refuseAll(
      t,
      target,
      invalid.map((entry) => ({ ...entry, code: 'invalid_payload' })),
    )
  })

  await t.test('depth and size are limited', async (t) => {
    const deep = (open: string, close: string, levels: number): string =>
      badEvent(`{"a":${open.repeat(levels)}1${close.repeat(levels)}}`)
    const code = 'invalid_payload'
    await refuseAll(t, target, [
      { name: '100,000 brackets', body: '['.repeat(100_000), code },
      { name: '3,000,000 brackets', body: '['.repeat(3_000_000), code },
      { name: '5,000,000 brackets in gzip', body: gzipSync('['.repeat(5_000_000)), code },
      { name: '100,000 objects', body: '{"a":'.repeat(100_000), code },
      { name: 'closed brackets', body: deep('[', ']', 100_000), code },
      { name: 'closed objects', body: deep('{"a":', '}', 50_000), code },
      { name: 'one level too deep', body: deep('[', ']', 127), code },
      { name: '10,000,000 commas', body: `[${','.repeat(10_000_000)}]`, code },
      { name: '10,000,000 blanks', body: ' '.repeat(10_000_000), code: 'no_data' },
      // A number beyond the range of a double is read as null.
      { name: '20 MB of digits', body: '1'.repeat(LIMIT_BYTES), code: 'no_data' },
      { name: '20 MB of text', body: 'x'.repeat(LIMIT_BYTES), code },
      {
        name: '20 MB of one key',
        body: `{"${'k'.repeat(LIMIT_BYTES - 6)}":1}`,
        code: 'missing_api_key',
      },
      { name: 'a byte too many', body: 'x'.repeat(LIMIT_BYTES + 1), code: 'request_too_large' },
      { name: '60 MB', body: 'x'.repeat(60 * MEBIBYTE), code: 'request_too_large' },
    ])
    const allowed = deep('[', ']', 126).replace('"bad"', '"deep"')
    await acceptBody(target, '126 levels', '/e/', allowed)
    t.equal((await target.stored('deep')).length, 1)
  })

  await t.test('large bodies within the limits are accepted', async (t) => {
    const odd = (properties: string): string => badEvent(properties, 'large')
    const keys = (count: number, name: (index: number) => string): string =>
      `{${Array.from({ length: count }, (_, index) => `"${name(index)}":0`).join()}}`
    // Above the limit for properties, the answer is 200 and the event is dropped with a warning.
    const dropped = {
      'a string of 19 MB': odd(`{"a":"${'x'.repeat(19 * MEBIBYTE)}"}`),
      'a million keys': odd(keys(1_000_000, (index) => `k${index}`)),
      '200,000 keys like numbers': odd(keys(200_000, (index) => String(index * 7919))),
      'a key of 2 MB': odd(`{"${'k'.repeat(2 * MEBIBYTE)}":1}`),
    }
    for (const [name, body] of Object.entries(dropped)) {
      await acceptBody(target, name, '/capture/', body)
    }
    t.strictSame(await target.stored('large'), [])
    await acceptBody(target, 'a number of 2 MB', '/e/', odd(`{"a":${'1'.repeat(2 * MEBIBYTE)}}`))
    const [infinite, ...others] = await target.stored('large')
    t.strictSame(others, [])
    t.equal(infinite?.properties['a'], null, 'an infinite number is null')
    const tiny = Array.from({ length: 60_000 }, () => '{"event":"tiny","distinct_id":"u"}')
    const batch = `{"api_key":"${PROJECT_KEY}","batch":[${tiny.join()}]}`
    await acceptBody(target, '60,000 tiny events', '/batch/', batch)
    t.equal((await target.stored('tiny')).length, 60_000)
  })

  await t.test('any value in place of any field is handled', async (t) => {
    const values = [
      'null',
      'true',
      'false',
      '0',
      '-0',
      '-1',
      '1.5',
      '1e308',
      '1e400',
      '9007199254740993',
    ]
    values.push(
      '""',
      '" "',
      '"x"',
      '"\\u0000"',
      '"\\ud83d"',
      '[]',
      '[1]',
      '[null]',
      '{}',
      '{"polluted":1}',
      '[[[]]]',
    )
    const fields = [
      'api_key',
      'token',
      '$token',
      'project_id',
      'event',
      'distinct_id',
      '$distinct_id',
      'uuid',
    ]
    fields.push(
      'timestamp',
      'sent_at',
      'offset',
      'properties',
      '$set',
      '$set_once',
      '$unset',
      'batch',
      'type',
    )
    fields.push('historical_migration', 'context', '__proto__', 'constructor', 'toString')
    const inner = [
      '$groups',
      '$set',
      '$set_once',
      '$unset',
      '$ip',
      'token',
      'distinct_id',
      '$elements',
    ]
    inner.push(
      '$elements_chain',
      '$process_person_profile',
      '$ignore_sent_at',
      '__proto__',
      'constructor',
    )
    const event = '"event":"odd","distinct_id":"odd user"'
    const bodies = values.flatMap((value) => [
      ...fields.map((field) => `{"api_key":"${PROJECT_KEY}",${event},"${field}":${value}}`),
      ...fields.map(
        (field) => `{"api_key":"${PROJECT_KEY}","batch":[{${event},"${field}":${value}}]}`,
      ),
      ...inner.map((field) => badEvent(`{"${field}":${value}}`, 'odd')),
    ])
    const counts = new Map<number, number>()
    for (let start = 0; start < bodies.length; start += AT_ONCE) {
      const some = bodies.slice(start, start + AT_ONCE)
      const answers = await Promise.all(some.map((body) => post(`${target.url}/batch/`, body)))
      for (const [index, answer] of answers.entries()) {
        if (answer.status !== 200) assertRefusal(answer, some[index] ?? '')
        counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1)
      }
    }
    t.comment(
      `${bodies.length} bodies:`,
      [...counts].map(([status, count]) => `${count} x ${status}`).join(', '),
    )
    await target.settle()
    await acceptBody(target, 'a plain event', '/e/', badEvent('{}', 'plain'))
    const [plain] = await target.stored('plain')
    t.strictSame(plain?.properties, { $ip: '127.0.0.1' }, 'no prototype was changed')
  })

  await t.test('the valid client was not affected', async (t) => good.check(t))
})

t.test('values that are easily confused arrive unchanged', async (t) => {
  const target = await startTarget(t)
  const names = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'a\\u0000b']
  const batch = names.map(
    (name) => `{"event":"${name}","distinct_id":"${name}","properties":{"${name}":"${name}"}}`,
  )
  const odd =
    '{"a":-0,"b":1e400,"c":9007199254740993,"d":1,"d":2,"e":"\\ud83d","f":"\\u0000","g":NaN,' +
    '"h":-Infinity,"__proto__":{"polluted":true},"i":{"__proto__":{"polluted":true},"j":[{"__proto__":1}]}}'
  batch.push(`{"event":"odd","distinct_id":9007199254740993,"properties":${odd}}`)
  const body = `\ufeff{"api_key":"phc_wrong","api_key":"${PROJECT_KEY}","batch":[${batch.join()}]}`
  await acceptBody(target, 'odd values', '/batch/', body)
  for (const name of names) {
    const text = name.replace('\\u0000', '\ufffd')
    const [event, ...others] = await target.stored(text)
    t.strictSame(others, [])
    t.equal(event?.distinct_id, text)
    const own = text === '__proto__' ? [] : [[text, text]]
    const { $ip: _, ...properties } = event?.properties ?? {}
    t.strictSame(Object.entries(properties), own, text)
  }
  const [event] = await target.stored('odd')
  t.equal(event?.distinct_id, '9007199254740993', 'an integer keeps its digits')
  const { properties = {} } = event ?? {}
  t.match(properties, { d: 2, e: '\ufffd', f: '\ufffd', b: null, g: null, h: null })
  t.ok(!JSON.stringify(properties).includes('polluted'))
  t.strictSame(properties['i'], { j: [{}] })
  const { status, body: refusal } = await post(
    `${target.url}/e/`,
    '{"event":"x","distinct_id":"u"}',
  )
  t.equal(status, 401, 'later requests are handled as before')
  t.match(JSON.parse(refusal.toString()), { code: 'missing_api_key' })
})
