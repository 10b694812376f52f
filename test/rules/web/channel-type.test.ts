/**
 * Tests how the channel of a session is found: the reference vectors, the custom rules of a project, and how values are
 * read.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  CHANNEL_RULE_KEYS,
  CHANNEL_RULE_OPERATORS,
  CHANNEL_TYPES,
  type ChannelInputs,
  type ChannelRule,
  channelTypeOf,
} from '../../../src/rules/web/channel-type.ts'

interface Vector {
  readonly id: string
  readonly in: ChannelInputs
  readonly rules?: readonly ChannelRule[]
  readonly channel: string
}

const VECTORS = JSON.parse(
  readFileSync('test/fixtures/enrichment/channel-vectors.json', 'utf8'),
) as readonly Vector[]

function rule(items: ChannelRule['items'], combiner: 'AND' | 'OR' = 'AND'): readonly ChannelRule[] {
  return [{ id: '1', channel_type: 'Mine', combiner, items }]
}

t.test('every vector has the expected channel, and every channel is a known one', async (t) => {
  t.equal(VECTORS.length, 51)
  for (const { id, in: inputs, rules, channel } of VECTORS) {
    t.equal(channelTypeOf(inputs, rules), channel, id)
    if (rules === undefined)
      t.ok(
        CHANNEL_TYPES.some((known) => known === channel),
        id,
      )
  }
})

t.test('a source is looked up as sent, then by its registrable domain', async (t) => {
  const of = (domain: string, more: ChannelInputs = {}) =>
    channelTypeOf({ referring_domain: domain, ...more })
  t.equal(of('plus.google.com'), 'Organic Social')
  t.equal(of('docs.google.com'), 'Organic Search')
  for (const suffix of ['de', 'co.uk', 'com.br', 'com.au', 'org.uk']) {
    t.equal(of(`www.google.${suffix}`), 'Organic Search', suffix)
  }
  t.equal(of('google.example.com'), 'Referral', 'the registrable domain is not google')
  t.equal(of('google.nosuchsuffix'), 'Referral')
  t.equal(of('somebody.wordpress.com'), 'Organic Social')
  t.equal(of('old.reddit.com', { gclid: '1' }), 'Paid Social')
  t.equal(of('search.brave.com'), 'Organic Search')
  t.equal(of('talk.brave.com'), 'Referral')
  t.equal(
    of('mail.google.com', { utm_medium: 'cpc' }),
    'Paid Search',
    'a paid source without a channel falls through to the next rule',
  )
  t.equal(of('chatgpt.com', { utm_medium: 'cpc' }), 'Paid Unknown')
  for (const odd of ['.', '..', 'a b', 'http://', '127.0.0.1', '[::1]', 'x'.repeat(5000)]) {
    t.equal(of(odd), 'Referral', odd.slice(0, 20))
  }
})

t.test('the medium is matched by its words', async (t) => {
  const of = (medium: string, more: ChannelInputs = {}) =>
    channelTypeOf({ utm_medium: medium, referring_domain: 'example.org', ...more })
  t.equal(of('Partnership'), 'Affiliate')
  t.equal(of('social-network'), 'Organic Social')
  t.equal(of('social media', { gad_source: '5' }), 'Paid Social')
  t.equal(of('interstitial'), 'Display')
  t.equal(of('e mail'), 'Email')
  t.equal(of('email', { gclid: 'x' }), 'Paid Unknown', 'a paid medium has no channel of its own')
  t.equal(of('paid_everything'), 'Paid Unknown')
  t.equal(of('unpaid'), 'Referral')
  t.equal(of('cpcs'), 'Referral')
  t.equal(of('browser-push'), 'Push')
  t.equal(channelTypeOf({ utm_source: 'firebase' }), 'Push')
})

t.test('missing values are null, the text null or the empty text; numbers are text', async (t) => {
  for (const absent of [undefined, null, 'null', '', [], {}]) {
    const inputs = { referring_domain: '$direct', utm_medium: absent, fbclid: absent }
    t.equal(channelTypeOf({ ...inputs, gclid: absent, gad_source: absent }), 'Direct')
  }
  t.equal(channelTypeOf({ gad_source: 1 }), 'Paid Search')
  t.equal(
    channelTypeOf({ utm_campaign: 'SHOPPING' }),
    'Organic Shopping',
    'comparison ignores case',
  )
  t.equal(channelTypeOf({ utm_campaign: 'the shop' }), 'Organic Shopping')
})

t.test('custom rules of a project see values as they were sent', async (t) => {
  const fits = (items: ChannelRule['items'], inputs: ChannelInputs, combiner?: 'AND' | 'OR') =>
    channelTypeOf(inputs, rule(items, combiner)) === 'Mine'
  t.equal(fits([{ key: 'utm_source', op: 'exact', value: 'News' }], { utm_source: 'News' }), true)
  t.equal(fits([{ key: 'utm_source', op: 'exact', value: 'news' }], { utm_source: 'News' }), false)
  t.equal(fits([{ key: 'url', op: 'icontains', value: 'PROMO' }], { url: 'https://a/promo' }), true)
  t.equal(fits([{ key: 'pathname', op: 'regex', value: '^/p[0-9]+$' }], { pathname: '/p12' }), true)
  t.equal(fits([{ key: 'pathname', op: 'regex', value: '(' }], { pathname: '/p12' }), false)
  t.equal(fits([{ key: 'utm_term', op: 'is_not_set' }], {}), true)
  t.equal(fits([{ key: 'constructor', op: 'is_set' }], {}), false)
  t.equal(fits([], {}), true, 'a rule without items always matches')
  t.equal(
    fits([{ key: 'hostname', op: 'exact', value: [] }], { hostname: 'a' }),
    true,
    'the rule is skipped',
  )
  const either = [
    { key: 'hostname', op: 'exact', value: [] },
    { key: 'hostname', op: 'exact', value: ['a', 'b'] },
  ]
  t.equal(fits(either, { hostname: 'b' }, 'OR'), true)
  t.equal(
    fits(either, { hostname: 'c' }, 'OR'),
    false,
    'a skipped rule does not block the rules after it',
  )
  t.equal(fits(either, { hostname: 'c' }), false)
})

t.test('missing values pass negative operators only', async (t) => {
  const passing = CHANNEL_RULE_OPERATORS.filter((op) =>
    CHANNEL_RULE_KEYS.every((key) => {
      const rules = rule([{ key, op, value: 'x' }])
      return channelTypeOf({}, rules) === 'Mine' && channelTypeOf({ [key]: '' }, rules) === 'Mine'
    }),
  )
  t.strictSame(passing, ['is_not', 'is_not_set', 'not_icontains', 'not_regex'])
})
