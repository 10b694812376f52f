/**
 * Tests the checksums of stored records: short and long keys and values have the checksum that node:zlib computes, and a
 * flipped bit is found.
 *
 * @lane quick
 */
import { crc32 } from 'node:zlib'
import t from 'tap'
import { DamagedRecordError } from '../../src/store/faults.ts'
import { SEAL_BYTES, seal, sealInPlace, unseal } from '../../src/store/lmdb/codec.ts'
import { Differences } from '../fixtures/differences.ts'

/** Returns bytes that differ from position to position, and contain large ones. */
function bytesOf(length: number, from: number): Buffer {
  return Buffer.from(Array.from({ length }, (_, index) => (index * 151 + from * 77 + 200) & 0xff))
}

t.test('the checksum covers the key and the value, of every length', async (t) => {
  const differences = new Differences()
  for (let keyBytes = 0; keyBytes <= 40; keyBytes++) {
    for (let valueBytes = 0; valueBytes <= 40; valueBytes++) {
      const [key, value] = [bytesOf(keyBytes, 1), bytesOf(valueBytes, 2)]
      const sum = crc32(value, crc32(key))
      const name = `${keyBytes} and ${valueBytes} bytes`
      differences.equal(seal(key, value).readUInt32LE(valueBytes), sum, name)
      const whole = Buffer.concat([value, Buffer.alloc(SEAL_BYTES)])
      differences.equal(sealInPlace(key, whole).readUInt32LE(valueBytes), sum, `${name}, in place`)
      differences.ok(unseal('table', key, whole).equals(value), `${name}, read`)
    }
  }
  t.strictSame(differences.list(), [])
})

t.test('a flipped bit of the key or the value is found', async (t) => {
  for (const length of [1, 8, 24, 25, 200]) {
    const key = bytesOf(length, 3)
    const sealed = seal(key, bytesOf(length, 4))
    for (let bit = 0; bit < 8 * length; bit += 5) {
      const flipped = Buffer.from(sealed)
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      t.throws(() => unseal('table', key, flipped), DamagedRecordError)
      const other = Buffer.from(key)
      other[bit >> 3] = (other[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      t.throws(() => unseal('table', other, sealed), DamagedRecordError)
    }
  }
})
