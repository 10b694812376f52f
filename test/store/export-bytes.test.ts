/**
 * Tests the parts of exports: JSON as bytes, and export lines that an import passes on without parsing.
 *
 * @lane quick
 */
import t from 'tap'
import { JsonBytes } from '../../src/base/json-bytes.ts'
import { ImportBatch } from '../../src/cli/lib/import-batch.ts'
import { findOwnLine, type OwnLine } from '../../src/rules/capture/own-line.ts'
import { Scanner } from '../../src/rules/capture/scanner/scanner.ts'
import { jsonPlaces } from '../../src/store/events/format/segment-values.ts'
import { Differences } from '../fixtures/differences.ts'

function written(write: (json: JsonBytes) => void): string {
  const json = new JsonBytes(8)
  write(json)
  return json.bytes.toString('utf8', 0, json.length)
}

t.test('numbers, times and texts are written as JSON.stringify writes them', (t) => {
  const numbers = [0, -0, 1, -1, 1.5, 0.1, 0.001, -0.25, 0.0001, 1e21, 1e-7, 5e-324, 1e300, 0.3]
  const large = [123456789012345, 999999999999999, 999999999999.999, 2 ** 53, 2 ** 51 / 1000]
  const drawn = Array.from({ length: 3000 }, (_, index) => (index * 7919 - 9e6) / 1000)
  const differences = new Differences()
  for (const number of [...numbers, ...large, ...drawn, Number.NaN, Number.POSITIVE_INFINITY]) {
    const found = written((json) => json.writeNumber(number))
    differences.equal(found, JSON.stringify(number), `the number ${number} is written`)
  }
  const usual = [0, -1, 1.7e12, 1_709_210_096_789, -62_167_219_200_000, 253_402_300_799_999]
  for (const timeMs of [...usual, -62_167_219_200_001, 253_402_300_800_000, 1.5, -1.5]) {
    const found = written((json) => json.writeTime(timeMs))
    differences.equal(found, new Date(timeMs).toISOString(), `the time ${timeMs} is written`)
  }
  t.throws(() => written((json) => json.writeTime(Number.NaN)), RangeError)
  for (const text of ['', 'a', 'é', '\u2028', 'x'.repeat(300), `${'x'.repeat(20)}😀`]) {
    const bytes = Buffer.from(text)
    const found = written((json) => json.writeText(text))
    const copied = written((json) => json.writeBytes(bytes, 0, bytes.length))
    differences.equal(found, text, `the text ${text} is written`)
    differences.equal(copied, text, `the bytes of ${text} are written`)
  }
  t.strictSame(differences.list(), [], 'every number, time and text')
  const uuid = Buffer.from('01890a5dac96774bbcceb302099a8057', 'hex')
  t.equal(
    written((json) => json.writeUuid(uuid, 0)),
    '"01890a5d-ac96-774b-bcce-b302099a8057"',
  )
  t.equal(
    written((json) => json.writeHex(uuid, 1, 3)),
    '"890a5d"',
  )
  t.end()
})

t.test('chunks are copied completely, whatever their length', (t) => {
  const source = new JsonBytes(8)
  const texts = Array.from({ length: 300 }, (_, length) => 'abcdefg'.repeat(50).slice(0, length))
  const chunks = texts.map((text) => {
    const start = source.beginChunk()
    source.writeText(text)
    source.endChunk(start)
    return start
  })
  const copied = written((json) => {
    for (const chunk of chunks) json.copyChunk(source, chunk)
  })
  t.equal(copied, texts.join(''))
  t.end()
})

t.test('values are found in the JSON text of their array', (t) => {
  const values = [1, 'a,b', '"', '\\', 'x\\"', [1, [2, ',']], { a: '}', b: [','] }, null, '', {}]
  const bytes = Buffer.from(JSON.stringify(values))
  const places = jsonPlaces(bytes, values.length)
  const found = values.map((_, index) =>
    bytes.toString('utf8', places[index], (places[index + 1] ?? 0) - 1),
  )
  t.same(
    found,
    values.map((value) => JSON.stringify(value)),
  )
  t.throws(() => jsonPlaces(bytes, values.length + 1), RangeError)
  t.throws(() => jsonPlaces(Buffer.from('["a'), 1), RangeError)
  t.equal(jsonPlaces(Buffer.from('[]'), 0).length, 1)
  t.end()
})

const UUID = '01890a5d-ac96-774b-bcce-b302099a8057'

function ownLine(properties: string, elements = ''): string {
  return (
    `{"id":7,"uuid":"${UUID}","event":"a \\"b\\"","distinct_id":"é",` +
    `"timestamp":"2025-01-02T03:04:05.678Z","created_at":"2025-01-02T03:04:06.000Z",` +
    `"person_mode":"full",${elements}"properties":${properties}}`
  )
}

/** Returns the events of a body made of these lines, and the rejected lines. */
function bodyOf(lines: readonly string[]): { events: unknown[]; faults: string[] } {
  const faults: string[] = []
  const context = { nowMs: Date.UTC(2026, 0, 1), propertiesBytesMax: 0, aiPropertiesBytesMax: 0 }
  const batch = new ImportBatch('{"api_key":"k","batch":[', context, (line, fault) => {
    faults.push(`${line}: ${fault}`)
  })
  for (const [index, line] of lines.entries()) {
    const block = Buffer.from(line)
    batch.takeLine(block, 0, block.length, index + 1)
  }
  const body: unknown = JSON.parse(batch.prove(new Scanner()).toString())
  return { events: (body as { batch: unknown[] }).batch, faults }
}

const EVENT = {
  uuid: UUID,
  event: 'a "b"',
  distinct_id: 'é',
  timestamp: '2025-01-02T03:04:05.678Z',
}

t.test('lines of an export are passed on unchanged, with elements in the properties', (t) => {
  const chain = '"elements_chain":"a:href=\\"/\\"",'
  const lines = [
    ownLine('{"x":1}'),
    ownLine('{}', chain),
    `${ownLine('{"x":{"y":[2]}}', chain)}\r`,
    ownLine('{"$elements_chain":"kept"}', chain),
    '',
    '  ',
  ]
  const $elements_chain = 'a:href="/"'
  t.same(bodyOf(lines), {
    events: [
      { ...EVENT, properties: { x: 1 } },
      { ...EVENT, properties: { $elements_chain } },
      { ...EVENT, properties: { x: { y: [2] }, $elements_chain } },
      { ...EVENT, properties: { $elements_chain: 'kept' } },
    ],
    faults: [],
  })
  t.end()
})

t.test('a line that only resembles an export line does not affect others', (t) => {
  const good = ownLine('{"x":1}')
  const event = { ...EVENT, properties: { x: 1 } }
  const cut = ownLine('{"x":[1}')
  const two = `${good},${ownLine('{"y":2}')}`
  t.same(bodyOf([good, cut, two, good]), {
    events: [event, event],
    faults: ['2: it is not a JSON object', '3: it is not a JSON object'],
  })
  const lone = bodyOf([ownLine('{"x":"\\ud83d"}'), good])
  // As the daemon reads such a text.
  t.same(lone, { events: [{ ...EVENT, properties: { x: '\ufffd' } }, event], faults: [] })
  t.end()
})

t.test('other lines are left to the parser', (t) => {
  const found: OwnLine = { headStart: 0, headEnd: 0, chainStart: 0, chainEnd: 0, tailStart: 0 }
  const isOwn = (line: string) => findOwnLine(Buffer.from(line), 0, Buffer.byteLength(line), found)
  const own = ownLine('{"x":1}')
  t.ok(isOwn(own))
  const others = [
    own.replace('"id":7,', ''),
    own.replace('"id":7', '"id":"7"'),
    own.replace(UUID, 'short'),
    own.replace('"event":"a \\"b\\""', '"event":""'),
    own.replace('05.678Z', '05.678'),
    own.replace('"full",', '"full","more":1,'),
    own.replace('"properties":{"x":1}', '"properties":"{}"'),
    own.slice(0, -1),
    own.slice(0, 60),
    '{"id":',
    '',
  ]
  for (const line of others) t.notOk(isOwn(line), line)
  t.end()
})
