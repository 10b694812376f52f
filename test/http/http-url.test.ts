/**
 * IP addresses as text, trusted proxies, and links in answers.
 *
 * @lane quick
 */

import t from 'tap'
import { formatAddress } from '../../src/base/addresses.ts'
import { UsageError } from '../../src/base/errors.ts'
import { baseUrl, TrustedProxies } from '../../src/http/server/url.ts'

t.test('addresses are written in their shortest form', async (t) => {
  const ipv6 = (...groups: number[]): string =>
    formatAddress(Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 255])))
  t.equal(formatAddress(Uint8Array.of(192, 0, 2, 7)), '192.0.2.7')
  t.equal(ipv6(0, 0, 0, 0, 0, 0xffff, 0xc000, 0x0207), '192.0.2.7', 'an IPv4-mapped address')
  t.equal(ipv6(0, 0, 0, 0, 0, 0, 0, 1), '::1')
  t.equal(ipv6(0, 0, 0, 0, 0, 0, 0, 0), '::')
  t.equal(
    ipv6(0x2001, 0xdb8, 0, 0, 1, 0, 0, 1),
    '2001:db8::1:0:0:1',
    'the first of two runs of zeros',
  )
  t.equal(ipv6(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0), '2001:db8:0:1::', 'the longest run of zeros')
  t.equal(ipv6(1, 0, 3, 4, 5, 6, 7, 8), '1:0:3:4:5:6:7:8', 'a single zero is kept')
  t.equal(formatAddress(new Uint8Array(0)), '')
})

t.test('trusted proxies are addresses or networks', async (t) => {
  const proxies = new TrustedProxies(['127.0.0.0/8', '::1', '2001:db8::/32', '192.0.2.7'])
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '2001:db8::5', '192.0.2.7']) {
    t.ok(proxies.has(address), address)
  }
  for (const address of ['128.0.0.1', '::2', '192.0.2.8', '', 'localhost']) {
    t.notOk(proxies.has(address), address)
  }
  for (const entry of [
    'localhost',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '',
    '10.0.0.0/-1',
  ]) {
    t.throws(() => new TrustedProxies([entry]), UsageError, entry)
  }
})

t.test('links use the public URL, then the headers of a trusted proxy, then Host', async (t) => {
  const trustedProxies = new TrustedProxies(['127.0.0.1'])
  const head = {
    host: 'inner:8000',
    forwardedHost: 'events.example',
    forwardedProto: 'https',
  }
  const request = { head, peerAddress: '127.0.0.1' }
  const settings = { publicUrl: null, trustedProxies }
  t.equal(
    baseUrl(request, { publicUrl: 'https://p.example/x/', trustedProxies }),
    'https://p.example/x',
  )
  t.equal(baseUrl(request, settings), 'https://events.example')
  t.equal(baseUrl({ ...request, peerAddress: '192.0.2.1' }, settings), 'http://inner:8000')
  t.equal(
    baseUrl({ ...request, head: { ...head, forwardedHost: 'evil/x?' } }, settings),
    'https://inner:8000',
  )
  t.equal(
    baseUrl({ ...request, head: { ...head, forwardedProto: 'javascript' } }, settings),
    'http://events.example',
  )
})
