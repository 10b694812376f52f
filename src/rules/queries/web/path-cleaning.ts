/**
 * Paths made alike by the rules of a project: `/item/17` and `/item/18` are one page. Source:
 * docs/compatibility/queries.md, "Web analytics".
 */
import { isObject, type JsonObject } from '../../../base/json.ts'
import { PatternReplacement } from '../../../base/pattern/pattern-replacement.ts'

/** A path as it is shown. */
export type CleanPath = (path: string) => string

/** Leaves every path as it is. */
export const AS_IT_IS: CleanPath = (path) => path

/**
 * The rules of the setting `path_cleaning_filters`, by `order`, then as they stand there: each replaces all
 * its matches in what the rule before has left. A rule that cannot be compiled is left out. Cost: that of a
 * pattern for each rule and path, which can be seconds: `check` is called before each, and may throw.
 */
export function pathCleaner(rules: readonly unknown[], check: () => void): CleanPath {
  const replacements = rules
    .filter(isObject)
    .toSorted((a, b) => orderOf(a) - orderOf(b))
    .map(({ regex, alias }) => replacementOf(regex, alias))
    .filter((replacement) => replacement !== null)
  return (path) =>
    replacements.reduce((text, rule) => {
      check()
      return rule.replaceAll(text)
    }, path)
}

/** What replaces the matches of a pattern by a plain text; null when it cannot be compiled. */
export function replacementOf(regex: unknown, alias: unknown): PatternReplacement | null {
  if (typeof regex !== 'string') return null
  const plain = typeof alias === 'string' ? alias.replaceAll('\\', '\\\\') : ''
  return PatternReplacement.compile(regex, plain)
}

function orderOf({ order }: JsonObject): number {
  return typeof order === 'number' ? order : 0
}
