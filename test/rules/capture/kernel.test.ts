/**
 * Tests the WebAssembly kernel alone: the events that it recognizes, the contents of its cells, and the keys that it
 * evicts.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { propertiesOfCells } from '../../../src/rules/capture/kernel/cells.ts'
import { EventRecognizer } from '../../../src/rules/capture/kernel/recognize.ts'
import type { EventContext, NormalizedEvent } from '../../../src/rules/capture/types.ts'
import { atFullDepth } from '../../fixtures/random-depth.ts'

const NOW_MS = Date.UTC(2024, 0, 15, 12)
const CONTEXT: EventContext = {
  arrivedAtMs: NOW_MS,
  sentAtMs: null,
  isSentAtInvalid: false,
  ip: '',
  isIpAnonymized: false,
  isHistorical: false,
  propertiesBytesMax: 100_000,
  aiPropertiesBytesMax: 100_000,
}
let secret = 7n
const recognizer = new EventRecognizer(() => secret++)

function recognize(text: string, context: Partial<EventContext> = {}): NormalizedEvent | null {
  const bytes = Buffer.from(text)
  return recognizer.recognize(bytes, 0, bytes.length, { ...CONTEXT, ...context })
}

/** The contents of the cells. */
function properties(): Record<string, unknown> {
  return propertiesOfCells(recognizer.cells)
}

t.test('the compiled kernel matches its source', { skip: atFullDepth }, async (t) => {
  const folder = 'src/rules/capture/kernel'
  const file = join(t.testdir(), 'kernel.wasm')
  const words = [join('node_modules', 'assemblyscript', 'bin', 'asc.js'), `${folder}/assembly.ts`]
  const options = ['--config', `${folder}/asconfig.json`, '--outFile', file]
  execFileSync(process.execPath, [...words, ...options], {
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  const isSame = readFileSync(file).equals(readFileSync(`${folder}/kernel.wasm`))
  t.ok(isSame, 'run npm run build:kernel to compile the kernel again')
})

t.test('an ordinary event is described by its cells', async (t) => {
  const given = { a: 'x', n: 1.25, deep: { b: [1, 'ü'] }, $os: 'Linux', no: null, distinct_id: 'u' }
  const event = { event: 'e', properties: given, timestamp: '2024-01-15T11:00:00.250Z' }
  const found = recognize(JSON.stringify(event, null, 1), { ip: '203.0.113.7' })
  t.match(found, { name: 'e', distinctId: 'u', timestampMs: NOW_MS - 3_600_000 + 250 })
  t.same(properties(), { ...given, $ip: '203.0.113.7' })
  t.same(found?.automatic?.values.slice(0, found.automatic.count), ['Linux'])
})

t.test('times in the common form equal those of the calendar', async (t) => {
  for (let day = 0; day < 366 * 9; day += 1) {
    const iso = new Date(Date.UTC(1996, 1, 26) + day * 86_400_000 + day * 1001).toISOString()
    const found = recognize(`{"event":"e","distinct_id":"u","timestamp":"${iso}"}`)
    if (found?.timestampMs !== Date.parse(iso)) t.fail(iso)
  }
  t.equal(recognize('{"event":"e","distinct_id":"u","timestamp":"2023-02-29T00:00:00.000Z"}'), null)
})

const LEFT: Readonly<Record<string, string>> = {
  'no name': '{"distinct_id":"u"}',
  'a name that is a number': '{"event":1,"distinct_id":"u"}',
  'no id': '{"event":"e"}',
  'an id that is a number': '{"event":"e","distinct_id":1}',
  'a blank id': '{"event":"e","distinct_id":"  "}',
  'an id that is cut': `{"event":"e","distinct_id":"${'u'.repeat(201)}"}`,
  'a member twice': '{"event":"e","distinct_id":"u","event":"f"}',
  'a property twice': '{"event":"e","distinct_id":"u","properties":{"a":1,"a":2}}',
  'a key that is a number': '{"event":"e","distinct_id":"u","properties":{"1":1}}',
  'a key with an escape': '{"event":"e","distinct_id":"u","properties":{"\\u0061":1}}',
  $unset: '{"event":"e","distinct_id":"u","$unset":[]}',
  '$set that is no object': '{"event":"e","distinct_id":"u","$set":1}',
  '$set_once that is a list': '{"event":"e","distinct_id":"u","properties":{"$set_once":[]}}',
  '$set at both places': '{"event":"e","distinct_id":"u","$set":{},"properties":{"$set":{}}}',
  '$set without a person':
    '{"event":"e","distinct_id":"u","properties":{"$set":{},"$process_person_profile":false}}',
  '$set of a group': '{"event":"$groupidentify","distinct_id":"u","$set":{}}',
  '$identify without a person':
    '{"event":"$identify","distinct_id":"u","properties":{"$process_person_profile":false}}',
  'a profile that is a text':
    '{"event":"e","distinct_id":"u","properties":{"$process_person_profile":"x"}}',
  'a time that is none': '{"event":"e","distinct_id":"u","timestamp":"soon"}',
  'a time to come': '{"event":"e","distinct_id":"u","timestamp":"2025-01-01T00:00:00.000Z"}',
  'properties that are null': '{"event":"e","distinct_id":"u","properties":null}',
  'a cut text': '{"event":"e","distinct_id":"u',
  'something behind': '{"event":"e","distinct_id":"u"}}',
  nothing: '',
}
for (const [name, text] of Object.entries(LEFT)) {
  t.test(`${name}: left to the rules`, async (t) => {
    t.equal(recognize(text), null)
  })
}

t.test('person and group data is found in the cells', async (t) => {
  const text =
    '{"event":"$identify","distinct_id":"u","$set":{"a":1},"properties":{"$anon_distinct_id":"x","b":2,"$set_once":{"c":3}}}'
  const { $set, $set_once, $anon_distinct_id } = recognize(text)?.properties ?? {}
  t.same([$set, $set_once, $anon_distinct_id], [{ a: 1 }, { c: 3 }, 'x'])
  const others = recognize('{"event":"e","distinct_id":"u","properties":{"alias":"x"}}')?.properties
  t.same(Object.values(others ?? {}), [undefined, undefined, undefined])
})

t.test('an event that is too large is left to the rules', async (t) => {
  const text = `{"event":"e","distinct_id":"u","properties":{"a":"${'x'.repeat(1000)}"}}`
  t.not(recognize(text), null)
  t.equal(recognize(text, { propertiesBytesMax: 900 }), null)
  const larger = text.replace('xxx', 'x'.repeat(300_000))
  t.equal(recognize(larger, { propertiesBytesMax: 0 }), null)
})

t.test('if the key table is full, it starts empty with the next block', async (t) => {
  const { epoch } = recognizer.cells
  const event = (key: number) => `{"event":"e","distinct_id":"u","properties":{"key${key}":${key}}}`
  let recognized = 0
  for (let key = 0; key < 2000; key++) if (recognize(event(key)) !== null) recognized++
  t.ok(recognized > 1000 && recognized < 2000, `${recognized}`)
  t.equal(recognize(event(1999)), null)
  recognizer.beginBlock()
  t.not(recognizer.cells.epoch, epoch)
  t.not(recognize(event(1999)), null)
  t.same(properties(), { key1999: 1999 })
})
