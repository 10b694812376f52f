/**
 * Compares the lz64 decoder with the npm encoder and decoder.
 *
 * @lane quick
 */
import fc from 'fast-check'
import lzString from 'lz-string'
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import { decodeLz64 } from '../../../src/rules/capture/lz64.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const MEGABYTE = 1024 * 1024

function codeOf(action: () => unknown): string {
  try {
    action()
  } catch (error) {
    if (error instanceof ServiceError) return error.code
    throw error
  }
  return 'none'
}

t.test('output of the npm encoder is decoded', async (t) => {
  const texts = [
    'a',
    'aa',
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
    '{"event":"🤓","properties":{"a":[1,2,3]}}',
    'abc'.repeat(10_000),
    Array.from({ length: 70_000 }, (_, index) => String.fromCharCode(index % 65_536)).join(''),
  ]
  for (const text of texts) t.equal(decodeLz64(lzString.compressToBase64(text), MEGABYTE), text)
})

t.test('any text survives the round trip', async () => {
  const anyText = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.string({ unit: fc.constantFrom('a', 'b', '"', '💻', '\ud83d', 'é'), maxLength: 400 }),
  )
  fc.assert(
    fc.property(anyText, (text) => {
      fc.pre(text !== '')
      return decodeLz64(lzString.compressToBase64(text), MEGABYTE) === text
    }),
    runsOf(500),
  )
})

t.test('any text of the alphabet decodes as in the npm decoder, or is refused', async () => {
  const unit = fc.constantFrom(
    ...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=',
  )
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 60 }), (text) => {
      // The npm decoder continues with garbage, or fails, if the first code refers to a phrase.
      const startsWithPhrase = /^[w-z0-9+/]/.test(text)
      const expected = startsWithPhrase ? null : lzString.decompressFromBase64(text)
      if (expected === null || expected === '') {
        return codeOf(() => decodeLz64(text, MEGABYTE)) === 'invalid_payload'
      }
      return decodeLz64(text, MEGABYTE) === expected
    }),
    runsOf(3000),
  )
})

t.test('text that is outside the alphabet, truncated or empty is refused', async (t) => {
  const whole = lzString.compressToBase64('some text that is long enough to be cut')
  const texts = [
    '',
    '=',
    'foo',
    '****',
    whole.slice(0, 12),
    `${whole.slice(0, 8)} ${whole.slice(8)}`,
  ]
  texts.push(lzString.compressToBase64(''), `é${whole}`)
  for (const text of texts)
    t.equal(
      codeOf(() => decodeLz64(text, MEGABYTE)),
      'invalid_payload',
      text,
    )
})

t.test('output beyond the limit is refused while decoding', async (t) => {
  const text = 'x'.repeat(1000)
  t.equal(decodeLz64(lzString.compressToBase64(text), 1000), text)
  t.equal(
    codeOf(() => decodeLz64(lzString.compressToBase64(text), 999)),
    'request_too_large',
  )
  const wide = '€'.repeat(400)
  t.equal(decodeLz64(lzString.compressToBase64(wide), 1200), wide)
  t.equal(
    codeOf(() => decodeLz64(lzString.compressToBase64(wide), 1199)),
    'request_too_large',
  )
})

t.test('a decompression bomb costs no more than its limit', async (t) => {
  // Every code stands for a phrase one unit longer than the one before, so n codes expand to n * n / 2 units.
  const bomb = lzString.compressToBase64('a'.repeat(MEGABYTE / 2))
  t.ok(bomb.length < 5000, 'the encoded text is small')
  t.equal(
    codeOf(() => decodeLz64(bomb, 64 * 1024)),
    'request_too_large',
  )
})
