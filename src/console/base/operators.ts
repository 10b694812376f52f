/** The operators of property filters, in words for readers. This file is pure, so that tests can import it. */

/** The operators that a reader can choose, worded as part of a sentence. */
export const OPERATORS: readonly (readonly [operator: string, words: string])[] = [
  ['exact', 'is'],
  ['is_not', 'is not'],
  ['icontains', 'contains'],
  ['not_icontains', 'does not contain'],
  ['regex', 'matches the pattern'],
  ['not_regex', 'does not match the pattern'],
  ['gt', 'is greater than'],
  ['gte', 'is at least'],
  ['lt', 'is less than'],
  ['lte', 'is at most'],
  ['is_set', 'is set'],
  ['is_not_set', 'is not set'],
  ['is_date_before', 'is before'],
  ['is_date_after', 'is after'],
]

/** Returns a condition as a part of a sentence: `plan is pro or team`, `email is set`. */
export function conditionWords(name: string, operator: string, values: string): string {
  const words = OPERATORS.find(([one]) => one === operator)?.[1] ?? operator.replaceAll('_', ' ')
  return operator.endsWith('_set') ? `${name} ${words}` : `${name} ${words} ${values}`
}
