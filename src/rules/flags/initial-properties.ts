/**
 * Person properties that keep the first value of another property. As long as a person has no such value, filters read
 * the current value instead. Source: docs/compatibility/decisions.md, "Flag decisions".
 */
import { SLOT_NAMES, SLOT_OF } from '../persons/automatic-properties.ts'

/** Returns the property whose value stands in for a missing one, or null. */
export function standInFor(key: string): string | null {
  const slot = SLOT_OF.get(key) ?? 0
  // Even slots hold the latest values. `utm_name` was added later than the others and has no stand-in.
  const current = slot % 2 === 0 ? undefined : SLOT_NAMES[slot - 1]
  return current === undefined || current === 'utm_name' ? null : current
}
