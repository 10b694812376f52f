/**
 * The channel that brought a session: rules over the source, medium and campaign that a link names, the
 * domain that referred, and the marks of advertisements. All of it from one event, the entry of the
 * session. Source: docs/compatibility/enrichment.md, "Channel types"; PostHog
 * posthog/hogql/database/schema/channel_type.py.
 */
import { loadPackage } from '../../base/load-package.ts'
import type { PropertyTest } from '../filters/operator-tests.ts'
import { propertyTest } from '../filters/property-filter.ts'
import { MEDIUM_CHANNELS, SOURCE_KINDS, type SourceKind } from './channel-sources.ts'

/** All channels that sessions have without rules of a project. */
export const CHANNEL_TYPES = [
  ...['Cross Network', 'Paid Search', 'Paid Social', 'Paid Video', 'Paid Shopping'],
  ...['Paid Unknown', 'Direct', 'Organic Search', 'Organic Social', 'Organic Video'],
  ...['Organic Shopping', 'AI Assistant', 'Push', 'SMS', 'Audio', 'Email', 'Display', 'Referral'],
  ...['Affiliate', 'Unknown'],
] as const

/** What the rules of a project may look at. */
export const CHANNEL_RULE_KEYS = [
  ...['utm_source', 'utm_medium', 'utm_campaign', 'referring_domain', 'url', 'pathname'],
  'hostname',
] as const
/** How they may compare. */
export const CHANNEL_RULE_OPERATORS = [
  ...['exact', 'is_not', 'is_set', 'is_not_set', 'icontains', 'not_icontains', 'regex'],
  'not_regex',
] as const

/**
 * Values of a session's entry event as it has them: `utm_*`, `gclid`, `fbclid` and `gad_source` under
 * their names, `referring_domain` from `$referring_domain`, `url` from `$current_url`, and path and host
 * of that. Numbers count as text; null, the text `null` and empty text as absent.
 */
export type ChannelInputs = Readonly<
  Partial<Record<(typeof CHANNEL_RULE_KEYS)[number] | 'gclid' | 'fbclid' | 'gad_source', unknown>>
>

/** One comparison of a rule; those with an empty list or without the value they need do not count. */
export interface ChannelRuleItem {
  readonly id?: string
  /** One of `CHANNEL_RULE_KEYS`. */
  readonly key: string
  /** One of `CHANNEL_RULE_OPERATORS`. */
  readonly op: string
  /** A list stands for any of its texts. */
  readonly value?: string | readonly string[] | null
}

/** A rule of a project, as its setting `customChannelTypeRules` holds it. */
export interface ChannelRule {
  readonly id?: string
  readonly channel_type: string
  /** All items must hold, or one of them. */
  readonly combiner: 'AND' | 'OR'
  /** None: every session fits. */
  readonly items: readonly ChannelRuleItem[]
}

/** What is wrong with a rule that somebody wrote; null: nothing. */
export function channelRuleFault(rule: Readonly<Record<string, unknown>>): string | null {
  const { channel_type, combiner, items } = rule
  if (typeof channel_type !== 'string') return 'channel_type must be a text'
  if (combiner !== 'AND' && combiner !== 'OR') return 'combiner must be AND or OR'
  if (!Array.isArray(items)) return 'items must be a list'
  for (const item of items as readonly unknown[]) {
    const { key, op } = Object(item) as { readonly key?: unknown; readonly op?: unknown }
    if (!CHANNEL_RULE_KEYS.some((known) => known === key)) {
      return `the key of an item must be one of ${CHANNEL_RULE_KEYS.join(', ')}`
    }
    if (!CHANNEL_RULE_OPERATORS.some((known) => known === op)) {
      return `the op of an item must be one of ${CHANNEL_RULE_OPERATORS.join(', ')}`
    }
  }
  return null
}

/** What the rules below look at; '' is absent. */
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
/** `e-shop`, `eshop` and `the shop`, but no `workshop`. */
const SHOP = /shopping|(?:^|[^a-df-z])shop/
const TWO_CHANNELS: readonly SourceKind[] = ['Search', 'Social', 'Video', 'Shopping']

/** The first that answers something decides. */
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
/** Rules come with each question and are used for each of its sessions. */
const compiledRules = new WeakMap<
  readonly ChannelRule[],
  readonly (readonly [string, RuleTest])[]
>()

/**
 * The channel of a session: that of the first rule of the project that fits, else one of `CHANNEL_TYPES`.
 * About 2 us, once per thread some milliseconds more; with rules also what their patterns cost, which are
 * compiled at the first call with the same list.
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

/** A source or domain as it is written decides before its registrable domain. */
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

/** The kind of the registrable domain of a host; Google has one under every public suffix. */
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

/** Null: the item does not count. */
function itemTest({ key: given, op, value }: ChannelRuleItem): RuleTest | null {
  const key = CHANNEL_RULE_KEYS.find((known) => known === given)
  const isEmptyList = Array.isArray(value) && value.length === 0
  const test: PropertyTest | null = isEmptyList
    ? null
    : propertyTest({ key: given, operator: op, value })
  if (test === null) return null
  return (inputs) => test((key === undefined ? '' : textOf(inputs[key])) || undefined)
}

/** A value as text; '' when it is absent. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value === 'null' ? '' : value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}
