/**
 * Normalizes paths by the rules of a project, so that `/item/17` and `/item/18` are one page. Source:
 * docs/compatibility/queries.md, "Web analytics".
 */
import { isObject, type JsonObject } from '../../../base/json.ts'
import { PatternReplacement } from '../../../base/pattern/pattern-replacement.ts'

/** Returns the form in which a path is shown. */
export type CleanPath = (path: string) => string

/** Returns every path unchanged. */
export const AS_IT_IS: CleanPath = (path) => path

/**
 * Returns a function that applies the rules of the setting `path_cleaning_filters`, ordered by their member `order`.
 * Rules with the same `order` keep the order of the setting. Each rule replaces all matches in the result of the
 * previous rule. A rule that cannot be compiled is left out. Matching a pattern can take seconds, so `check` is called
 * before each rule is applied. `check` may throw.
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

/**
 * Compiles a rule that replaces the matches of `regex` by the plain text `alias`. Returns null if the pattern cannot be
 * compiled.
 */
export function replacementOf(regex: unknown, alias: unknown): PatternReplacement | null {
  if (typeof regex !== 'string') return null
  const plain = typeof alias === 'string' ? alias.replaceAll('\\', '\\\\') : ''
  return PatternReplacement.compile(regex, plain)
}

function orderOf({ order }: JsonObject): number {
  return typeof order === 'number' ? order : 0
}
