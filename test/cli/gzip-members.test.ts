/**
 * The reader of gzip files: members, headers, and files that are cut short or contain other data.
 *
 * @lane quick
 */
import { crc32, deflateRawSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { DamagedFileError, unpackGzip } from '../../src/cli/lib/gzip-members.ts'

/** Unpacks a file that is read in chunks of a size. */
async function unpack(file: Buffer, chunkBytes: number) {
  const chunks = (async function* () {
    for (let start = 0; start < file.length; start += chunkBytes) {
      const chunk = Buffer.from(file.subarray(start, start + chunkBytes))
      yield chunk
      // The memory of a chunk is reused.
      chunk.fill(0xff)
    }
  })()
  const first = Buffer.from(((await chunks.next()).value as Buffer | undefined) ?? Buffer.alloc(0))
  const parts: Buffer[] = []
  let error: unknown = null
  try {
    for await (const part of unpackGzip('file', first, chunks)) parts.push(Buffer.from(part))
  } catch (reason) {
    error = reason
  }
  return { text: Buffer.concat(parts).toString('latin1'), error }
}

/** A member whose header has every optional field. */
function memberWithFields(text: string): Buffer {
  const fields = '\x03\0abcname\0comment\0'
  const header = Buffer.from(`\x1f\x8b\x08\x1f\0\0\0\0\0\x03${fields}`, 'latin1')
  const sums = Buffer.alloc(10)
  sums.writeUInt16LE(crc32(header) & 0xffff)
  const data = deflateRawSync(text)
  sums.writeUInt32LE(crc32(text), 2)
  sums.writeUInt32LE(text.length, 6)
  return Buffer.concat([header, sums.subarray(0, 2), data, sums.subarray(2)])
}

const TEXTS = ['first member\n'.repeat(20), '', 'second\n', `${'x'.repeat(3_000_000)}\n`]
const MEMBERS = [
  gzipSync(TEXTS[0] ?? ''),
  gzipSync(TEXTS[1] ?? ''),
  memberWithFields(TEXTS[2] ?? ''),
  gzipSync(TEXTS[3] ?? ''),
]

t.test('members follow each other, wherever the chunks of the file end', async (t) => {
  const file = Buffer.concat([...MEMBERS, Buffer.alloc(100)])
  for (const chunkBytes of [2, 3, 7, 64, file.length]) {
    const { text, error } = await unpack(file, chunkBytes)
    t.equal(error, null)
    t.ok(text === TEXTS.join(''), `chunks of ${chunkBytes} bytes`)
  }
})

t.test('all data before a cut or before other data is unpacked', async (t) => {
  const whole = Buffer.concat(MEMBERS.slice(0, 2))
  const file = Buffer.concat(MEMBERS.slice(0, 3))
  const [firstText = ''] = TEXTS
  const wrong: number[] = []
  for (let end = 2; end < file.length; end++) {
    const { text, error } = await unpack(file.subarray(0, end), end)
    const isBetween = end === MEMBERS[0]?.length || end === whole.length
    const isNamed = error instanceof DamagedFileError && /unexpected end/.test(error.message)
    if (isNamed === isBetween || !TEXTS.join('').startsWith(text)) wrong.push(end)
    if (end >= whole.length && text.length < firstText.length) wrong.push(end)
  }
  t.strictSame(wrong, [])
  for (const other of ['plain text\n', '\x1f', '\x1fx', '\0\x1f\x8b']) {
    for (const chunkBytes of [2, file.length + 20]) {
      const { text, error } = await unpack(
        Buffer.concat([file, Buffer.from(other, 'latin1')]),
        chunkBytes,
      )
      t.equal(text, TEXTS.slice(0, 3).join(''))
      t.ok(error instanceof DamagedFileError, JSON.stringify(other))
    }
  }
})

t.test('a damaged member is named', async (t) => {
  const [member = Buffer.alloc(0)] = MEMBERS
  const damaged = (offset: number, byte: number): Buffer => {
    const copy = Buffer.from(member)
    copy[offset < 0 ? member.length + offset : offset] = byte
    return copy
  }
  for (const [file, reason] of [
    [damaged(2, 9), /unknown compression method/],
    [damaged(3, 0x80), /unknown header flags/],
    [damaged(10, 0xff), /invalid block type/],
    [damaged(-8, (member.at(-8) ?? 0) ^ 1), /incorrect data check/],
    [damaged(-1, 1), /incorrect length check/],
  ] as const) {
    const { error } = await unpack(file, file.length)
    t.ok(error instanceof DamagedFileError)
    t.match((error as Error).message, reason)
  }
})
