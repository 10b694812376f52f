/**
 * Compares the scanner with JSON.parse: any body that the scanner reports as regular must be JSON with the reported
 * shape, and must contain exactly the reported events. The scanner must leave any other body to the slower parser.
 *
 * @lane quick
 */
import { isUtf8 } from 'node:buffer'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { parseUuid } from '../../../src/base/ids.ts'
import { Scanner } from '../../../src/rules/capture/scanner/scanner.ts'
import { Differences } from '../../fixtures/differences.ts'
import { atFullDepth, roundsOf, runsOf } from '../../fixtures/random-depth.ts'

const scanner = new Scanner()

function scan(body: unknown): boolean {
  return scanner.scan(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)))
}

function events(): { readonly text: string; readonly uuid: Buffer | null }[] {
  const table = Buffer.alloc(scanner.eventCount * 24)
  scanner.copyTable(table, 0)
  const found = []
  for (let entry = 0; entry < table.length; entry += 24) {
    const start = table.readUInt32LE(entry)
    const word = table.readUInt32LE(entry + 4)
    const length = word & 0x7fffffff
    const body = Buffer.alloc(length)
    scanner.copyBody(body, 0, start, start + length)
    const uuid = word >= 0x80000000 ? table.subarray(entry + 8, entry + 24) : null
    found.push({ text: body.toString(), uuid })
  }
  return found
}

const EVENT = {
  event: 'e',
  distinct_id: 'u',
  properties: { a: [1, 'x', null, true, { b: -1.5e3 }] },
}

t.test('the compiled scanner matches its source', { skip: atFullDepth }, async (t) => {
  const folder = 'src/rules/capture/scanner'
  const file = join(t.testdir(), 'scanner.wasm')
  const words = [join('node_modules', 'assemblyscript', 'bin', 'asc.js'), `${folder}/assembly.ts`]
  const options = ['--config', `${folder}/asconfig.json`, '--outFile', file]
  execFileSync(process.execPath, [...words, ...options], {
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  const isSame = readFileSync(file).equals(readFileSync(`${folder}/scanner.wasm`))
  t.ok(isSame, 'run npm run build:scanner to compile the scanner again')
})

t.test('a batch is cut into its events, with key, send time and uuids', async (t) => {
  const uuid = '0190a6a1-2B3c-7d4e-8f50-0123456789AB'
  const batch = [
    EVENT,
    { ...EVENT, uuid },
    { uuid: null, event: 'größe 💻' },
    { uuid: '', event: 'x' },
  ]
  const body = {
    historical_migration: true,
    api_key: 'phc_a',
    batch,
    sent_at: '2024-01-01T00:00:00Z',
  }
  t.ok(scan(JSON.stringify(body, null, 2)))
  t.equal(scanner.key, 'phc_a')
  t.equal(scanner.sentAt, '2024-01-01T00:00:00Z')
  t.equal(scanner.isHistorical, true)
  t.same(
    events().map((event) => JSON.parse(event.text)),
    batch,
  )
  t.same(
    events().map((event) => event.uuid),
    [null, Buffer.from(parseUuid(uuid) ?? []), null, null],
  )
})

t.test('a single event is the whole root', async (t) => {
  t.ok(scan({ token: 'phc_b', sent_at: 1700000000, ...EVENT }))
  t.equal(scanner.eventCount, 1)
  t.equal(scanner.key, 'phc_b')
  t.equal(scanner.sentAt, 1700000000)
  t.equal(scanner.isHistorical, false)
  t.same(JSON.parse(events()[0]?.text ?? ''), { token: 'phc_b', sent_at: 1700000000, ...EVENT })
})

t.test('the key with the highest rank wins, and empty keys do not count', async (t) => {
  t.ok(scan({ api_key: 'a', $token: 'c', token: 'b', batch: [] }))
  t.equal(scanner.key, 'c')
  t.equal(scanner.eventCount, 0)
  t.ok(scan({ $token: '', token: null, api_key: 'a', batch: [EVENT] }))
  t.equal(scanner.key, 'a')
})

const LEFT_TO_THE_SCHEMAS: Readonly<Record<string, string>> = {
  'an array root': '[{"event":"e","api_key":"k"}]',
  'no key': '{"event":"e"}',
  'an empty key': '{"api_key":"","event":"e"}',
  'a key that is a number': '{"api_key":1,"event":"e"}',
  'a key with an escape': '{"api_key":"\\u0061","event":"e"}',
  'the key twice': '{"api_key":"a","api_key":"b","event":"e"}',
  project_id: '{"api_key":"a","project_id":1,"event":"e"}',
  'an empty root': '{}',
  'an empty event': '{"api_key":"a","batch":[{}]}',
  'a null event': '{"api_key":"a","batch":[null]}',
  'a batch that is an object': '{"api_key":"a","batch":{}}',
  'the batch twice': '{"api_key":"a","batch":[],"batch":[]}',
  'properties that are a list': '{"api_key":"a","event":"e","properties":[]}',
  'properties that are text': '{"api_key":"a","batch":[{"properties":"x"}]}',
  'a uuid that is a number': '{"api_key":"a","event":"e","uuid":1}',
  'a uuid without hyphens': '{"api_key":"a","event":"e","uuid":"0190a6a12b3c7d4e8f500123456789ab"}',
  'a uuid with a wrong digit':
    '{"api_key":"a","event":"e","uuid":"0190a6a1-2b3c-7d4e-8f50-0123456789ag"}',
  __proto__: '{"api_key":"a","event":"e","properties":{"__proto__":1}}',
  'a key with an escape inside': '{"api_key":"a","event":"e","properties":{"\\u005f":1}}',
  'a NUL': '{"api_key":"a","event":"\\u0000"}',
  'a lone high surrogate': '{"api_key":"a","event":"\\ud83d"}',
  'a lone low surrogate': '{"api_key":"a","event":"\\ude00"}',
  'a reversed pair': '{"api_key":"a","event":"\\ude00\\ud83d"}',
  'an integer beyond 2^53': '{"api_key":"a","event":"e","distinct_id":9007199254740993}',
  'a number that overflows': '{"api_key":"a","event":"e","properties":{"a":1e400}}',
  NaN: '{"api_key":"a","event":"e","properties":{"a":NaN}}',
  'a trailing comma': '{"api_key":"a","event":"e",}',
  'a leading zero': '{"api_key":"a","event":"e","properties":{"a":01}}',
  'a bare minus': '{"api_key":"a","event":"e","properties":{"a":-}}',
  'a raw line break in a text': '{"api_key":"a","event":"a\nb"}',
  'an unknown escape': '{"api_key":"a","event":"\\x"}',
  'junk behind the end': '{"api_key":"a","event":"e"}x',
  'a cut text': '{"api_key":"a","event":"e',
  nothing: '',
  'a byte order mark': '\ufeff{"api_key":"a","event":"e"}',
}
for (const [name, body] of Object.entries(LEFT_TO_THE_SCHEMAS)) {
  t.test(`${name}: left to the schemas`, async (t) => {
    t.notOk(scan(body))
  })
}

t.test('128 open containers are regular, 129 are not', async (t) => {
  const nested = (depth: number): string =>
    `{"api_key":"a","event":"e","properties":{"p":${'['.repeat(depth)}${']'.repeat(depth)}}}`
  t.ok(scan(nested(126)))
  t.notOk(scan(nested(127)))
  t.notOk(scan('['.repeat(100_000)))
  t.notOk(scan(`{"a":`.repeat(100_000)))
})

t.test('a body of 20 MiB and one of many tiny events fit', async (t) => {
  t.ok(scan({ api_key: 'a', event: 'e', properties: { p: 'x'.repeat(20 * 1024 * 1024) } }))
  t.ok(scan(`{"api_key":"a","batch":[${'{"a":1},'.repeat(400_000)}{"a":1}]}`))
  t.equal(scanner.eventCount, 400_001)
  t.ok(scan({ api_key: 'a', event: 'e' }), 'a small body after a large one is scanned')
})

t.test('a regular body is read as JSON.parse reads it', async (t) => {
  const names = fc.constantFrom('event', 'uuid', 'properties', 'sent_at', 'x', 'batch', 'token')
  const value = fc.jsonValue({ maxDepth: 3 })
  const odd = fc.dictionary(fc.oneof(names, fc.string()), value, { maxKeys: 5 })
  const usual = fc.record(
    {
      event: fc.string({ unit: 'grapheme' }),
      uuid: fc.uuid(),
      properties: fc.dictionary(fc.string(), value),
      x: value,
    },
    { requiredKeys: ['event'] },
  )
  const event = fc.oneof({ weight: 4, arbitrary: usual }, odd)
  const root = fc.record({
    api_key: fc.constantFrom<unknown>('phc_a', 'phc_b', 'phc_c', '', 3),
    batch: fc.oneof({ weight: 5, arbitrary: fc.array(event, { maxLength: 4 }) }, value),
    sent_at: fc.constantFrom<unknown>('2024-01-01', 1700000000, null, {}),
    extra: fc.string(),
  })
  let regularCount = 0
  const differences = new Differences()
  fc.assert(
    fc.property(fc.oneof(root, event), fc.nat({ max: 4 }), (body, indent) => {
      const text = JSON.stringify(body, null, indent)
      if (!scan(text)) return
      regularCount++
      const parsed = JSON.parse(text) as Record<string, unknown>
      const expected = 'batch' in parsed ? parsed['batch'] : [parsed]
      const found = events().map((event): unknown => JSON.parse(event.text))
      differences.same(found, expected, text)
    }),
    runsOf(3000),
  )
  t.strictSame(differences.list(), [], 'the events are those of JSON.parse')
  t.ok(regularCount > roundsOf(100), 'the sample holds regular bodies')
})

t.test('a regular body with one byte changed is refused or is still JSON', async () => {
  const body = Buffer.from(
    JSON.stringify({ api_key: 'phc_a', batch: [EVENT, EVENT], sent_at: '2024-01-01T00:00:00Z' }),
  )
  fc.assert(
    fc.property(fc.nat({ max: body.length - 1 }), fc.nat({ max: 255 }), (position, byte) => {
      const changed = Buffer.from(body)
      changed[position] = byte
      if (isUtf8(changed) && scanner.scan(changed)) JSON.parse(changed.toString())
    }),
    runsOf(5000),
  )
})
