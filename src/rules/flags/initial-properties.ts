/**
 * Person properties that keep the first value of another one: while a person lacks them, filters see the
 * current value instead. Source: docs/compatibility/decisions.md, "Flag decisions".
 */
import { SLOT_NAMES, SLOT_OF } from '../persons/automatic-properties.ts'

/** The property whose value stands in for a missing one, or null. */
export function standInFor(key: string): string | null {
  const slot = SLOT_OF.get(key) ?? 0
  // Even slots hold latest values. `utm_name` came later than the others and has no stand-in.
  const current = slot % 2 === 0 ? undefined : SLOT_NAMES[slot - 1]
  return current === undefined || current === 'utm_name' ? null : current
}
