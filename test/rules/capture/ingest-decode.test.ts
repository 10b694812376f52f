/**
 * Tests the way from the bytes of a request to the bytes of its JSON.
 *
 * @lane quick
 */
import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import lzString from 'lz-string'
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import { decodeBase64 } from '../../../src/rules/capture/base64.ts'
import {
  compressionHint,
  decodePayload,
  isForm,
  type RawPayload,
  readQuery,
} from '../../../src/rules/capture/decode.ts'
import { checkEvents, parseEnvelope } from '../../../src/rules/capture/envelope.ts'
import { decodePercent, parseForm } from '../../../src/rules/capture/form.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const JSON_TEXT = '{"event":"e","distinct_id":"ü>>>???"}'
const LIMITS = { decodedBytesMax: 100_000 }
const FORM = 'application/x-www-form-urlencoded'

function decode(
  request: Partial<Omit<RawPayload, 'body'>> & { body?: string | Uint8Array },
): string {
  const { body = '', ...rest } = request
  const whole: RawPayload = {
    method: 'POST',
    contentType: 'text/plain',
    contentEncoding: '',
    query: '',
    ...rest,
    body: typeof body === 'string' ? Buffer.from(body) : body,
  }
  return Buffer.from(decodePayload(whole, LIMITS).json).toString()
}

function codeOf(action: () => unknown): string {
  try {
    action()
  } catch (error) {
    if (error instanceof ServiceError) return error.code
    throw error
  }
  return 'none'
}

const base64 = (bytes: string | Uint8Array): string => Buffer.from(bytes).toString('base64')

t.test('plain JSON is passed on without a copy', async (t) => {
  const body = Buffer.from(JSON_TEXT)
  const request = { method: 'POST', contentType: '', contentEncoding: '', query: '', body } as const
  t.equal(decodePayload(request, LIMITS).json, body)
})

t.test('gzip is decoded in every layer', async (t) => {
  const gzip = gzipSync(JSON_TEXT)
  const twoMembers = Buffer.concat([gzipSync(JSON_TEXT.slice(0, 9)), gzipSync(JSON_TEXT.slice(9))])
  t.equal(decode({ body: gzip }), JSON_TEXT)
  t.equal(decode({ body: gzip, contentEncoding: 'gzip' }), JSON_TEXT)
  t.equal(decode({ body: gzip, query: 'compression=lz64' }), JSON_TEXT)
  t.equal(decode({ body: twoMembers }), JSON_TEXT)
  t.equal(decode({ body: base64(gzip) }), JSON_TEXT)
  t.equal(decode({ body: base64(gzip), query: 'compression=gzip-js' }), JSON_TEXT)
  t.equal(decode({ body: gzipSync(base64(JSON_TEXT)) }), JSON_TEXT)
  t.equal(decode({ body: gzip, contentType: FORM }), JSON_TEXT)
  t.equal(decode({ body: gzip, contentType: FORM, query: 'compression=gzip' }), JSON_TEXT)
  t.equal(
    decode({ body: `data=${encodeURIComponent(base64(gzip))}`, contentType: FORM }),
    JSON_TEXT,
  )
})

t.test('gzip of a form: the header is consumed, the hint in the field counts', async (t) => {
  const form = { contentType: FORM, contentEncoding: 'gzip' }
  t.equal(decode({ ...form, body: gzipSync(`data=${encodeURIComponent(JSON_TEXT)}`) }), JSON_TEXT)
  const lz64 = encodeURIComponent(lzString.compressToBase64(JSON_TEXT))
  t.equal(decode({ ...form, body: gzipSync(`data=${lz64}&compression=LZ64`) }), JSON_TEXT)
})

t.test('damaged gzip is refused', async (t) => {
  const gzip = gzipSync(JSON_TEXT)
  const wrongChecksum = Buffer.from(gzip)
  wrongChecksum[gzip.length - 5] = (wrongChecksum[gzip.length - 5] ?? 0) ^ 1
  for (const body of [gzip.subarray(0, 3), gzip.subarray(0, -1), wrongChecksum]) {
    t.equal(
      codeOf(() => decode({ body })),
      'invalid_payload',
    )
  }
  t.equal(
    codeOf(() => decode({ body: JSON_TEXT, query: 'compression=gzip' })),
    'invalid_payload',
  )
  t.equal(
    codeOf(() => decode({ body: 'undefined', contentEncoding: 'gzip' })),
    'invalid_payload',
  )
})

t.test('output of exactly the limit passes, one byte more is refused', async (t) => {
  const text = (length: number): string => `[${'1'.repeat(length - 2)}]`
  const limit = LIMITS.decodedBytesMax
  t.equal(decode({ body: gzipSync(text(limit)) }).length, limit)
  t.equal(
    codeOf(() => decode({ body: gzipSync(text(limit + 1)) })),
    'request_too_large',
  )
  const twice = Buffer.concat([gzipSync(text(limit)), gzipSync(' ')])
  t.equal(
    codeOf(() => decode({ body: twice })),
    'request_too_large',
  )
  t.equal(
    codeOf(() => decode({ body: base64(gzipSync(text(limit + 1))) })),
    'request_too_large',
  )
  const lz64 = { query: 'compression=lz64' }
  t.equal(decode({ ...lz64, body: lzString.compressToBase64(text(limit)) }).length, limit)
  const tooLong = lzString.compressToBase64(text(limit + 1))
  t.equal(
    codeOf(() => decode({ ...lz64, body: tooLong })),
    'request_too_large',
  )
})

t.test('base64 is decoded in every spelling', async (t) => {
  const standard = base64(JSON_TEXT)
  const spellings = [
    standard,
    standard.replaceAll('=', ''),
    standard.replaceAll('+', '-').replaceAll('/', '_'),
    standard.replaceAll('+', ' '),
    ` ${encodeURIComponent(standard)}\n`,
    standard.replace(/(.{10})/g, '$1\r\n'),
    base64(`\ufeff${JSON_TEXT}`).trim(),
  ]
  t.match(standard, /[+/]/, 'the two alphabets differ in this text')
  for (const body of spellings) {
    t.equal(decode({ body }), JSON_TEXT)
    t.equal(decode({ body, query: 'compression=base64' }), JSON_TEXT)
  }
  t.equal(decodeBase64(Buffer.from('YQ=a')), null)
  t.equal(decodeBase64(Buffer.from('YWJjZ')), null)
  t.equal(decodeBase64(Buffer.from('YQ===')), null)
  t.equal(
    codeOf(() => decode({ body: base64('hi'), query: 'compression=b64' })),
    'invalid_payload',
  )
})

t.test('forms are recognized by media type and by content', async (t) => {
  const data = encodeURIComponent(JSON_TEXT)
  t.equal(decode({ body: `a=1&data=${data}&b`, contentType: `${FORM}; charset=utf-8` }), JSON_TEXT)
  t.equal(decode({ body: `_=17&data=${data}`, contentType: 'text/plain' }), JSON_TEXT)
  t.equal(
    decode({ body: `compression=base64&data=${encodeURIComponent(base64(JSON_TEXT))}` }),
    JSON_TEXT,
  )
  t.equal(
    decode({ body: `data=1&data=${data}`, contentType: FORM }),
    JSON_TEXT,
    'the last field counts',
  )
  t.equal(decode({ body: `%64ata=${data}`, contentType: FORM }), JSON_TEXT)
  t.equal(decode({ body: ` \n${JSON_TEXT}`, contentType: FORM }).trim(), JSON_TEXT)
  for (const body of ['', 'data=', 'data', 'foo=bar', '&&', 'xdata=1']) {
    t.equal(
      codeOf(() => decode({ body, contentType: FORM })),
      'no_data',
      body,
    )
  }
  t.equal(
    decode({ body: 'ip=1&foo=bar' }),
    'ip=1&foo=bar',
    'the text looks like a form but has no data field',
  )
})

t.test('GET reads the query only', async (t) => {
  const data = encodeURIComponent(JSON_TEXT)
  t.equal(decode({ method: 'GET', query: `ver=1&data=${data}`, body: '{}' }), JSON_TEXT)
  const lz64 = encodeURIComponent(lzString.compressToBase64(JSON_TEXT))
  t.equal(decode({ method: 'GET', query: `data=${lz64}&compression=lz-string` }), JSON_TEXT)
  const header = { contentEncoding: 'lz64' }
  t.equal(
    decode({ method: 'GET', query: `data=${data}`, ...header }),
    JSON_TEXT,
    'the header gives no hint',
  )
  t.equal(
    codeOf(() => decode({ method: 'GET', query: 'data=' })),
    'no_data',
  )
  t.equal(
    codeOf(() => decode({ method: 'GET', body: JSON_TEXT })),
    'no_data',
  )
})

t.test('text that is not UTF-8 is refused, a byte order mark is removed', async (t) => {
  t.equal(decode({ body: `\ufeff${JSON_TEXT}` }), JSON_TEXT)
  t.equal(
    codeOf(() => decode({ body: Buffer.from(JSON_TEXT, 'latin1') })),
    'invalid_payload',
  )
  t.equal(
    codeOf(() => decode({ body: Buffer.from(`\ufeff${JSON_TEXT}`, 'utf16le') })),
    'invalid_payload',
  )
  t.equal(
    codeOf(() => decode({ body: 'data=%ff%fe', contentType: FORM })),
    'invalid_payload',
  )
})

t.test('the front end reads hints, media types and queries', async (t) => {
  t.equal(compressionHint('GZIP-JS', ''), 'gzip')
  t.equal(compressionHint('zzz', 'lz64'), 'lz64')
  t.equal(compressionHint(undefined, 'identity'), null)
  t.equal(compressionHint('b64', 'gzip'), 'base64')
  t.ok(isForm('Application/X-WWW-Form-Urlencoded ; charset=x'))
  t.notOk(isForm('multipart/form-data'))
  t.match(readQuery('_=17&sent_at=a+b&beacon=1&project_id=%31&token=%'), {
    underscore: '17',
    sentAt: 'a b',
    beacon: '1',
    projectId: '1',
    token: '%',
    apiKey: undefined,
  })
})

t.test('form decoding agrees with URLSearchParams', async () => {
  const pair = fc.tuple(fc.constantFrom('a', 'data', 'x'), fc.string({ unit: 'grapheme' }))
  fc.assert(
    fc.property(fc.array(pair, { maxLength: 6 }), (pairs) => {
      const encoded = Buffer.from(new URLSearchParams(pairs).toString())
      const fields = parseForm(encoded, ['data'])
      const last = pairs.findLast(([name]) => name === 'data')
      return fields.get('data')?.toString() === last?.[1]
    }),
    runsOf(100),
  )
})

t.test('fields are found by their full decoded name', async (t) => {
  const value = (form: string): string | undefined =>
    parseForm(Buffer.from(form), ['data', '_']).get('data')?.toString()
  t.equal(value('d%61t%61=1'), '1')
  t.equal(value('%64%61%74%61'), '')
  t.equal(value('&&=x&data==&'), '=')
  for (const form of [
    'dat=1',
    'data2=1',
    '%64at=1',
    'data%=1',
    'dat%6=1',
    '%zzata=1',
    '=data',
    'x',
  ]) {
    t.equal(value(form), undefined, form)
  }
  const many = parseForm(Buffer.from('a&'.repeat(1_000_000).concat('data=1')), ['a', 'data'])
  t.same([...many.keys()], ['a', 'data'])
})

t.test('malformed percent sequences are kept unchanged', async (t) => {
  t.equal(decodePercent(Buffer.from('%4x%41%%42%')).toString(), '%4xA%B%')
})

t.test('decoding fails only with a refusal, whatever the body', async () => {
  const hint = fc.constantFrom('', 'gzip', 'lz64', 'base64', 'br')
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.json().map((text) => Buffer.from(text)),
    fc.json().map((text) => gzipSync(text)),
    fc.uint8Array({ maxLength: 50 }).map((tail) => Buffer.concat([gzipSync('{}'), tail])),
    fc.json().map((text) => Buffer.from(base64(text))),
    fc.string({ unit: 'binary' }).map((text) => Buffer.from(`data=${text}`)),
    fc.json().map((text) => Buffer.from(lzString.compressToBase64(text))),
    fc.constant(randomBytes(64)),
  )
  const method = fc.constantFrom('GET', 'POST')
  const contentType = fc.constantFrom('', FORM, 'application/json')
  fc.assert(
    fc.property(method, contentType, hint, fc.string(), bytes, (m, type, encoding, query, body) => {
      const request = {
        method: m,
        contentType: type,
        contentEncoding: encoding,
        query,
        body,
      } as const
      const code = codeOf(() => [
        ...checkEvents(parseEnvelope(decodePayload(request, LIMITS).json, { isEngage: false })),
      ])
      return ['none', 'no_data', 'invalid_payload', 'request_too_large'].includes(code)
    }),
    runsOf(1000),
  )
})

t.test(
  'surrogates encoded one by one in base64 are read as the characters they form',
  async (t) => {
    const json = '{"event":"e","distinct_id":"😀 é"}'
    const bytes = [...json].flatMap((character) =>
      character === '😀' ? [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80] : [...Buffer.from(character)],
    )
    t.equal(decode({ body: base64(Uint8Array.from(bytes)) }), json)
    t.equal(decode({ body: base64(Uint8Array.from(bytes)), query: 'compression=base64' }), json)
    const lonely = Buffer.from('{"event":"e","x":"?"}')
    lonely[lonely.indexOf('?')] = 0xff
    t.equal(decode({ body: base64(lonely) }), '{"event":"e","x":"\ufffd"}')
  },
)
