/** The draft of a flag that is being edited: its changes, its problems, and its conditions as sentences. */
import { type PropertyFilter, type Shapes, sentenceOfFilter } from '../../kit.ts'

/** A flag as it is stored. */
export type Flag = Shapes['FeatureFlag']

/** A condition of a flag: its filters, the percentage of matching users, and the variant that they get. */
export interface Condition {
  readonly properties?: readonly PropertyFilter[] | null
  readonly rollout_percentage?: number | null
  readonly variant?: string | null
}

/** A variant, with its share of all users who get a variant. */
export interface Variant {
  readonly key: string
  readonly name?: string | null
  readonly rollout_percentage: number
}

/** The edited fields. Payloads are JSON texts by variant. The key `true` has the payload of a flag without variants. */
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

/** Returns the initial draft of a flag. */
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

/** Returns the filters of a draft. Members that have no field are taken from the flag. */
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

/** Returns the fields that the reader has changed since editing began. */
export function editedOf(flag: Flag, draft: Draft): Partial<Draft> {
  const before: Record<string, unknown> = { ...draftOf(flag) }
  const edited = Object.entries(draft).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  )
  return Object.fromEntries(edited) as Partial<Draft>
}

/**
 * Returns the body of a change to the stored flag. With `version` the daemon can refuse to overwrite changes of another
 * user.
 */
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

/** Returns the problem of a draft as a sentence, or null. The daemon checks everything again. */
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

/** Returns variants with equal shares, rounded to hundredths, whose sum is 100: 33.34, 33.33, 33.33. */
export function equalShares(variants: readonly Variant[]): readonly Variant[] {
  const share = Math.floor(10_000 / variants.length) / 100
  const rest = Math.round((100 - share * (variants.length - 1)) * 100) / 100
  return variants.map((one, at) => ({ ...one, rollout_percentage: at === 0 ? rest : share }))
}

/** Renames a variant, together with its payload and the conditions that always give it. */
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

/** Returns a condition as a sentence. */
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
