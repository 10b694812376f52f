/**
 * Checks the stored data for `tenrec doctor`: events that wait to be processed, dead letters, and filters of flags,
 * cohorts and actions that can never match.
 */
import { type FilterFault, faultText } from '../../rules/filters/filter-faults.ts'
import { actionFaults, cohortFaults } from '../../rules/filters/saved-filters.ts'
import { flagFaults } from '../../rules/flags/flag-faults.ts'
import { openStore } from '../../store/open-store.ts'
import { FILTERS_NAMED_MAX } from '../limits.ts'
import { type Finding, fine, problem, warning } from './doctor-finding.ts'

const FILTERS = 'stored_filters'
/** The number of waiting blocks that counts as large. A daemon that keeps up always has a few. */
const BLOCKS_MANY = 5000

/**
 * Checks dead letters and waiting blocks. It reads a few values, and counts the dead letters. Throws `OperatorError`.
 */
export async function checkStored(dataDir: string, isServed: boolean): Promise<readonly Finding[]> {
  const request = { dataDir, environments: [], isWriting: false }
  return openStore(request, ({ events, log }) => {
    const { deadLetters, position } = events.statistics()
    const last = log.extent()?.last ?? 0
    return [judgeDeadLetters(deadLetters), judgeBacklog(Math.max(0, last - position), isServed)]
  })
}

/** Judges the number of acknowledged events that could not be processed. */
export function judgeDeadLetters(count: number): Finding {
  const check = 'dead_letters'
  if (count === 0) return fine(check, 'There are no dead letters.')
  const message = `${count} acknowledged events or blocks could not be processed and are kept as dead letters. The log of the daemon names the reasons. Please report them.`
  return problem(check, message)
}

/** Judges the number of blocks of accepted events that wait to be processed. */
export function judgeBacklog(blocks: number, isServed: boolean): Finding {
  const check = 'backlog'
  if (blocks === 0) return fine(check, 'All accepted events are processed.')
  const waiting = `${blocks} blocks of accepted events wait to be processed.`
  if (!isServed) return fine(check, `${waiting} The daemon processes them when it starts.`)
  if (blocks < BLOCKS_MANY) return fine(check, waiting)
  return warning(
    check,
    `${waiting} Processing is behind. If this continues, give the machine more cores or send fewer events.`,
  )
}

/**
 * Returns a warning for each filter that can never match, in all projects. Throws `OperatorError`. Reads all flags,
 * cohorts and actions, and compiles each pattern.
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
    return `A filter of ${what} in project ${projectId} never matches: ${text}`
  })
}

function findingsOf(texts: readonly string[]): readonly Finding[] {
  if (texts.length === 0)
    return [fine(FILTERS, 'All filters of flags, cohorts and actions are valid.')]
  const findings = texts.slice(0, FILTERS_NAMED_MAX).map((text) => warning(FILTERS, text))
  const rest = texts.length - findings.length
  return rest === 0
    ? findings
    : [...findings, warning(FILTERS, `${rest} more filters never match.`)]
}
