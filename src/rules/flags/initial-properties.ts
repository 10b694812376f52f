/**
 * Person properties that keep the first value of another property, such as `$initial_browser` for `$browser`. As long
 * as a person has no such value, filters read the current value of the other property instead. Source:
 * docs/compatibility/decisions.md, "Flag decisions".
 */
import { SLOT_NAMES, SLOT_OF } from '../persons/automatic-properties.ts'

/** Returns the property that filters read if the property `key` is missing, or null if there is none. */
export function standInFor(key: string): string | null {
  const slot = SLOT_OF.get(key) ?? 0
  // Each odd slot is an initial property, and the slot before it contains the latest value. `utm_name` was added later
  // than the others, and filters never read it instead of `$initial_utm_name`.
  const current = slot % 2 === 0 ? undefined : SLOT_NAMES[slot - 1]
  return current === undefined || current === 'utm_name' ? null : current
}
