/**
 * Tests large bodies that are parsed event by event. The result is the same as parsing them whole, wrong keys are
 * reported without reading the events, and no body creates more objects than the limits allow.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import { BODY_EVENTS_MAX, EVENT_VALUES_MAX } from '../../../src/base/limits.ts'
import type { ProjectDirectory } from '../../../src/rules/access/project-directory.ts'
import { acceptCapture, type CaptureKind } from '../../../src/rules/capture/accept.ts'
import { outlineOf } from '../../../src/rules/capture/body-outline.ts'
import { readQuery } from '../../../src/rules/capture/decode.ts'
import {
  checkEvents,
  type Envelope,
  outlinedEnvelope,
  parseEnvelope,
} from '../../../src/rules/capture/envelope.ts'
import { parseJsonText } from '../../../src/rules/capture/json-text.ts'
import { findKey } from '../../../src/rules/capture/key.ts'
import { LogBlockWriter } from '../../../src/rules/capture/log-block.ts'
import { Scanner } from '../../../src/rules/capture/scanner/scanner.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const PROJECT = { id: 7, apiKey: 'phc_known', isIpAnonymized: false }
const DIRECTORY: ProjectDirectory = {
  projectByKey: (key) => (key === PROJECT.apiKey ? PROJECT : null),
  projectById: (id) => (id === PROJECT.id ? PROJECT : null),
  personalKey: () => null,
}
const NO_FORM = {
  apiKey: undefined,
  token: undefined,
  compression: undefined,
  sentAt: undefined,
  underscore: undefined,
  projectId: undefined,
  beacon: undefined,
}
const KEY = `"api_key":"${PROJECT.apiKey}"`
const EVENT = '{"event":"e","distinct_id":"u"}'
/** Contains an escape that the parser has to repair, so the scanner does not accept the body. */
const ODD_EVENT = '{"event":"\\ud83d","distinct_id":"u"}'
const scanner = new Scanner()

function outcomeOf(action: () => unknown): unknown {
  try {
    return action()
  } catch (error) {
    if (error instanceof ServiceError) return error.code
    throw error
  }
}

function meaningOf(envelope: Envelope): unknown {
  const sources = { method: 'POST', query: readQuery(''), form: NO_FORM, envelope } as const
  const { projectId, sentAt, isHistorical } = envelope
  const key = outcomeOf(() => findKey(sources))
  const events = outcomeOf(() => [...checkEvents(envelope)])
  // A body that cannot be parsed is refused when the keys of the events are read, or after a wrong key.
  return events === 'invalid_payload' ? events : { projectId, sentAt, isHistorical, key, events }
}

interface Options {
  readonly kind?: CaptureKind
  readonly slowBytesMax?: number
  readonly checkTime?: () => void
}

/** Returns the number of accepted events, or the code of the refusal. */
function accept(text: string, { kind = 'capture', ...options }: Options = {}): unknown {
  const request = {
    kind,
    method: 'POST' as const,
    contentType: '',
    contentEncoding: '',
    query: '',
    address: '',
    arrivedAtMs: 0,
    body: Buffer.from(text),
  } as const
  const limits = { decodedBytesMax: 64 * 1024 ** 2, slowBytesMax: Infinity }
  const tools = { ...limits, outlinedBytesMax: Infinity, scanner, directory: DIRECTORY, ...options }
  const block = new LogBlockWriter(Buffer.alloc(1024))
  return outcomeOf(() => acceptCapture(request, tools, block).eventCount)
}

function repeated(unit: string, count: number): string {
  return `${unit},`.repeat(count).slice(0, -1)
}

t.test('a body means the same whole and event by event', async () => {
  const event = fc.constantFrom(
    EVENT,
    ODD_EVENT,
    '{}',
    'null',
    '[]',
    '{"a":[{"b":"]},"}]}',
    '{"token":"k"}',
    '{"x":NaN}',
    '{"distinct_id":12345678901234567890}',
    '{"api_key":"k","uuid":"x"}',
    '"a\\"]"',
    '{"a":1',
    '',
  )
  const list = fc.array(event, { maxLength: 4 }).map((events) => `[${events.join(' , ')}]`)
  const key = fc.constantFrom(
    'batch',
    'b\\u0061tch',
    'batch\\u0000',
    'api_key',
    'token',
    'sent_at',
    'event',
    'properties',
    'historical_migration',
    'project_id',
    '__proto__',
    '\\"batch',
  )
  const value = fc.oneof(
    list,
    fc.constantFrom('1', '"k"', 'true', 'null', '{"batch":[1]}', '-Infinity'),
  )
  const object = fc
    .array(fc.tuple(key, value), { maxLength: 5 })
    .map((members) => `{${members.map(([name, text]) => `"${name}" : ${text}`).join(',')}}`)
  const change = fc.tuple(
    fc.nat(200),
    fc.constantFrom('', ',', '[', ']', '{', '}', '"', ':', ' ', '\\'),
  )
  const body = fc.tuple(fc.oneof(list, object), fc.option(change)).map(([text, changed]) => {
    if (changed === null) return ` ${text}\n`
    return text.slice(0, changed[0]) + changed[1] + text.slice(changed[0] + 1)
  })
  fc.assert(
    fc.property(body, fc.boolean(), (text, isEngage) => {
      const json = Buffer.from(text)
      const whole = outcomeOf(() => meaningOf(parseEnvelope(json, { isEngage })))
      const outlined = outcomeOf(() => {
        const outline = outlineOf(json)
        return outline === null ? whole : meaningOf(outlinedEnvelope(outline, { isEngage }))
      })
      return JSON.stringify(outlined) === JSON.stringify(whole)
    }),
    runsOf(3000),
  )
})

t.test('a large irregular body is read event by event', async (t) => {
  const events = `${ODD_EVENT},${repeated(EVENT, 5000)}`
  t.equal(accept(`{${KEY},"batch":[${events}]}`), 5001, 'the events are in a batch')
  t.equal(accept(`{"batch":[${events}],${KEY}}`), 5001, 'the key comes after the events')
  t.equal(accept(`[{${KEY},"event":"e"},${events}]`), 5002, 'the first event of a list has the key')
  t.equal(accept(`[${events},{${KEY},"event":"e"}]`), 5002, 'the last event of a list has the key')
  t.equal(
    accept(`{${KEY},"event":"e","x":["\\ud83d",${repeated('1', 50_000)}]}`),
    1,
    'the body is a single event',
  )
  t.equal(accept(`{${KEY},"batch":[${events}]}`, { kind: 'engage' }), 5001)
  t.equal(accept(`{${KEY},"batch":[${events}]}`, { kind: 'session_recording' }), 0)
})

t.test('every fault of a large body is found', async (t) => {
  const many = repeated(EVENT, 5000)
  const code = 'invalid_payload'
  t.equal(accept(`{${KEY},"batch":[${many},{"event":tru}]}`), code, 'an event is not JSON')
  t.equal(accept(`{${KEY},"batch":[${many},null]}`), code, 'an element is not an event')
  t.equal(accept(`{${KEY},"batch":[${many},]}`), code, 'a comma follows the last element')
  t.equal(accept(`{${KEY},"batch":[${many}]`), code, 'the end is missing')
  t.equal(accept(`{${KEY},"batch":[${many}]}}`), code, 'there are too many closing brackets')
  t.equal(accept(`{${KEY},"batch":[${many},${'['.repeat(200)}`), code, 'the nesting is too deep')
  t.equal(accept(`{${KEY},"x":01,"batch":[${many}]}`), code, 'the root is wrong')
  t.equal(accept(`[{${KEY}},${many},{"token":"other"}]`), 'invalid_api_key', 'there are two keys')
})

t.test('keys are looked up before the events are parsed', async (t) => {
  const many = repeated('{"event":"\\ud83d"}', 10_000)
  // None of this is JSON, but it is never read.
  const broken = repeated('{"event":tru}', 10_000)
  t.equal(accept(`{"api_key":"phc_wrong","batch":[${broken}]}`), 'invalid_api_key')
  t.equal(accept(`[{"token":"phc_wrong"},${broken}]`), 'invalid_api_key')
  t.equal(accept(`{"batch":[${broken}]}`), 'missing_api_key', 'no part of the body can be a key')
  t.equal(accept(`[${many}]`), 'missing_api_key')
  t.equal(accept(`{"batch":[${many}]}`), 'missing_api_key')
  t.equal(accept(`[{${KEY}},${broken}]`, { kind: 'session_recording' }), 0, 'recordings end there')
  const limits = { slowBytesMax: 1000 }
  t.equal(accept(`{"api_key":"phc_wrong","batch":[${many}]}`, limits), 'invalid_api_key')
  t.equal(
    accept(`{${KEY},"batch":[${many}]}`, limits),
    'request_too_large',
    'the body is left to another thread',
  )
})

t.test('a body may hold as many events as 20 MiB of the smallest stored event', async (t) => {
  const smallest = '{"distinct_id":1}'
  const count = Math.floor((20 * 1024 ** 2) / (smallest.length + 1))
  t.ok(count <= BODY_EVENTS_MAX)
  const odd = `{${KEY},"batch":[${ODD_EVENT},${repeated(smallest, BODY_EVENTS_MAX)}]}`
  t.equal(accept(odd), 'request_too_large', 'the parser accepts the maximum')
  const regular = repeated('{"":0}', BODY_EVENTS_MAX)
  t.equal(
    accept(`{${KEY},"batch":[${regular}]}`),
    BODY_EVENTS_MAX,
    'the scanner accepts the maximum',
  )
  t.equal(
    accept(`{${KEY},"batch":[${regular},{"":0}]}`),
    'request_too_large',
    'one more is refused',
  )
})

t.test('the number of values of an event is limited, for parser and scanner', async (t) => {
  const wide = (count: number): string => `"properties":{"a":[${repeated('0', count)}]}`
  t.equal(accept(`{${KEY},"event":"e",${wide(EVENT_VALUES_MAX - 100)}}`), 1)
  const tooWide = wide(EVENT_VALUES_MAX + 1)
  t.equal(
    accept(`{${KEY},"event":"e",${tooWide}}`),
    'request_too_large',
    'the scanner applies the limit',
  )
  t.equal(
    accept(`{${KEY},"event":"\\ud83d",${tooWide}}`),
    'request_too_large',
    'the parser applies the limit',
  )
  t.equal(
    accept(`{${KEY},"batch":[${ODD_EVENT},{${tooWide}}]}`),
    'request_too_large',
    'the limit holds in a batch',
  )
  const half = `{"event":"e",${wide(EVENT_VALUES_MAX / 2)}}`
  t.equal(
    accept(`{${KEY},"batch":[${half},${half},${half}]}`),
    3,
    'the limit counts for each event',
  )
  t.equal(
    outcomeOf(() => parseJsonText(Buffer.from('[1,2,[3]]'), 2)),
    'request_too_large',
  )
})

t.test('parsing stops between two events when the time is over', async (t) => {
  let looks = 0
  const checkTime = (): void => {
    if (++looks === 3) throw new ServiceError('server_error', 'no time')
  }
  const body = `{${KEY},"batch":[${repeated(ODD_EVENT, 20_000)}]}`
  t.equal(accept(body, { checkTime }), 'server_error')
})
