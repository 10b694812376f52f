/**
 * Determines the channel that brought a session. The rules use the source, medium and campaign of the link, the
 * referring domain, and the parameters that advertising networks add to links, such as `gclid`. All of these come from
 * one event, the entry of the session. Source: docs/compatibility/enrichment.md, "Channel types"; PostHog
 * posthog/hogql/database/schema/channel_type.py.
 */
import { loadPackage } from '../../base/load-package.ts'
import type { PropertyTest } from '../filters/operator-tests.ts'
import { propertyTest } from '../filters/property-filter.ts'
import { MEDIUM_CHANNELS, SOURCE_KINDS, type SourceKind } from './channel-sources.ts'

/** All channels of sessions in a project without rules of its own. */
export const CHANNEL_TYPES = [
  'Cross Network',
  'Paid Search',
  'Paid Social',
  'Paid Video',
  'Paid Shopping',
  'Paid Unknown',
  'Direct',
  'Organic Search',
  'Organic Social',
  'Organic Video',
  'Organic Shopping',
  'AI Assistant',
  'Push',
  'SMS',
  'Audio',
  'Email',
  'Display',
  'Referral',
  'Affiliate',
  'Unknown',
] as const

/** The keys that the rules of a project may use. */
export const CHANNEL_RULE_KEYS = [
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'referring_domain',
  'url',
  'pathname',
  'hostname',
] as const
/** The operators that the rules of a project may use. */
export const CHANNEL_RULE_OPERATORS = [
  'exact',
  'is_not',
  'is_set',
  'is_not_set',
  'icontains',
  'not_icontains',
  'regex',
  'not_regex',
] as const

/**
 * The values of a session's entry event: `utm_*`, `gclid`, `fbclid` and `gad_source` under their names,
 * `referring_domain` from `$referring_domain`, `url` from `$current_url`, and the path and host of that URL. Numbers
 * count as text. Null, the text `null` and an empty text count as absent.
 */
export type ChannelInputs = Readonly<
  Partial<Record<(typeof CHANNEL_RULE_KEYS)[number] | 'gclid' | 'fbclid' | 'gad_source', unknown>>
>

/**
 * One comparison of a rule. A comparison is ignored if its list of values is empty, or if its operator needs a value
 * and there is none.
 */
export interface ChannelRuleItem {
  readonly id?: string
  /** One of `CHANNEL_RULE_KEYS`. */
  readonly key: string
  /** One of `CHANNEL_RULE_OPERATORS`. */
  readonly op: string
  /** The value. A list matches if any of its texts matches. */
  readonly value?: string | readonly string[] | null
}

/** A rule of a project, as its setting `customChannelTypeRules` contains it. */
export interface ChannelRule {
  readonly id?: string
  readonly channel_type: string
  /** `AND` if all items must match, and `OR` if one of them must. */
  readonly combiner: 'AND' | 'OR'
  /** The comparisons. An empty list matches every session. */
  readonly items: readonly ChannelRuleItem[]
}

/** Returns the fault of a rule that a user wrote, or null if it is valid. */
export function channelRuleFault(rule: Readonly<Record<string, unknown>>): string | null {
  const { channel_type, combiner, items } = rule
  if (typeof channel_type !== 'string') return '`channel_type` must be a text'
  if (combiner !== 'AND' && combiner !== 'OR') return '`combiner` must be AND or OR'
  if (!Array.isArray(items)) return '`items` must be a list'
  for (const item of items as readonly unknown[]) {
    const { key, op } = Object(item) as { readonly key?: unknown; readonly op?: unknown }
    if (!CHANNEL_RULE_KEYS.some((known) => known === key)) {
      return `\`key\` of an item must be one of ${CHANNEL_RULE_KEYS.join(', ')}`
    }
    if (!CHANNEL_RULE_OPERATORS.some((known) => known === op)) {
      return `\`op\` of an item must be one of ${CHANNEL_RULE_OPERATORS.join(', ')}`
    }
  }
  return null
}

/** The inputs of the rules below. '' means absent. */
interface Clues {
  readonly source: string
  readonly medium: string
  readonly campaign: string
  readonly domain: string
  readonly gadSource: string
  readonly hasFacebookClick: boolean
}

type Step = (clues: Clues) => string | null
type RuleTest = (inputs: ChannelInputs) => boolean

const DIRECT = '$direct'
const DIRECT_SOURCES: readonly string[] = ['', '(direct)', 'direct', DIRECT]
const PAID_MEDIUM = /^(?:(?:cpc|cpm|cpv|cpa|ppc|retargeting)$|paid)/
/** Matches `e-shop`, `eshop` and `the shop`, but not `workshop`. */
const SHOP = /shopping|(?:^|[^a-df-z])shop/
const TWO_CHANNELS: readonly SourceKind[] = ['Search', 'Social', 'Video', 'Shopping']

/** The first step that returns a channel decides. */
const PAID_STEPS: readonly Step[] = [
  ({ source }) => sourceChannel(source, true),
  ({ campaign }) => (SHOP.test(campaign) ? 'Paid Shopping' : null),
  ({ medium }) => MEDIUM_CHANNELS.get(medium)?.paid ?? null,
  ({ domain }) => sourceChannel(domain, true),
  ({ gadSource }) => (gadSource === '1' ? 'Paid Search' : null),
  ({ campaign }) => (campaign.includes('video') ? 'Paid Video' : null),
  ({ hasFacebookClick }) => (hasFacebookClick ? 'Paid Social' : null),
  () => 'Paid Unknown',
]
const ORGANIC_STEPS: readonly Step[] = [
  ({ source }) => sourceChannel(source, false),
  ({ campaign }) => (SHOP.test(campaign) ? 'Organic Shopping' : null),
  ({ medium }) => MEDIUM_CHANNELS.get(medium)?.organic ?? null,
  ({ domain }) => sourceChannel(domain, false),
  ({ campaign }) => (campaign.includes('video') ? 'Organic Video' : null),
  ({ medium }) => (medium.endsWith('push') ? 'Push' : null),
  ({ hasFacebookClick }) => (hasFacebookClick ? 'Organic Social' : null),
  ({ domain }) => (domain === DIRECT ? 'Direct' : null),
  ({ domain }) => (domain === '' ? 'Unknown' : 'Referral'),
]

let parseDomain: typeof import('tldts').parse | undefined
const NO_RULES: readonly ChannelRule[] = []
/** Caches compiled rules. A query contains the rules once and applies them to each of its sessions. */
const compiledRules = new WeakMap<
  readonly ChannelRule[],
  readonly (readonly [string, RuleTest])[]
>()

/**
 * Returns the channel of a session. The first matching rule of the project decides or, if none matches, the built-in
 * rules, which return one of `CHANNEL_TYPES`. A call takes about 2 us. The first call in a thread takes some
 * milliseconds more. Rules of the project add the cost of matching their patterns, which are compiled at the first call
 * with the same list of rules.
 */
export function channelTypeOf(
  inputs: ChannelInputs,
  customRules: readonly ChannelRule[] = NO_RULES,
): string {
  for (const [channel, isFitting] of compiled(customRules)) if (isFitting(inputs)) return channel
  const clues: Clues = {
    source: textOf(inputs.utm_source).toLowerCase(),
    medium: textOf(inputs.utm_medium).toLowerCase(),
    campaign: textOf(inputs.utm_campaign).toLowerCase(),
    domain: textOf(inputs.referring_domain),
    gadSource: textOf(inputs.gad_source),
    hasFacebookClick: textOf(inputs.fbclid) !== '',
  }
  const { source, medium, campaign, domain, gadSource, hasFacebookClick } = clues
  if (campaign.includes('cross-network')) return 'Cross Network'
  const isPaid = PAID_MEDIUM.test(medium) || gadSource !== '' || textOf(inputs.gclid) !== ''
  if (isPaid) return firstOf(PAID_STEPS, clues)
  const isUnmarked = medium === '' && DIRECT_SOURCES.includes(source) && !hasFacebookClick
  return domain === DIRECT && isUnmarked ? 'Direct' : firstOf(ORGANIC_STEPS, clues)
}

function firstOf(steps: readonly Step[], clues: Clues): string {
  for (const step of steps) {
    const channel = step(clues)
    if (channel !== null) return channel
  }
  return 'Unknown'
}

/**
 * Returns the channel of a source or domain. The list is searched for the whole text first, and then for the
 * registrable domain of the text.
 */
function sourceChannel(text: string, isPaid: boolean): string | null {
  if (text === '') return null
  return kindChannel(SOURCE_KINDS.get(text), isPaid) ?? kindChannel(domainKind(text), isPaid)
}

function kindChannel(kind: SourceKind | undefined, isPaid: boolean): string | null {
  if (kind === undefined) return null
  if (TWO_CHANNELS.includes(kind)) return `${isPaid ? 'Paid' : 'Organic'} ${kind}`
  if (isPaid) return null
  return kind === 'AI' ? 'AI Assistant' : kind
}

/** Returns the kind of the registrable domain of a host. Google has a domain under every public suffix. */
function domainKind(text: string): SourceKind | undefined {
  if (!text.includes('.')) return undefined
  parseDomain ??= (loadPackage('tldts') as typeof import('tldts')).parse
  const { domain, domainWithoutSuffix, isIcann } = parseDomain(text)
  if (domain === null) return undefined
  const kind = SOURCE_KINDS.get(domain)
  return kind ?? (domainWithoutSuffix === 'google' && isIcann === true ? 'Search' : undefined)
}

function compiled(rules: readonly ChannelRule[]): readonly (readonly [string, RuleTest])[] {
  let tests = compiledRules.get(rules)
  if (tests === undefined) {
    tests = rules.map((rule) => [rule.channel_type, ruleTest(rule)])
    compiledRules.set(rules, tests)
  }
  return tests
}

function ruleTest({ items, combiner }: ChannelRule): RuleTest {
  const tests = items.map(itemTest).filter((test) => test !== null)
  if (tests.length === 0) return () => true
  return combiner === 'OR'
    ? (inputs) => tests.some((test) => test(inputs))
    : (inputs) => tests.every((test) => test(inputs))
}

/** Returns the test of a comparison, or null if the comparison is ignored (see `ChannelRuleItem`). */
function itemTest({ key: given, op, value }: ChannelRuleItem): RuleTest | null {
  const key = CHANNEL_RULE_KEYS.find((known) => known === given)
  const isEmptyList = Array.isArray(value) && value.length === 0
  const test: PropertyTest | null = isEmptyList
    ? null
    : propertyTest({ key: given, operator: op, value })
  if (test === null) return null
  return (inputs) => test((key === undefined ? '' : textOf(inputs[key])) || undefined)
}

/** Returns a value as text, or '' if it is absent. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value === 'null' ? '' : value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}
