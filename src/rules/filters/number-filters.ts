/**
 * Numbers in flag filters: numbers as they are, and texts that are written like one, without spaces or
 * units. Source: docs/COMPATIBILITY.md, "Flag decisions".
 */
import { textOf } from './property-text.ts'

const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i
const NAMED = /^([+-]?)(inf|infinity|nan)$/i

/** The number that a value stands for (NaN is one of them), or null when it is none. */
export function numberOf(value: unknown): number | null {
  if (typeof value === 'number') return value
  const text = textOf(value)
  if (DECIMAL.test(text)) return Number(text)
  const named = NAMED.exec(text)
  if (named === null) return null
  if (named[2]?.toLowerCase() === 'nan') return Number.NaN
  return named[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
}

/** The limits of a `between` filter: two numbers, the first not above the second; else null. */
export function numberRange(
  value: unknown,
): { readonly least: number; readonly most: number } | null {
  if (!Array.isArray(value) || value.length !== 2) return null
  const least = numberOf(value[0])
  const most = numberOf(value[1])
  if (least === null || most === null || !(least <= most)) return null
  return { least, most }
}
