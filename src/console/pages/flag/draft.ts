/** A flag while it is edited: what of it changed, and what a reader is told about a condition. */
import { type PropertyFilter, type Shapes, sentenceOfFilter } from '../../kit.ts'

/** A flag as it is stored. */
export type Flag = Shapes['FeatureFlag']

/** One of its conditions: for whom, for how many of them, and which variant they get. */
export interface Condition {
  readonly properties?: readonly PropertyFilter[] | null
  readonly rollout_percentage?: number | null
  readonly variant?: string | null
}

/** A variant and its share of all who get one. */
export interface Variant {
  readonly key: string
  readonly name?: string | null
  readonly rollout_percentage: number
}

/** What is edited. Payloads are texts of JSON, by variant; `true` is that of a flag without variants. */
export interface Draft {
  readonly key: string
  readonly name: string
  readonly active: boolean
  readonly tags: readonly string[]
  readonly continuity: boolean
  readonly conditions: readonly Condition[]
  readonly variants: readonly Variant[]
  readonly payloads: Readonly<Record<string, string>>
}

/** The draft with which editing begins. */
export function draftOf(flag: Flag): Draft {
  const { groups, multivariate, payloads } = flag.filters
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
    conditions: (groups ?? []) as readonly Condition[],
    variants: (multivariate?.variants ?? []) as readonly Variant[],
    payloads: Object.fromEntries(texts) as Record<string, string>,
  }
}

/** The filters that a draft stands for; what the fields do not show is kept from the flag. */
export function filtersOf(flag: Flag, { conditions, variants, payloads }: Draft): Flag['filters'] {
  const outcomes = variants.length === 0 ? ['true'] : variants.map(({ key }) => key)
  const kept = Object.entries(payloads).filter(
    ([key, text]) => text.trim() !== '' && outcomes.includes(key),
  )
  return {
    ...flag.filters,
    groups: conditions,
    multivariate: variants.length === 0 ? null : { variants },
    payloads: Object.fromEntries(kept),
  } as Flag['filters']
}

/** What its author has changed since editing began. */
export function editedOf(flag: Flag, draft: Draft): Partial<Draft> {
  const before: Record<string, unknown> = { ...draftOf(flag) }
  const edited = Object.entries(draft).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  )
  return Object.fromEntries(edited) as Partial<Draft>
}

/** The body of a change of the stored flag; `version` lets the daemon refuse what somebody else changed meanwhile. */
export function changesOf(flag: Flag, { continuity, tags, ...edited }: Partial<Draft>) {
  const { conditions, variants, payloads, ...plain } = edited
  return {
    ...plain,
    ...(tags && { tags: [...tags] }),
    ...(continuity !== undefined && { ensure_experience_continuity: continuity }),
    ...((conditions ?? variants ?? payloads) && {
      filters: filtersOf(flag, { ...draftOf(flag), ...edited }),
    }),
    version: flag.version,
    original_flag: flag as unknown as Record<string, unknown>,
  }
}

/** What is wrong with a draft, or null; the daemon checks all of it again. */
export function problemOf({ variants, payloads }: Draft): string | null {
  const sum = variants.reduce((all, { rollout_percentage: share }) => all + share, 0)
  if (variants.length > 0 && Math.abs(sum - 100) > 0.001) {
    return `The shares of the variants are ${Math.round(sum * 100) / 100} % together; they must be 100 %.`
  }
  for (const [variant, text] of Object.entries(payloads)) {
    if (text.trim() === '') continue
    try {
      JSON.parse(text)
    } catch {
      return `The payload of ${variant} is no JSON.`
    }
  }
  return null
}

/** Shares that are equal as far as hundredths go, and 100 together: 33.34, 33.33, 33.33. */
export function equalShares(variants: readonly Variant[]): readonly Variant[] {
  const share = Math.floor(10_000 / variants.length) / 100
  const rest = Math.round((100 - share * (variants.length - 1)) * 100) / 100
  return variants.map((one, at) => ({ ...one, rollout_percentage: at === 0 ? rest : share }))
}

/** A variant gets another name; its payload, and conditions that always give it, follow. */
export function renamed(
  { conditions, variants, payloads }: Draft,
  at: number,
  key: string,
): Partial<Draft> {
  const from = variants[at]?.key ?? ''
  const { [from]: payload = '', ...others } = payloads
  const isOf = (one: Condition) => one.variant === from && from !== ''
  return {
    variants: variants.map((one, place) => (place === at ? { ...one, key } : one)),
    payloads: { ...others, [key]: payload },
    conditions: conditions.map((one) => (isOf(one) ? { ...one, variant: key } : one)),
  }
}

/** A condition as a sentence. */
export function sentenceOf(
  { properties, rollout_percentage: share, variant }: Condition,
  who: string,
): string {
  const filters = properties ?? []
  const whom =
    filters.length === 0
      ? `all ${who}`
      : `${who} whose ${filters.map(sentenceOfFilter).join(' and whose ')}`
  const part = share == null || share === 100 ? '' : `${share} % of `
  return `${part}${whom}${variant == null || variant === '' ? '' : `: always ${variant}`}`
}
