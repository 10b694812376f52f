/**
 * Tests which parts of an event are stored, which are dropped, and what an event changes in its person.
 *
 * @lane quick
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import t from 'tap'
import type { JsonObject, OwnObject } from '../../../src/base/json.ts'
import { clientAddress } from '../../../src/rules/capture/address.ts'
import { elementsChain } from '../../../src/rules/capture/elements-chain.ts'
import {
  eventDistinctId,
  eventName,
  isEmptyValue,
  textOfId,
} from '../../../src/rules/capture/fields.ts'
import { parseJsonText } from '../../../src/rules/capture/json-text.ts'
import { normalizeEvent } from '../../../src/rules/capture/normalize.ts'
import type { EventContext, NormalizedEvent } from '../../../src/rules/capture/types.ts'
import { expandProperties } from '../../../src/rules/persons/automatic-properties.ts'
import { personUpdates } from '../../fixtures/persons/person-updates.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const CONTEXT: EventContext = {
  arrivedAtMs: Date.UTC(2024, 0, 15, 12),
  sentAtMs: null,
  ip: '203.0.113.7',
  isSentAtInvalid: false,
  isIpAnonymized: false,
  isHistorical: false,
  propertiesBytesMax: 0,
  aiPropertiesBytesMax: 0,
}
const LONE_SURROGATE = /[\ud800-\udfff]/u

function outcomeOf(event: JsonObject, context: Partial<EventContext> = {}): JsonObject {
  const bytes = Buffer.byteLength(JSON.stringify(event))
  const whole = { event: 'e', distinct_id: 'u', ...event }
  const outcome = normalizeEvent(whole, { ...CONTEXT, ...context }, bytes)
  const warnings = outcome.warnings.map((warning) => warning.type)
  return outcome.kind === 'drop'
    ? { drop: outcome.reason, warnings }
    : { ...outcome.event, warnings }
}

function normal(event: JsonObject, context: Partial<EventContext> = {}): NormalizedEvent {
  const outcome = normalizeEvent(
    { event: 'e', distinct_id: 'u', ...event },
    { ...CONTEXT, ...context },
    0,
  )
  if (outcome.kind === 'drop') throw new Error(`dropped: ${outcome.reason}`)
  return outcome.event
}

const propertiesOf = (properties: JsonObject, context: Partial<EventContext> = {}): JsonObject => {
  const { $ip: _, ...rest } = normal({ properties }, context).properties
  return rest
}

t.test('event names are cleaned and cut', async (t) => {
  for (const event of [undefined, null, '', 0, false, [], {}]) t.equal(eventName({ event }), null)
  t.equal(eventName({ event: ' ' }), ' ')
  t.equal(eventName({ event: 42 }), '42')
  t.equal(eventName({ event: true }), 'true')
  t.equal(eventName({ event: { b: 1, a: 2 } }), '{"b":1,"a":2}')
  t.equal(eventName({ event: `${'n'.repeat(199)}💻` }), `${'n'.repeat(199)}\ufffd`)
  t.equal(eventName({ event: `${'n'.repeat(198)}💻x` }), `${'n'.repeat(198)}💻`)
})

t.test('distinct_ids: fields, types, blanks and length', async (t) => {
  t.equal(eventDistinctId({ $distinct_id: 'a', distinct_id: 'b' }, { distinct_id: 'c' }), 'a')
  t.equal(eventDistinctId({ $distinct_id: null, distinct_id: 'b' }, { distinct_id: 'c' }), 'b')
  t.equal(eventDistinctId({}, { distinct_id: 0 }), '0')
  t.equal(
    eventDistinctId({ distinct_id: ' ' }, { distinct_id: 'c' }),
    null,
    'a blank value hides the next field',
  )
  t.equal(eventDistinctId({}, {}), null)
  t.equal(textOfId({ b: [{ d: 1, c: null }], a: 'é' }), '{"a":"é","b":[{"c":null,"d":1}]}')
  t.equal(textOfId(false), 'false')
  const long = { b: 'x', a: ['é'.repeat(500), { d: 1 }] }
  t.equal(textOfId(long), `{"a":["${'é'.repeat(193)}`)
  t.equal(textOfId('\u00a0\ufeff\n'), null)
  t.equal(textOfId(' é '), ' é ')
  t.equal(textOfId('a\0\ud83d'), 'a\ufffd\ufffd')
  t.equal(textOfId('💻'.repeat(201)), '💻'.repeat(200))
  t.equal(textOfId('💻'.repeat(150)), '💻'.repeat(150))
})

t.test('distinct_ids of any type become short, clean text, and stay the same text', async () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (id) => {
      const text = textOfId(id)
      if (text === null) return typeof id === 'string' && id.trim() === ''
      const isClean = [...text].length <= 200 && !LONE_SURROGATE.test(text) && !text.includes('\0')
      return isClean && textOfId(text) === text
    }),
    runsOf(500),
  )
})

t.test('a long distinct_id is cut from the full text of the value', async () => {
  const text = fc.string({ unit: fc.constantFrom('💻', 'a', '"', '\n'), maxLength: 300 })
  const value = fc.letrec((tie) => ({
    any: fc.oneof({ maxDepth: 3 }, text, fc.integer(), fc.array(tie('any')), tie('object')),
    object: fc.dictionary(fc.string({ unit: 'grapheme', maxLength: 300 }), tie('any')),
  }))
  fc.assert(
    fc.property(fc.array(value.any, { maxLength: 40 }), (id) => {
      const name = eventName({ event: id })
      const isNameCut = id.length === 0 || name === eventName({ event: JSON.stringify(id) })
      return isNameCut && textOfId(id) === textOfId(JSON.stringify(withSortedKeys(id)))
    }),
    runsOf(100),
  )
})

function withSortedKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSortedKeys)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  // Keys that look like integers would move to the front again.
  if (entries.some(([key]) => /^\d+$/.test(key))) fc.pre(false)
  return Object.fromEntries(entries.map(([key, member]) => [key, withSortedKeys(member)]))
}

t.test('empty values count as missing, whatever their prototype has', async (t) => {
  for (const value of [undefined, null, '', 0, -0, false, [], {}]) t.ok(isEmptyValue(value))
  for (const value of [' ', 1, true, [0], { a: undefined }, { constructor: 1 }]) {
    t.notOk(isEmptyValue(value))
  }
})

t.test('some events are not stored', async (t) => {
  t.match(outcomeOf({ event: '' }), { drop: 'no_event_name', warnings: [] })
  t.match(outcomeOf({ distinct_id: ' ' }), { drop: 'no_distinct_id', warnings: [] })
  for (const event of ['$snapshot', '$snapshot_items', '$performance_event', '$$heatmap']) {
    t.same(outcomeOf({ event }), { drop: 'ignored_event', warnings: [] })
  }
  for (const event of ['$identify', '$create_alias', '$merge_dangerously', '$groupidentify']) {
    t.same(outcomeOf({ event, properties: { $process_person_profile: false } }), {
      drop: 'personless_person_event',
      warnings: ['invalid_event_when_process_person_profile_is_false'],
    })
    t.notOk('drop' in outcomeOf({ event, properties: { $process_person_profile: true } }))
  }
  const message = { $$client_ingestion_warning_message: 'm'.repeat(5000) }
  const warned = normalizeEvent(
    { event: '$$client_ingestion_warning', distinct_id: 'u', properties: message },
    CONTEXT,
    0,
  )
  t.match(warned, { kind: 'drop', reason: 'client_ingestion_warning' })
  t.match(warned.warnings, [{ type: 'client_ingestion_warning', details: { distinct_id: 'u' } }])
  t.ok(JSON.stringify(warned.warnings).length < 1200, 'a long message is cut')
})

t.test(
  'the size of the properties is measured in bytes, and only if it may exceed the limit',
  async (t) => {
    const limit = { propertiesBytesMax: 100 }
    const fitting = { p: 'é'.repeat(46) }
    t.equal(Buffer.byteLength(JSON.stringify(fitting)), 100)
    t.notOk('drop' in outcomeOf({ properties: fitting, padding: 'x'.repeat(200) }, limit))
    const tooLarge = { drop: 'properties_too_large', warnings: ['message_size_too_large'] }
    t.same(outcomeOf({ properties: { p: `x${'é'.repeat(46)}` } }, limit), tooLarge)
    t.same(outcomeOf({ $set: { p: 'x'.repeat(100) } }, limit), tooLarge, 'merged $set counts')
    t.notOk('drop' in outcomeOf({ properties: { p: 'x'.repeat(101) } }, { propertiesBytesMax: 0 }))
  },
)

t.test('events of language models have a limit of their own, never a smaller one', async (t) => {
  const properties = { p: 'x'.repeat(200) }
  const isDropped = (event: string, propertiesBytesMax: number, aiPropertiesBytesMax: number) =>
    'drop' in outcomeOf({ event, properties }, { propertiesBytesMax, aiPropertiesBytesMax })
  t.notOk(isDropped('$ai_generation', 100, 1000))
  t.ok(isDropped('$ai_generation', 100, 150), 'beyond their own limit, too')
  t.ok(isDropped('$air', 100, 1000), 'another name')
  t.ok(isDropped('ai_generation', 100, 1000), 'another name')
  t.notOk(isDropped('$ai_trace', 1000, 100), 'the larger limit counts')
  t.notOk(isDropped('$ai_trace', 0, 100), 'no limit for any event')
  t.notOk(isDropped('$ai_trace', 100, 0), 'no limit for them')
})

t.test('unknown top-level fields are dropped, properties are kept', async (t) => {
  const event = normal({ type: 'x', api_key: 'k', uuid: '', properties: { token: 'k', a: [null] } })
  t.same(event.properties, { token: 'k', a: [null], $ip: '203.0.113.7' })
  t.same(normal({ properties: null }).properties, { $ip: '203.0.113.7' })
  t.same(propertiesOf({ token: 'phx_secret' }), { token: '[redacted]' })
})

t.test('$set, $set_once and $unset of both places are merged', async (t) => {
  const merged = normal({
    $set: { a: 'top' },
    $set_once: { c: 1 },
    $unset: { x: 1, y: 2 },
    properties: { $set: { a: 'inner', b: 'inner' }, $unset: ['x', 'z', 3] },
  }).properties
  t.same(merged['$set'], { a: 'top', b: 'inner' })
  t.same(merged['$set_once'], { c: 1 })
  t.same(merged['$unset'], ['x', 'z', 'y'])
  t.same(propertiesOf({ $set: 'x', $set_once: [1], $unset: 'y', k: 1 }), { k: 1 })
  t.same(normal({ $set: 'x', properties: { $set: { a: 1 } } }).properties['$set'], { a: 1 })
})

t.test('personless events lose their person and group data', async (t) => {
  const person = {
    $set: { a: 1 },
    $set_once: { b: 1 },
    $unset: ['c'],
    $group_0: 'g',
    $group_4: 'h',
  }
  const given = { ...person, $groups: { t: 'g' }, $group_5: 'x' }
  const kept = { $groups: { t: 'g' }, $group_5: 'x' }
  t.same(propertiesOf({ ...structuredClone(given), $process_person_profile: false }), {
    ...kept,
    $process_person_profile: false,
  })
  t.same(propertiesOf({ ...structuredClone(given), $cookieless_mode: true }), {
    ...kept,
    $cookieless_mode: true,
  })
  t.equal(normal({ properties: { $cookieless_mode: true } }).isPersonless, true)
  t.equal(
    normal({ $set: { a: 1 }, properties: { $process_person_profile: false } }).properties['$set'],
    undefined,
  )
  t.same(normal({ event: '$groupidentify', $set: { a: 1 } }).properties, { $ip: '203.0.113.7' })
})

t.test('$process_person_profile is off only if it is false', async (t) => {
  t.match(outcomeOf({ properties: { $process_person_profile: true } }), {
    isPersonless: false,
    warnings: [],
  })
  t.same(propertiesOf({ $process_person_profile: true }), {})
  for (const value of ['false', 0, null, {}]) {
    const outcome = outcomeOf({ properties: { $process_person_profile: value } })
    t.match(outcome, { isPersonless: false, warnings: ['invalid_process_person_profile'] })
    t.same(propertiesOf({ $process_person_profile: value }), {})
  }
})

t.test('the sender is derived from the request', async (t) => {
  const ip = (properties: JsonObject, context: Partial<EventContext> = {}): unknown =>
    normal({ properties }, context).properties['$ip']
  t.equal(ip({}), '203.0.113.7')
  t.equal(ip({ $ip: '8.8.8.8' }), '8.8.8.8')
  t.equal(ip({ $ip: '' }), '203.0.113.7')
  t.equal(ip({ $ip: null }), '203.0.113.7')
  t.equal(ip({}, { ip: '' }), undefined)
  t.equal(ip({ $ip: '8.8.8.8' }, { isIpAnonymized: true }), undefined)
  const sentAtMs = Date.UTC(2024, 0, 15, 13)
  t.same(propertiesOf({}, { sentAtMs }), { $sent_at: '2024-01-15T13:00:00.000Z' })
})

t.test('elements are moved out of the properties', async (t) => {
  t.match(normal({ properties: { $elements: [{ tag_name: 'a' }], $heatmap_data: 1 } }), {
    elementsChain: 'a:nth-child="0"nth-of-type="0"',
  })
  t.equal(normal({ properties: { $elements_chain: 'x:', $elements: [{}] } }).elementsChain, 'x:')
  t.equal(normal({ properties: { $elements_chain: 5, $elements: 'x' } }).elementsChain, '')
  t.same(propertiesOf({ $elements_chain: 5, $elements: 'x', $heatmap_data: null, k: 1 }), { k: 1 })
})

t.test('elements are stored as text', async (t) => {
  const element = {
    tag_name: 'a',
    $el_text: `"${'t'.repeat(500)}`,
    attr__class: 'z  b"c',
    attr__href: '/x"y',
    attr__id: 'i',
    'attr__data-n': 5,
    nth_child: 2,
    other: 'x',
  }
  const expected = [
    'a.bc.z:',
    'attr__class="z  b\\"c"',
    'attr__data-n="5"',
    'attr__href="/x\\"y"',
    'attr__id="i"',
    'attr_id="i"',
    'href="/x\\"y"',
    'nth-child="2"',
    'nth-of-type="0"',
    `text="\\"${'t'.repeat(399)}"`,
  ]
  t.equal(elementsChain([element, null, 'x']), expected.join(''))
  t.match(elementsChain([{ classes: ['b', 'a'] }, { tag_name: {} }]), /^\.a\.b:.*;:nth-child="0"/)
  t.equal(elementsChain([]), '')
  const many = Array.from({ length: 300_000 }, () => 'c')
  t.equal(
    elementsChain([{ classes: many }]).length,
    600_000 + ':nth-child="0"nth-of-type="0"'.length,
  )
})

t.test('automatic person properties are derived, not stored', async (t) => {
  const given = { $browser: 'B', utm_source: null, other: 1, $set: { $browser: 'explicit', x: 1 } }
  const { properties } = normal({ properties: structuredClone(given) })
  t.same(properties, { ...given, $ip: '203.0.113.7' })
  t.same(expandProperties(properties, 'e', false), {
    ...given,
    $ip: '203.0.113.7',
    $set: { $browser: 'explicit', x: 1, utm_source: null },
    $set_once: { $initial_browser: 'B', $initial_utm_source: null },
  })
  t.same(personUpdates(properties, 'e', false), {
    set: { $browser: 'explicit', x: 1, utm_source: null },
    setOnce: { $initial_browser: 'B', $initial_utm_source: null },
    unset: [],
  })
  t.same(properties, { ...given, $ip: '203.0.113.7' }, 'neither changes its argument')
})

t.test('$os_name is used if $os is missing, and servers have no system', async (t) => {
  const set = (properties: JsonObject): unknown => personUpdates(properties, 'e', false).set
  t.same(set({ $os_name: 'L' }), { $os: 'L' })
  t.same(set({ $os_name: 'L', $os: 'M' }), { $os: 'M' })
  t.same(set({ $is_server: true, $os: 'M', $os_version: 1, $browser: 'b' }), { $browser: 'b' })
  t.same(set({ $is_server: true, $os_name: 'L' }), {})
  t.same(set({ $is_server: 'true', $os: 'M' }), { $os: 'M' })
})

t.test('personless events and $groupidentify update no person', async (t) => {
  const properties = { $browser: 'B', $set: { a: 1 }, $unset: ['x'] }
  const nothing = { set: {}, setOnce: {}, unset: [] }
  t.same(personUpdates(properties, 'e', true), nothing)
  t.same(personUpdates(properties, '$groupidentify', false), nothing)
  t.same(expandProperties(properties, 'e', true), properties)
  t.same(personUpdates({ ...properties, $unset: ['x', 1] }, 'e', false).unset, ['x'])
})

t.test('expanding twice equals expanding once, and agrees with the updates', async () => {
  const key = fc.constantFrom(
    '$os',
    '$os_name',
    '$browser',
    'utm_source',
    '$is_server',
    'k',
    'toString',
  )
  const explicit = fc.dictionary(
    fc.constantFrom('$os', '$initial_os', 'utm_source', 'k'),
    fc.integer(),
  )
  const properties = fc.record(
    {
      plain: fc.dictionary(key, fc.oneof(fc.boolean(), fc.integer())),
      $set: explicit,
      $set_once: explicit,
    },
    { requiredKeys: ['plain'] },
  )
  fc.assert(
    fc.property(properties, fc.boolean(), ({ plain, ...rest }, isPersonless) => {
      const given: JsonObject = { ...plain, ...rest }
      const once = expandProperties(given, 'e', isPersonless)
      const twice = expandProperties(once, 'e', isPersonless)
      const updates = personUpdates(given, 'e', isPersonless)
      const isSameSet =
        isPersonless || JSON.stringify(updates.set) === JSON.stringify(once['$set'] ?? {})
      return isSameSet && JSON.stringify(once) === JSON.stringify(twice)
    }),
    runsOf(500),
  )
})

t.test('normalization never throws, and its result is clean and survives JSON', async () => {
  const key = fc.constantFrom(
    'event',
    'distinct_id',
    '$distinct_id',
    'properties',
    '$set',
    '$set_once',
    '$unset',
    'timestamp',
    'offset',
    'sent_at',
    '$process_person_profile',
    '$elements',
    '$elements_chain',
    '$ip',
    '$groups',
    'token',
    '$cookieless_mode',
    '__proto__',
    'constructor',
    '\ud83d',
  )
  const unit = fc.constantFrom('\ud83d', '\ude00', '\0', 'a', '$', '2', '-')
  const leaf = fc.oneof(
    fc.string({ unit, maxLength: 5 }),
    fc.constantFrom('$identify', '$set', 'e', '2024-01-01', null, true, false, 0, 1e300, -5),
  )
  const value = fc.letrec((tie) => ({
    any: fc.oneof({ maxDepth: 4 }, leaf, fc.array(tie('any'), { maxLength: 3 }), tie('object')),
    object: fc.dictionary(key, tie('any'), { maxKeys: 6 }),
  }))
  fc.assert(
    fc.property(value.object, fc.boolean(), (given, isIpAnonymized) => {
      const event = parseJsonText(Buffer.from(JSON.stringify(given))) as OwnObject
      const properties = event['properties']
      if (typeof properties !== 'object' || Array.isArray(properties)) delete event['properties']
      const outcome = normalizeEvent(
        { event: 'e', distinct_id: 'u', ...event },
        { ...CONTEXT, isIpAnonymized },
        0,
      )
      const text = JSON.stringify(outcome)
      const isClean = !/\\u0000|\\ud[89a-f]/.test(text) && !LONE_SURROGATE.test(text)
      if (outcome.kind === 'drop') return isClean
      const stored = outcome.event
      const again = JSON.stringify(JSON.parse(JSON.stringify(stored.properties)))
      return (
        isClean &&
        again === JSON.stringify(stored.properties) &&
        Number.isSafeInteger(stored.timestampMs) &&
        !(isIpAnonymized && stored.properties['$ip'] !== undefined)
      )
    }),
    runsOf(1000),
  )
})

t.test('addresses are normalized', async (t) => {
  const forwarded: [string, string][] = [
    ['1.2.3.4', '1.2.3.4'],
    [' 1.2.3.4 , 10.0.0.1', '1.2.3.4'],
    ['1.2.3.4:5555', '1.2.3.4'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['[::FFFF:1.2.3.4]:80', '1.2.3.4'],
    ['0000:0000:0000:0000:0000:ffff:7f00:0001', '127.0.0.1'],
    ['::ffff:7f00:1', '127.0.0.1'],
    ['0000:0000:0000:0000:0000:0000:0000:0001', '0000:0000:0000:0000:0000:0000:0000:0001'],
    ['2345:0425:2CA1:0000:0000:0567:5673:23b5', '2345:0425:2CA1:0000:0000:0567:5673:23b5'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['2345:425:2CA1:0:0:567:5673:23B5', '2345:425:2ca1::567:5673:23b5'],
    ['unknown', '9.9.9.9'],
    ['unknown, 203.0.113.7', '203.0.113.7'],
    ['unknown,-, ,for=1.1.1.1, 203.0.113.7 , 8.8.8.8', '203.0.113.7'],
    ['-', '9.9.9.9'],
    ['', '9.9.9.9'],
    [' , 1.2.3.4', '1.2.3.4'],
    [',,,', '9.9.9.9'],
    ['for=203.0.113.7', '9.9.9.9'],
    ['"203.0.113.7"', '9.9.9.9'],
    ['999.1.1.1', '9.9.9.9'],
    ['1.2.3', '9.9.9.9'],
    ['1.2.3.4.5', '9.9.9.9'],
    ['1.2.3.04', '9.9.9.9'],
    ['1..2.3', '9.9.9.9'],
    ['1.2.3.', '9.9.9.9'],
    ['0.0.0.0', '0.0.0.0'],
    ['255.255.255.255:1', '255.255.255.255'],
    ['256.1.1.1, [::1', '9.9.9.9'],
    ['fe80::1%eth0', '9.9.9.9'],
    ['[fe80::1%eth0]:80, 2001:db8::2', '2001:db8::2'],
    ['1::2::3', '9.9.9.9'],
    ['\u0000', '9.9.9.9'],
    [`${'x'.repeat(200)}, 1.2.3.4`, '1.2.3.4'],
    ['x'.repeat(5000), '9.9.9.9'],
  ]
  for (const [header, expected] of forwarded) {
    t.equal(clientAddress(header, '9.9.9.9', true), expected, header.slice(0, 50))
  }
  t.equal(clientAddress('1.2.3.4', '::ffff:9.9.9.9', false), '9.9.9.9')
  t.equal(clientAddress('', '', true), '')
  t.equal(clientAddress('unknown', '', true), '')
})

t.test('a name that was cut does not keep the long text in memory', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const cut = (): (string | null)[] =>
    Array.from({ length: 40 }, (_, index) =>
      eventName({ event: Buffer.alloc(1e6, `name ${index} `).toString() }),
    )
  collect()
  const before = process.memoryUsage().heapUsed
  const names = cut()
  collect()
  t.ok(process.memoryUsage().heapUsed - before < 10e6)
  t.equal(names[39]?.length, 200)
})
