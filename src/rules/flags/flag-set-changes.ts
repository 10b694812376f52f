/** Finds the differences between two sets of flags. A flag that is the same object in both sets is not read. */
import type { Flag } from './types.ts'

/** A flag that was added, removed or replaced. */
export interface FlagChange {
  /** The flag before the change. Null if the flag is new. */
  readonly before: Flag | null
  /** The flag after the change. Null if the flag was removed. */
  readonly now: Flag | null
}

/**
 * Returns the changes from one list of flags to another. Both lists must be in the order of ids. Returns null if there
 * are more than `changesMax` changes. The cost is linear, but only a few nanoseconds for a flag that is the same object
 * in both lists.
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

/**
 * Returns whether two records of a flag are the same. The filters need not be compared, because every change by a
 * client raises the version.
 */
export function isSameRecord(before: Flag, now: Flag): boolean {
  if (before === now) return true
  return (
    before.projectId === now.projectId &&
    before.version === now.version &&
    before.updatedAtMs === now.updatedAtMs &&
    before.key === now.key &&
    before.active === now.active &&
    before.deleted === now.deleted &&
    isSameList(before.experiments, now.experiments)
  )
}

/**
 * Returns whether two lists of experiments are equal. They must be compared, because linking an experiment to a flag
 * does not raise the version of the flag.
 */
function isSameList(before: Flag['experiments'] = [], now: Flag['experiments'] = []): boolean {
  return before.length === now.length && before.every((id, index) => id === now[index])
}
