/** The check of `tenrec doctor` on stored filters of flags, cohorts and actions: those that can never match. */
import { type FilterFault, faultText } from '../../rules/filters/filter-faults.ts'
import { actionFaults, cohortFaults } from '../../rules/filters/saved-filters.ts'
import { flagFaults } from '../../rules/flags/flag-faults.ts'
import { openStore } from '../../store/open-store.ts'
import { FILTERS_NAMED_MAX } from '../limits.ts'
import { type Finding, fine, warning } from './doctor-finding.ts'

const CHECK = 'stored_filters'

/**
 * A warning for each filter that can never match, in all projects. Throws `OperatorError`. Cost: everything
 * about flags, cohorts and actions is read, and each pattern compiled.
 */
export function checkFilters(dataDir: string): Promise<readonly Finding[]> {
  return openStore({ dataDir, environments: [], isWriting: false }, async (store) => {
    const { projectIds, flags } = await store.readFlags()
    const ofFlags = flags.flatMap(({ projectId, key, filters }) =>
      described(projectId, `flag ${key}`, 'filters.', flagFaults(filters)),
    )
    const persons = store.events.persons()
    const ofSets = projectIds.flatMap((id) => [
      ...persons.cohorts(id, Number.MAX_SAFE_INTEGER, 0).results.flatMap((cohort) => {
        const faults = cohortFaults(cohort.filters['properties'])
        return described(id, `cohort ${cohort.id} (${cohort.name})`, 'filters.properties.', faults)
      }),
      ...persons.actions(id, Number.MAX_SAFE_INTEGER, 0).results.flatMap((action) => {
        const faults = actionFaults(action.steps)
        return described(id, `action ${action.id} (${action.name})`, '', faults)
      }),
    ])
    return findingsOf([...ofFlags, ...ofSets])
  })
}

function described(
  projectId: number,
  what: string,
  prefix: string,
  faults: readonly FilterFault[],
): readonly string[] {
  return faults.map((fault) => {
    const text = faultText({ ...fault, path: prefix + fault.path })
    return `${what} in project ${projectId} never matches there: ${text}`
  })
}

function findingsOf(texts: readonly string[]): readonly Finding[] {
  if (texts.length === 0)
    return [fine(CHECK, 'every filter of flags, cohorts and actions is valid')]
  const findings = texts.slice(0, FILTERS_NAMED_MAX).map((text) => warning(CHECK, text))
  const rest = texts.length - findings.length
  return rest === 0 ? findings : [...findings, warning(CHECK, `${rest} more filters never match`)]
}
