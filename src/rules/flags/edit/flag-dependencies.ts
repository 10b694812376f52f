/**
 * Checks the dependencies between flags when a flag changes. Source: docs/compatibility/flags.md, "Feature flag
 * filters".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import type { JsonObject } from '../../../base/json.ts'
import { DEPENDENCY_OPERATOR } from '../../filters/operator-names.ts'
import { flagReferences, propertiesOf, referenceOf } from '../flag-references.ts'
import { DEPENDENTS_NAMED_MAX } from '../limits.ts'
import type { Flag, FlagRepository } from '../types.ts'

/**
 * Throws 400 whose `attr` is `filters` if the filters refer to another flag in an invalid form, to an unknown or
 * disabled flag, or back to the flag itself through others. `ownId` is the id of the flag, or null for a new flag.
 */
export function checkDependencies(
  filters: JsonObject,
  ownId: number | null,
  repository: FlagRepository,
): void {
  const targets = new Set<number>()
  for (const { type, key, operator } of propertiesOf(filters)) {
    if (type !== 'flag') continue
    if (operator !== DEPENDENCY_OPERATOR) {
      throw invalidInput(
        'filters',
        'needs the operator `flag_evaluates_to` in every filter of the type flag',
      )
    }
    const id = referenceOf(key)
    if (id === null)
      throw invalidInput(
        'filters',
        'needs the ID of a flag as `key` of every filter of the type flag',
      )
    if (id === ownId) {
      throw invalidInput('filters', 'refers to the flag itself. A flag cannot depend on itself')
    }
    const target = repository.flagById(id)
    if (target === null || target.deleted) {
      throw invalidInput('filters', `refers to flag ${id}, which does not exist`)
    }
    if (!target.active)
      throw invalidInput(
        'filters',
        `refers to flag \`${target.key}\`, which is disabled. Enable it first`,
      )
    targets.add(id)
  }
  if (ownId !== null && leadsTo(ownId, targets, repository)) {
    throw invalidInput(
      'filters',
      'refers to a flag that depends on this one. Flags cannot depend on each other in a circle',
    )
  }
}

/** Throws 400 without an `attr` if active flags depend on a flag that is about to be disabled or deleted. */
export function requireNoDependents(flag: Flag, repository: FlagRepository, what: string): void {
  const dependents = repository.flags.filter(
    ({ id, active, filters }) =>
      id !== flag.id && active && flagReferences(filters).includes(flag.id),
  )
  if (dependents.length === 0) return
  throw new ServiceError(
    'invalid_input',
    `Cannot ${what} the flag \`${flag.key}\`, because ${named(dependents)} depend on it. Change them first.`,
  )
}

/**
 * Throws 400 without an `attr` if a flag that is about to be restored would depend on itself through other flags. That
 * is possible because the flags that it depends on may have been changed while it was deleted.
 */
export function requireNoCircle(flag: Flag, repository: FlagRepository): void {
  if (!leadsTo(flag.id, flagReferences(flag.filters), repository)) return
  throw new ServiceError(
    'invalid_input',
    `Cannot restore the flag \`${flag.key}\`, because a flag that it depends on now depends on it. Flags cannot depend on each other in a circle. Change them first.`,
  )
}

/** Throws 400 without an `attr` if a flag that is about to be enabled depends on a disabled flag. */
export function requireActiveDependencies(flag: Flag, repository: FlagRepository): void {
  const disabled = flagReferences(flag.filters)
    .map((id) => repository.flagById(id))
    .filter((target) => target !== null && !target.deleted && !target.active)
    .filter((target) => target !== null)
  if (disabled.length === 0) return
  throw new ServiceError(
    'invalid_input',
    `Cannot enable the flag \`${flag.key}\`, because it depends on ${named(disabled)}. Enable them first.`,
  )
}

/** Returns whether one of the flags `from` is the flag `id` or depends on it, directly or through other flags. */
function leadsTo(id: number, from: Iterable<number>, repository: FlagRepository): boolean {
  const seen = new Set<number>()
  const rest = [...from]
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    if (next === id) return true
    if (seen.has(next)) continue
    seen.add(next)
    const flag = repository.flagById(next)
    if (flag !== null && !flag.deleted) rest.push(...flagReferences(flag.filters))
  }
  return false
}

function named(flags: readonly Flag[]): string {
  const names = flags.slice(0, DEPENDENTS_NAMED_MAX).map(({ id, key }) => `${key} (${id})`)
  const more = flags.length - names.length
  return names.join(', ') + (more > 0 ? ` and ${more} more` : '')
}
