/** Describes flags in sentences: their rules, and what a change of a flag changes. */
import { conditionWords } from '../../base/operators.ts'
import {
  type Draft,
  type DraftFields,
  draftOf,
  payloadOf,
  type Rule,
  type RuleFilter,
  type Variant,
} from './draft.ts'

/** Functions that return the names of objects to which rules refer by number. */
export interface Names {
  /** The plural noun for what the flag is decided for: `people`, or a group type such as `companies`. */
  readonly subjects: string
  readonly cohort: (id: number) => string
  readonly flag: (id: number) => string
}

/** Readable names for properties whose own names are hard to understand. */
const LABELS: Readonly<Record<string, string>> = { distinct_id: 'distinct ID', $group_key: 'key' }

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? '')
}

function listed(value: unknown, word: string): string {
  return Array.isArray(value) ? value.map(textOf).join(` ${word} `) : textOf(value)
}

/** Returns true for a filter that excludes the members of a cohort. */
export function isExcluding({ operator, ...filter }: RuleFilter & { negation?: unknown }): boolean {
  return operator === 'not_in' || filter.negation === true
}

/** Returns a filter as a part of a sentence: `plan is pro`, `in the cohort Founders`, `the flag beta is on`. */
export function clauseOf(filter: RuleFilter, names: Names): string {
  const { key, type, operator = 'exact', value } = filter
  if (type === 'cohort') {
    const name = names.cohort(Number(Array.isArray(value) ? value[0] : value))
    return `${isExcluding(filter) ? 'not ' : ''}in the cohort ${name}`
  }
  if (type === 'flag') {
    const wanted = value === true ? 'on' : value === false ? 'off' : textOf(value)
    return `the flag ${names.flag(Number(key))} is ${wanted}`
  }
  return conditionWords(LABELS[key] ?? key, operator, listed(value, 'or'))
}

/** Returns in words whom a rule matches, without its percentage: `People in the cohort Founders where plan is pro`. */
export function audienceOf({ properties }: Rule, names: Names): string {
  const filters = properties ?? []
  const { subjects } = names
  if (filters.length === 0) return subjects === 'people' ? 'Everyone' : `All ${subjects}`
  const isCohort = ({ type }: RuleFilter) => type === 'cohort'
  const clauses = (chosen: readonly RuleFilter[]) =>
    chosen.map((filter) => clauseOf(filter, names)).join(' and ')
  const cohorts = clauses(filters.filter(isCohort))
  const others = clauses(filters.filter((filter) => !isCohort(filter)))
  const where = others === '' ? [] : [`where ${others}`]
  return [capitalised(subjects), ...(cohorts === '' ? [] : [cohorts]), ...where].join(' ')
}

/** Returns a rule as a sentence without a full stop: `50 % of people where plan is pro, always control`. */
export function sentenceOf(rule: Rule, names: Names): string {
  const audience = audienceOf(rule, names)
  const share = shareOf(rule)
  const isAll = audience === 'Everyone'
  const part = share === 100 ? audience : `${share} % of ${isAll ? 'everyone' : lowered(audience)}`
  return `${part}${rule.variant ? `, always ${rule.variant}` : ''}`
}

/** Returns the percentage of a rule. Without a percentage, the rule covers everybody who matches. */
export function shareOf({ rollout_percentage: share }: Rule): number {
  return share ?? 100
}

function capitalised(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1)
}

function lowered(words: string): string {
  return words.charAt(0).toLowerCase() + words.slice(1)
}

/** Returns the differences between two drafts of a flag as sentences, the most important difference first. */
export function sentencesOfEdit(before: Draft, after: Draft, names: Names): readonly string[] {
  const plain = (label: string, one: string, other: string) =>
    one === other ? [] : [`${label}: ${one || 'none'} → ${other || 'none'}.`]
  const said = (is: boolean, was: boolean, on: string, off: string) =>
    is === was ? [] : [is ? on : off]
  return [
    ...said(after.active, before.active, 'Switched on.', 'Switched off.'),
    ...ruleSentences(before.rules, after.rules, names),
    ...variantSentences(before.variants, after.variants),
    ...payloadSentences(before, after),
    ...said(
      after.continuity,
      before.continuity,
      'People keep the same variant after login.',
      'People may get another variant after login.',
    ),
    ...plain('Key', before.key, after.key),
    ...plain('Description', before.name, after.name),
    ...plain('Tags', before.tags.join(', '), after.tags.join(', ')),
  ]
}

/** The positions of a rule before and after a change. */
interface Pair {
  readonly from: number
  readonly to: number
}

function ruleSentences(
  before: readonly Rule[],
  after: readonly Rule[],
  names: Names,
): readonly string[] {
  const pairs = pairsOf(before, after)
  const partnerOf = new Map(pairs.map(({ from, to }) => [to, from]))
  const kept = new Set(pairs.map(({ from }) => from))
  const removed = before.flatMap((rule, at) =>
    kept.has(at) ? [] : [`Rule removed: ${sentenceOf(rule, names)}.`],
  )
  const others = after.flatMap((rule, at) => {
    const from = before[partnerOf.get(at) ?? -1]
    if (from === undefined) return [`Rule ${at + 1} added: ${sentenceOf(rule, names)}.`]
    return changedRule(from, rule, at, names)
  })
  const isMoved = pairs.some(({ from }, at) => (pairs[at + 1]?.from ?? from) < from)
  return [...others, ...removed, ...(isMoved ? ['The order of the rules changed.'] : [])]
}

function changedRule(from: Rule, rule: Rule, at: number, names: Names): readonly string[] {
  const audience = audienceOf(rule, names)
  const isSame = filtersText(from) === filtersText(rule)
  const shares = `${shareOf(from)} % → ${shareOf(rule)} %`
  const variantOf = ({ variant }: Rule) => (variant ? `always ${variant}` : 'by the shares')
  return [
    ...(isSame ? [] : [`Rule ${at + 1}: ${audienceOf(from, names)} → ${lowered(audience)}.`]),
    ...(shareOf(from) === shareOf(rule)
      ? []
      : [`Rule ${at + 1}, ${lowered(audience)}: ${shares}.`]),
    ...(variantOf(from) === variantOf(rule)
      ? []
      : [`Rule ${at + 1}, variant: ${variantOf(from)} → ${variantOf(rule)}.`]),
  ]
}

function filtersText({ properties }: Rule): string {
  // The names of cohorts are not compared: rules from the API contain them, and rules from the log of changes do not.
  return JSON.stringify(properties ?? [], (name, value: unknown) =>
    name === 'cohort_name' ? undefined : value,
  )
}

/**
 * Pairs each rule before a change with the rule after the change that is considered the same. Rules with equal filters
 * are paired first. The remaining rules are then paired if they have the same position. The pairs are ordered by the
 * position after the change.
 */
function pairsOf(before: readonly Rule[], after: readonly Rule[]): readonly Pair[] {
  const left = new Set(before.keys())
  const take = (from: number | undefined, to: number): readonly Pair[] => {
    if (from === undefined) return []
    left.delete(from)
    return [{ from, to }]
  }
  const equal = after.flatMap((rule, to) => {
    const fits = (from: number) => filtersText(before[from] ?? {}) === filtersText(rule)
    return take(left.has(to) && fits(to) ? to : [...left].find(fits), to)
  })
  const paired = new Set(equal.map(({ to }) => to))
  const rest = after.flatMap((_, to) => (paired.has(to) || !left.has(to) ? [] : take(to, to)))
  return [...equal, ...rest].sort((one, other) => one.to - other.to)
}

function variantSentences(
  before: readonly Variant[],
  after: readonly Variant[],
): readonly string[] {
  const sharesOf = (variants: readonly Variant[]) =>
    new Map(variants.map(({ key, rollout_percentage: share }) => [key, share]))
  const from = sharesOf(before)
  const to = sharesOf(after)
  const added = [...to]
    .filter(([key]) => !from.has(key))
    .map(([key, share]) => `${key} (${share} %)`)
  const removed = [...from.keys()].filter((key) => !to.has(key))
  const changed = [...to].flatMap(([key, share]) => {
    const was = from.get(key)
    return was === undefined || was === share ? [] : [`${key} ${was} % → ${share} %`]
  })
  const say = (label: string, items: readonly string[]) =>
    items.length === 0 ? [] : [`${label}: ${items.join(', ')}.`]
  return [
    ...say('Variants added', added),
    ...say('Variants removed', removed),
    ...say('Shares of variants', changed),
  ]
}

function payloadSentences(before: Draft, after: Draft): readonly string[] {
  const keys = [...new Set([...Object.keys(before.payloads), ...Object.keys(after.payloads)])]
  return keys.flatMap((key) => {
    const from = payloadOf(before.payloads, key)?.trim() ?? ''
    const to = payloadOf(after.payloads, key)?.trim() ?? ''
    if (from === to) return []
    const whose = key === 'true' ? 'Payload' : `Payload of ${key}`
    return [`${whose} ${from === '' ? 'added' : to === '' ? 'removed' : 'changed'}.`]
  })
}

/** A changed field in the log of changes. `before` and `after` are absent if the values were too large to be stored. */
export interface LoggedChange {
  readonly field: string
  readonly before?: unknown
  readonly after?: unknown
}

const BLANK: DraftFields = { key: '', name: '', active: false, tags: [], filters: {} }

/** Returns an entry of the log of changes as sentences. */
export function sentencesOfLog(changes: readonly LoggedChange[], names: Names): readonly string[] {
  const isDrawn = ({ field, before, after }: LoggedChange) =>
    DRAWN.includes(field) && (field !== 'filters' || (before != null && after != null))
  const drawn = changes.filter(isDrawn)
  const side = (which: 'before' | 'after') => {
    const fields = drawn.map((change) => [change.field, change[which] ?? undefined])
    return draftOf({ ...BLANK, ...Object.fromEntries(fields) } as DraftFields)
  }
  const others = changes.filter((change) => !isDrawn(change) && !UNSAID.includes(change.field))
  return [
    ...sentencesOfEdit(side('before'), side('after'), names),
    ...others.map(({ field }) => `${capitalised(field.replaceAll('_', ' '))} changed.`),
  ]
}

/**
 * Fields that only change together with other fields. They get no sentences of their own, because the sentences about
 * the other fields say enough.
 */
const UNSAID = ['deleted', 'performed_rollback']
/**
 * The fields in the log of changes that are also fields of a draft. Their changes are described like the changes of a
 * draft.
 */
const DRAWN = ['key', 'name', 'active', 'tags', 'filters', 'ensure_experience_continuity']
