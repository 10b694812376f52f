/** What differs between two sets of flags, found without a look into flags that are the same objects. */
import type { Flag } from './types.ts'

/** A flag that is new, gone or another one. */
export interface FlagChange {
  /** Null: it is new. */
  readonly before: Flag | null
  /** Null: it is gone. */
  readonly now: Flag | null
}

/**
 * The changes that lead from one list to another, both in the order of the ids; null when there are more
 * than `changesMax`. Linear, some nanoseconds for each flag that is the same object.
 */
export function changesOfFlags(
  before: readonly Flag[],
  now: readonly Flag[],
  changesMax: number,
): readonly FlagChange[] | null {
  const changes: FlagChange[] = []
  let old = 0
  let next = 0
  while (old < before.length || next < now.length) {
    const was = before[old]
    const is = now[next]
    if (was === is) {
      old++
      next++
      continue
    }
    const isGone = is === undefined || (was !== undefined && was.id < is.id)
    const isNew = was === undefined || (is !== undefined && is.id < was.id)
    if (isGone || isNew || !isSameRecord(was, is)) {
      changes.push({ before: isNew ? null : (was ?? null), now: isGone ? null : (is ?? null) })
      if (changes.length > changesMax) return null
    }
    if (!isNew) old++
    if (!isGone) next++
  }
  return changes
}

/** Every change raises the version, so that equal versions are equal flags. */
export function isSameRecord(before: Flag, now: Flag): boolean {
  if (before === now) return true
  return (
    before.projectId === now.projectId &&
    before.version === now.version &&
    before.updatedAtMs === now.updatedAtMs &&
    before.key === now.key &&
    before.active === now.active &&
    before.deleted === now.deleted
  )
}
