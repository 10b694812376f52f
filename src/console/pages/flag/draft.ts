/**
 * The draft of a flag that is being edited: its fields, how it differs from the stored flag, and what is wrong with it.
 */
import type { components } from '../../base/api-types.d.ts'
import { jsonFault } from './json-fault.ts'

/** A flag in the form in which the API returns it. */
export type Flag = components['schemas']['FeatureFlag']

/** A filter of a rule: a property, the membership in a cohort, or the value of another flag. */
export interface RuleFilter {
  readonly key: string
  readonly type: 'person' | 'group' | 'cohort' | 'flag'
  /** How the value is compared. A filter on a cohort without an operator means "in". */
  readonly operator?: string
  readonly value?: unknown
  readonly group_type_index?: number | null
}

/**
 * A rule of a flag: its filters, the percentage of the matching users, and the variant that they get. In the API, it is
 * a condition.
 */
export interface Rule {
  readonly properties?: readonly RuleFilter[] | null
  readonly rollout_percentage?: number | null
  readonly variant?: string | null
}

/** A variant of a flag. `rollout_percentage` is its share, in percent, of all users who get a variant. */
export interface Variant {
  readonly key: string
  readonly name?: string | null
  readonly rollout_percentage: number
}

/**
 * The fields of a flag while it is edited. `payloads` contains a JSON text for each variant. If the flag has no
 * variants, the key of its payload is `true`.
 */
export interface Draft {
  readonly key: string
  readonly name: string
  readonly active: boolean
  readonly tags: readonly string[]
  readonly continuity: boolean
  readonly rules: readonly Rule[]
  readonly variants: readonly Variant[]
  readonly payloads: Readonly<Record<string, string>>
}

/** The fields of a stored flag from which a draft is made. */
export interface DraftFields {
  readonly key: string
  readonly name: string
  readonly active: boolean
  readonly tags: readonly string[]
  readonly ensure_experience_continuity?: boolean | null
  readonly filters: Readonly<Record<string, unknown>>
}

/** Returns the draft for a flag. It contains the values of the stored flag. */
export function draftOf(flag: DraftFields): Draft {
  const { groups, multivariate, payloads } = flag.filters as Flag['filters']
  const texts = Object.entries(payloads ?? {}).map(([variant, payload]) => [
    variant,
    typeof payload === 'string' ? payload : JSON.stringify(payload),
  ])
  return {
    key: flag.key,
    name: flag.name,
    active: flag.active,
    tags: flag.tags,
    continuity: flag.ensure_experience_continuity ?? false,
    rules: (groups ?? []) as readonly Rule[],
    variants: (multivariate?.variants ?? []) as readonly Variant[],
    payloads: Object.fromEntries(texts) as Record<string, string>,
  }
}

/** Returns the keys of the values of a flag that can have a payload. */
function outcomesOf({ variants }: Pick<Draft, 'variants'>): readonly string[] {
  return variants.length === 0 ? ['true'] : variants.map(({ key }) => key)
}

/**
 * Returns the filters that a draft describes. Members of the filters that the form does not show are taken from the
 * flag.
 */
export function filtersOf(flag: Pick<Flag, 'filters'>, draft: Draft): Flag['filters'] {
  const { rules, variants, payloads } = draft
  const outcomes = outcomesOf(draft)
  const kept = Object.entries(payloads).filter(
    ([key, text]) => text.trim() !== '' && outcomes.includes(key),
  )
  return {
    ...flag.filters,
    groups: rules,
    multivariate: variants.length === 0 ? null : { variants },
    payloads: Object.fromEntries(kept),
  } as Flag['filters']
}

/** Returns the fields of a draft that differ from the stored flag. */
export function editedOf(flag: DraftFields, draft: Draft): Partial<Draft> {
  const before: Record<string, unknown> = { ...draftOf(flag) }
  const edited = Object.entries(draft).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  )
  return Object.fromEntries(edited) as Partial<Draft>
}

/**
 * Returns the body of the request that changes the stored flag. It contains the version of the flag, so that the daemon
 * can refuse to overwrite changes that another user has made since.
 */
export function changesOf(flag: Flag, { continuity, tags, ...edited }: Partial<Draft>) {
  const { rules, variants, payloads, ...plain } = edited
  return {
    ...plain,
    ...(tags && { tags: [...tags] }),
    ...(continuity !== undefined && { ensure_experience_continuity: continuity }),
    ...((rules ?? variants ?? payloads) && {
      filters: filtersOf(flag, { ...draftOf(flag), ...edited }),
    }),
    version: flag.version,
    original_flag: flag as unknown as Record<string, unknown>,
  }
}

/** The members of the request body that describe the change itself and are not fields of the flag. */
const ABOUT_CHANGE = ['version', 'original_flag', 'note']

/**
 * Returns the body of the request that takes a change back. The daemon refuses it if another user has changed the same
 * fields since.
 */
export function undoOf(before: Flag, body: object, after: Flag) {
  const fields = Object.keys(body).filter((name) => !ABOUT_CHANGE.includes(name))
  const values: Partial<Flag> = Object.fromEntries(
    fields.map((name) => [name, before[name as keyof Flag]]),
  )
  return {
    ...values,
    version: after.version,
    original_flag: after as unknown as Record<string, unknown>,
  }
}

/**
 * Returns the payload for a value. The own-property test is needed because a variant may be called like a member that
 * every object has, such as `constructor`.
 */
export function payloadOf(payloads: Draft['payloads'], key: string): string | undefined {
  return Object.hasOwn(payloads, key) ? payloads[key] : undefined
}

/** Returns the sum of the shares of the variants, rounded to hundredths. */
export function sumOfShares(variants: readonly Variant[]): number {
  const sum = variants.reduce((all, { rollout_percentage: share }) => all + share, 0)
  return Math.round(sum * 100) / 100
}

/** Returns a sentence about what is wrong with a draft, or null. The daemon checks the flag again when it is saved. */
export function problemOf(draft: Draft): string | null {
  const { key, rules, variants, payloads } = draft
  if (key.trim() === '') return 'The key is empty.'
  const unfinished = rules.findIndex(({ properties }) => properties?.some(isUnfinished))
  if (unfinished !== -1) return `Rule ${unfinished + 1} has a condition that is not complete.`
  const sum = sumOfShares(variants)
  if (variants.length > 0 && sum !== 100) {
    return `The shares of the variants add up to ${sum} %. They must add up to 100 %.`
  }
  for (const variant of outcomesOf(draft)) {
    const fault = payloadFault(payloadOf(payloads, variant))
    if (fault !== null) {
      const whose = variant === 'true' ? 'The payload' : `The payload of ${variant}`
      return `${whose} is not JSON: line ${fault.line}, ${fault.words}.`
    }
  }
  return null
}

/** Returns the error in the JSON of a payload, or null. An empty payload has no error. */
export function payloadFault(text = '') {
  return text.trim() === '' ? null : jsonFault(text)
}

function isUnfinished({ key, type, operator = '', value }: RuleFilter): boolean {
  if (operator.endsWith('_set')) return key === ''
  return key === '' || (type !== 'flag' && (value === '' || value == null))
}

/**
 * Returns the variants with equal shares, rounded to hundredths of a percent. Their sum is 100, so the first share may
 * be larger: 33.34, 33.33, 33.33.
 */
export function equalShares(variants: readonly Variant[]): readonly Variant[] {
  const share = Math.floor(10_000 / variants.length) / 100
  const rest = Math.round((100 - share * (variants.length - 1)) * 100) / 100
  return variants.map((one, at) => ({ ...one, rollout_percentage: at === 0 ? rest : share }))
}

/**
 * Moves the border between a variant and the next one by `by` percent. All other shares stay the same. No share becomes
 * negative.
 */
export function movedBorder(
  variants: readonly Variant[],
  at: number,
  by: number,
): readonly Variant[] {
  const left = variants[at]
  const right = variants[at + 1]
  if (left === undefined || right === undefined) return variants
  const { rollout_percentage: before } = left
  const both = before + right.rollout_percentage
  const share = Math.round(Math.max(0, Math.min(both, before + by)) * 100) / 100
  const rest = Math.round((both - share) * 100) / 100
  return variants
    .with(at, { ...left, rollout_percentage: share })
    .with(at + 1, { ...right, rollout_percentage: rest })
}

/** Returns a list in which one element has moved to another position. */
export function moved<Item>(list: readonly Item[], from: number, to: number): readonly Item[] {
  const item = list[from]
  if (item === undefined || to < 0 || to >= list.length) return list
  return list.toSpliced(from, 1).toSpliced(to, 0, item)
}

/**
 * Renames the variant at the index `at` of a draft. Returns the changed fields: the variants, the payloads, and the
 * rules. A rule that always gives this variant gets the new name.
 */
export function renamed(
  { rules, variants, payloads }: Draft,
  at: number,
  key: string,
): Partial<Draft> {
  const from = variants[at]?.key ?? ''
  const { [from]: payload = '', ...others } = payloads
  const isOf = (one: Rule) => one.variant === from && from !== ''
  return {
    variants: variants.map((one, place) => (place === at ? { ...one, key } : one)),
    payloads: { ...others, [key]: payload },
    rules: rules.map((one) => (isOf(one) ? { ...one, variant: key } : one)),
  }
}
