/**
 * Normalises paths by the rules of a project, so that `/item/17` and `/item/18` are one page. Source:
 * docs/compatibility/queries.md, "Web analytics".
 */
import { isObject, type JsonObject } from '../../../base/json.ts'
import { PatternReplacement } from '../../../base/pattern/pattern-replacement.ts'

/** Returns a path as it is shown. */
export type CleanPath = (path: string) => string

/** Returns every path unchanged. */
export const AS_IT_IS: CleanPath = (path) => path

/**
 * Returns the function for the rules of the setting `path_cleaning_filters`. The rules are applied in the order of
 * `order` and then of the setting. Each rule replaces all its matches in the result of the rule before. A rule that
 * cannot be compiled is left out. Each rule and path costs one pattern, which can take seconds: `check` is called
 * before each and may throw.
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

/** Returns the replacement of the matches of a pattern by a plain text, or null if the pattern cannot be compiled. */
export function replacementOf(regex: unknown, alias: unknown): PatternReplacement | null {
  if (typeof regex !== 'string') return null
  const plain = typeof alias === 'string' ? alias.replaceAll('\\', '\\\\') : ''
  return PatternReplacement.compile(regex, plain)
}

function orderOf({ order }: JsonObject): number {
  return typeof order === 'number' ? order : 0
}
