/** Code examples that ask for the value of a flag, in the languages of the SDKs. */
import type { Draft } from './draft.ts'

/**
 * Returns code examples for a flag, by language. `address` is the URL of the daemon, and `token` is the key of the
 * project.
 */
export function codeFor(
  { key, variants }: Pick<Draft, 'key' | 'variants'>,
  address: string,
  token: string,
): readonly (readonly [language: string, code: string])[] {
  const name = JSON.stringify(key)
  const [first] = variants
  const variant = JSON.stringify(variants.at(-1)?.key ?? '')
  const isSet = (call: string) => (first === undefined ? call : `${call} === ${variant}`)
  const browser = first === undefined ? `isFeatureEnabled(${name})` : `getFeatureFlag(${name})`
  const react =
    first === undefined ? `useFeatureFlagEnabled(${name})` : `useFeatureFlagVariantKey(${name})`
  const python =
    first === undefined ? `feature_enabled(${name}, user_id)` : `get_feature_flag(${name}, user_id)`
  const body = JSON.stringify({ token, distinct_id: 'USER_ID', flag_keys: [key] })
  return [
    ['Browser', `if (${isSet(`posthog.${browser}`)}) {\n  // The user gets it.\n}`],
    ['React', `const value = ${react}\nif (${isSet('value')}) {\n  // The user gets it.\n}`],
    [
      'Node',
      `const value = await posthog.getFeatureFlag(${name}, userId)\nif (${isSet('value')}) {\n  // The user gets it.\n}`,
    ],
    [
      'Python',
      `if posthog.${python}${first === undefined ? '' : ` == ${variant}`}:\n    ...  # The user gets it.`,
    ],
    [
      'curl',
      `curl -s '${address}/flags/?v=2' \\\n  -H 'Content-Type: application/json' \\\n  -d '${body.replaceAll("'", `'\\''`)}'`,
    ],
  ]
}
