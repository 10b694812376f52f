/**
 * Tests how long texts are stored: groups of their own in chunks of LZ4 blocks, compared with a decoder in TypeScript;
 * damaged chunks; and stores whose long texts an older version has compressed with Brotli.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packTexts, unpackTexts } from '../../src/store/events/format/lz4/lz4.ts'
import {
  decodeGroup,
  encodeGroup,
  encodeTexts,
} from '../../src/store/events/format/segment-format.ts'
import { SegmentTables } from '../../src/store/events/format/segment-tables.ts'
import { DamagedRecordError } from '../../src/store/faults.ts'
import { seal, unseal } from '../../src/store/lmdb/codec.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES } from '../../src/store/lmdb/keys.ts'
import { all, BASE, NO_LIMITS, START_MS } from '../fixtures/analytics/scan-comparison.ts'
import { Dice } from '../fixtures/dice.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { atFullDepth, roundsOf, seedOf } from '../fixtures/random-depth.ts'

const KIB = 1024
const CHUNK_BYTES = KIB * KIB
const METHOD_RAW = 0
const METHOD_BROTLI = 1
const METHOD_TEXTS = 2

const dice = new Dice(seedOf(53))

/** The words of a text, so that it can be searched and compresses like a text. */
const WORDS = [
  'The',
  'agent',
  'called',
  'a',
  'tool',
  'with',
  'grüße',
  '"quotes"',
  '\n',
  'and',
  'then',
]

function textOf(index: number): string {
  const words = dice.list(4000, () => dice.pick(WORDS)).join(' ')
  return index % 3 === 0 ? `${words} Needle ${index}` : words
}

/** Returns bytes of runs, copies from any distance, and noise. */
function randomBytes(length: number): Buffer {
  const bytes = Buffer.alloc(length)
  let at = 0
  while (at < length) {
    const run = Math.min(length - at, 1 + dice.below(dice.pick([4, 20, 300, 5000])))
    const distance = 1 + dice.below(Math.min(at, dice.pick([3, 20, 70_000])) || 1)
    const kind = at === 0 ? 0 : dice.below(3)
    const value = dice.below(256)
    for (let end = at + run; at < end; at++) {
      bytes[at] = kind === 0 ? dice.below(256) : kind === 1 ? value : (bytes[at - distance] ?? 0)
    }
  }
  return bytes
}

/**
 * Decodes one block as the description of the format says: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
 */
function decodeBlock(block: Uint8Array): Buffer {
  const out: number[] = []
  let at = 0
  const lengthOf = (nibble: number): number => {
    let length = nibble
    if (nibble < 15) return length
    for (let more = 255; more === 255; length += more) more = block[at++] ?? 0
    return length
  }
  while (at < block.length) {
    const token = block[at++] ?? 0
    const literals = lengthOf(token >> 4)
    for (let count = 0; count < literals; count++) out.push(block[at++] ?? 0)
    if (at >= block.length) break
    const offset = (block[at] ?? 0) + (block[at + 1] ?? 0) * 256
    at += 2
    const length = lengthOf(token & 15) + 4
    for (let count = 0; count < length; count++) out.push(out[out.length - offset] ?? 0)
  }
  return Buffer.from(out)
}

/** Decodes the chunks of packed texts with the decoder above. */
function decodeChunks(packed: Buffer, bytes: number): Buffer {
  const parts: Uint8Array[] = []
  let left = bytes
  for (let at = 0; at < packed.length; ) {
    const stored = packed.readUInt32LE(at)
    const chunk = packed.subarray(at + 4, at + 4 + stored)
    parts.push(stored === Math.min(left, CHUNK_BYTES) ? chunk : decodeBlock(chunk))
    left -= CHUNK_BYTES
    at += 4 + stored
  }
  return Buffer.concat(parts)
}

t.test('packed texts unpack to the same bytes, also with another decoder', (t) => {
  const wrong: string[] = []
  const tryBytes = (bytes: Buffer, what: string): void => {
    for (const isSmall of [false, true]) {
      const packed = packTexts(bytes, isSmall)
      if (!unpackTexts(packed, bytes.length).equals(bytes)) wrong.push(what)
      if (!decodeChunks(packed, bytes.length).equals(bytes)) wrong.push(`${what}, other decoder`)
    }
  }
  for (let length = 1; length < 100; length++) {
    tryBytes(Buffer.alloc(length, 'x'), `${length} x`)
    tryBytes(randomBytes(length), `${length} random bytes`)
  }
  for (let round = 0; round < roundsOf(600, 60); round++) {
    const length = dice.between(100, dice.pick([300, 3000, 90_000]))
    tryBytes(randomBytes(length), `round ${round}`)
  }
  for (const length of [CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES + 77]) {
    tryBytes(randomBytes(length), `${length} bytes`)
  }
  t.strictSame(wrong, [])
  t.end()
})

t.test('every distance and length of a copy is unpacked', (t) => {
  const wrong: string[] = []
  for (let distance = 1; distance < 40; distance++) {
    for (const length of [4, 5, 8, 15, 16, 17, 18, 19, 20, 33, 300]) {
      // Literals, a copy, and five last literals.
      const literals = randomBytes(40)
      const rest = length - 4
      const more = rest < 15 ? [] : rest - 15 < 255 ? [rest - 15] : [255, rest - 270]
      const copy = Buffer.from([0xf0 + Math.min(rest, 15), 25, ...literals, distance, 0, ...more])
      const block = Buffer.concat([copy, Buffer.from([0x50, 1, 2, 3, 4, 5])])
      const expected = decodeBlock(block)
      const head = Buffer.alloc(4)
      head.writeUInt32LE(block.length)
      const packed = Buffer.concat([head, block])
      // A block as long as its content would not be a block.
      if (block.length >= expected.length) continue
      if (!unpackTexts(packed, expected.length).equals(expected))
        wrong.push(`${distance} ${length}`)
    }
  }
  t.strictSame(wrong, [])
  t.end()
})

t.test('damaged chunks are refused, or have as many bytes as before', (t) => {
  const bytes = randomBytes(CHUNK_BYTES + 20_000)
  const packed = packTexts(bytes, true)
  const wrong: unknown[] = []
  let refused = 0
  const rounds = roundsOf(1000, 200)
  for (let round = 0; round < rounds; round++) {
    const damaged = Buffer.from(packed)
    // Most positions are those of lengths and distances.
    for (let count = dice.between(1, 3); count > 0; count--) {
      damaged[dice.below(dice.pick([8, 300, damaged.length]))] = dice.below(256)
    }
    try {
      const found = unpackTexts(damaged, bytes.length)
      if (found.length !== bytes.length) wrong.push(found.length)
    } catch (cause) {
      refused++
      if (!(cause instanceof RangeError)) wrong.push(cause)
    }
  }
  t.strictSame(wrong, [])
  t.ok(refused > rounds / 20, `${refused} refused`)
  t.ok(unpackTexts(packed, bytes.length).equals(bytes), 'damage leaves no trace in the memory')
  for (const length of [0, 3, 4, 5, 1000, packed.length - 1]) {
    t.throws(() => unpackTexts(packed.subarray(0, length), bytes.length), RangeError)
  }
  t.end()
})

t.test('the number of bytes before compression is the limit of unpacking', (t) => {
  const bytes = Buffer.from(dice.list(150, textOf).join(''))
  t.ok(bytes.length > 2 * CHUNK_BYTES)
  const packed = packTexts(bytes, true)
  const others = [0, 1, bytes.length - 1, bytes.length + 1, bytes.length * 2, 2 ** 32 - 1]
  for (const other of others) t.throws(() => unpackTexts(packed, other), RangeError, `${other}`)
  const [head, content] = encodeTexts(bytes, 1)
  t.equal(head[0], METHOD_TEXTS)
  head.writeUInt32LE(2 ** 32 - 1, 1)
  t.throws(() => decodeGroup(Buffer.concat([head, content])), RangeError, 'a group of 4 GiB')
  t.end()
})

t.test('a group is stored in the form that suits it, and every form is read', (t) => {
  const text = Buffer.from(textOf(1))
  const repetition = Buffer.alloc(8 * CHUNK_BYTES, 'x')
  const noise = Buffer.from(dice.list(50_000, () => dice.below(256)))
  const groups = [
    encodeTexts(text, 0),
    encodeTexts(text, 1),
    encodeTexts(repetition, 1),
    encodeTexts(noise, 0),
    encodeGroup(text, 1),
  ]
  const methods = groups.map(([head]) => head[0])
  t.strictSame(methods, [METHOD_TEXTS, METHOD_TEXTS, METHOD_BROTLI, METHOD_RAW, METHOD_BROTLI])
  const [fast, small, repeated] = groups.map(([, content]) => content.length)
  t.ok((small ?? 0) < (fast ?? 0), `${small} bytes after a merge, ${fast} before`)
  t.ok((repeated ?? 0) < 5000, `${repeated} bytes for 8 MiB of one letter`)
  const contents = groups.map((group) => decodeGroup(Buffer.concat(group)))
  t.ok(
    contents.every((content, index) =>
      content.equals([text, text, repetition, noise, text][index] ?? noise),
    ),
  )
  t.end()
})

const TEXTS = dice.list(48, textOf)

/** Stores the texts in several commits, each of which is a segment until it is merged. */
function fill(log: PersonLog, texts: readonly string[]): void {
  for (let start = 0; start < texts.length; start += 2) {
    const events = texts.slice(start, start + 2).map((text, index) => ({
      event: '$ai_generation',
      distinct_id: `u${index}`,
      timestamp: new Date(START_MS + 1000 * (start + index)).toISOString(),
      properties: { text, model: 'm', number: start + index },
    }))
    log.send(1, events)
    log.process()
  }
}

function found(log: PersonLog, value: string): number {
  const filter = all({ key: 'text', operator: 'icontains', value })
  return log.reader.scanner(NO_LIMITS).scan({ ...BASE, filter }).count
}

const storedTexts = (log: PersonLog): readonly unknown[] =>
  log.reader
    .listEvents({ projectId: 1, limit: 1000 })
    .results.toSorted((a, b) => a.id - b.id)
    .map(({ properties }) => properties['text'])

/** Calls `change` for each stored group, and stores what it returns with a new checksum. Returns the methods found. */
async function rewriteGroups(
  dataDir: string,
  change: (group: Buffer) => Buffer | null,
): Promise<ReadonlyMap<number, number>> {
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  const { segment_groups } = environment.tables
  const methods = new Map<number, number>()
  environment.write(() => {
    const groups = [...segment_groups.getRange({})].map(
      ({ key, value }) => [Buffer.from(key), Buffer.from(value)] as const,
    )
    for (const [key, value] of groups) {
      const group = unseal('segment_groups', key, value)
      methods.set(group[0] ?? 0, (methods.get(group[0] ?? 0) ?? 0) + 1)
      const changed = change(group)
      if (changed !== null) segment_groups.putSync(key, seal(key, changed))
    }
  })
  await environment.close()
  return methods
}

t.test('long texts have a group of their own, and other columns stay in Brotli', async (t) => {
  const log = new PersonLog(t, t.testdir())
  fill(log, TEXTS)
  const environment = new Environment({
    dataDir: log.dataDir,
    name: 'events',
    tables: EVENTS_TABLES,
  })
  const tables = new SegmentTables(environment.tables)
  const summaries = [...tables.summaries(1, 1, TEXTS.length)]
  t.ok(summaries.length < TEXTS.length / 3, 'segments were merged')
  for (const { firstSequence } of summaries) {
    const { columns } = tables.segmentAt(1, firstSequence).directory
    const group = columns.find(({ key }) => key === 'text')?.values[0]
    const sharing = columns.filter(
      ({ key, values, index }) =>
        key !== 'text' && (values[0] === group || index[0] === group) && values[2] > 0,
    )
    t.strictSame(sharing, [])
  }
  await environment.close()
  const methods = await rewriteGroups(log.dataDir, () => null)
  t.equal(methods.get(METHOD_TEXTS), summaries.length)
  t.strictSame(storedTexts(log), TEXTS)
  t.equal(found(log, 'needle'), TEXTS.length / 3)
})

t.test('a search decodes no text about which its bytes decide', async (t) => {
  const log = new PersonLog(t, t.testdir())
  fill(log, TEXTS.slice(0, 20))
  const parsed = t.capture(JSON, 'parse', JSON.parse)
  t.equal(found(log, 'needle'), 7)
  const properties = [{ key: 'text', operator: 'icontains', value: 'no such word' }]
  t.strictSame(log.reader.listEvents({ projectId: 1, limit: 1000, properties }).results, [])
  const long = parsed().filter(({ args: [text] }) => String(text).length > KIB)
  t.equal(long.length, 0)
})

t.test('a store of an older version is read, and merged with new events', async (t) => {
  const log = new PersonLog(t, t.testdir())
  fill(log, TEXTS.slice(0, 20))
  await log.reopen()
  const methods = await rewriteGroups(log.dataDir, (group) =>
    group[0] === METHOD_TEXTS ? Buffer.concat(encodeGroup(decodeGroup(group), 1)) : null,
  )
  t.ok((methods.get(METHOD_TEXTS) ?? 0) > 0)
  await log.reopen()
  t.strictSame(storedTexts(log), TEXTS.slice(0, 20))
  t.equal(found(log, 'NEEDLE'), 7)
  fill(log, TEXTS.slice(20))
  t.strictSame(storedTexts(log), TEXTS)
  t.equal(found(log, 'NEEDLE'), TEXTS.length / 3)
})

t.test('a damaged chunk with a correct checksum is reported as damaged', async (t) => {
  const log = new PersonLog(t, t.testdir())
  fill(log, TEXTS.slice(0, 4))
  await rewriteGroups(log.dataDir, (group) => {
    if (group[0] !== METHOD_TEXTS) return null
    // The number of bytes of the first chunk.
    group.writeUInt32LE(group.readUInt32LE(5) - 1, 5)
    return group
  })
  t.throws(() => found(log, 'needle'), DamagedRecordError)
  t.throws(() => storedTexts(log), DamagedRecordError)
})

t.test('the compiled module matches its source', { skip: atFullDepth }, async (t) => {
  const folder = 'src/store/events/format/lz4'
  const file = join(t.testdir(), 'lz4.wasm')
  const words = [join('node_modules', 'assemblyscript', 'bin', 'asc.js'), `${folder}/assembly.ts`]
  execFileSync(
    process.execPath,
    [...words, '--config', `${folder}/asconfig.json`, '--outFile', file],
    { env: { ...process.env, NODE_OPTIONS: '' } },
  )
  const isSame = readFileSync(file).equals(readFileSync(`${folder}/lz4.wasm`))
  t.ok(isSame, 'run npm run build:lz4 to compile the module again')
})
