/**
 * Makes the cohort of an experiment's exposed persons. Source: docs/compatibility/experiments.md, "Exposure cohort".
 */
import { ServiceError } from '../../../base/errors.ts'
import { addMembers } from '../../../engine/front/cohort-members.ts'
import { hasScope, scopesIn } from '../../../rules/access/scopes.ts'
import { definitionOf } from '../../../rules/experiments/edit/definition-of.ts'
import type { ExperimentView } from '../../../rules/experiments/edit/stored-experiment.ts'
import type { CohortView } from '../../../rules/persons/cohort-shapes.ts'
import { NAME_UNITS_MAX } from '../limits.ts'
import { changed, type PersonServices } from '../persons/person-services.ts'
import { changeExperiment, type ExperimentCall, requireFlagEdit } from './experiment-access.ts'

/**
 * For each daemon, the experiments whose cohort is being created, such as `1/7` for experiment 7 of project 1. The key
 * of the map is the object `services.queries` of the daemon, because tests run several daemons in one process.
 */
const creating = new WeakMap<object, Set<string>>()

/**
 * Creates a static cohort of the persons who were exposed until now, and notes it in the experiment. Throws 400 if the
 * experiment was not launched, has a cohort already, or gets one from another request at this moment. Throws 403 if the
 * caller may not change the flag or create cohorts. Throws the errors of a query.
 */
export async function createExposureCohort(
  call: ExperimentCall,
  view: ExperimentView,
): Promise<CohortView> {
  const { projectId, grant } = call
  const { id, fields } = view.experiment
  requireFlagEdit(call, view)
  if (!hasScope(scopesIn(grant, projectId), 'cohort:write')) {
    const detail = 'Creating the cohort needs the scope `cohort:write`. Use a key with this scope.'
    throw new ServiceError('permission_denied', detail)
  }
  const formerId = fields.exposure_cohort ?? null
  if (formerId !== null && (await cohortOf(call, formerId)) !== null) {
    throw refused(`The experiment already has the cohort ${formerId}. Delete that cohort first.`)
  }
  return await alone(call, id, () => create(call, view))
}

async function create(call: ExperimentCall, view: ExperimentView): Promise<CohortView> {
  const { services, projectId, actor, request } = call
  const { id, fields } = view.experiment
  const { exposure_cohort: formerId = null, start_date: startDate } = fields
  const distinctIds = await exposedIds(call, view)
  // A machine of an older version would store the cohort without its members, and would never correct this.
  const refusal = services.refusal() ?? services.mixedRefusal()
  if (refusal !== null) throw refusal
  const cohort = {
    name: `Persons exposed to the experiment "${fields.name}"`.slice(0, NAME_UNITS_MAX),
    description: '',
    isStatic: true,
    filters: null,
    personUuids: [],
    distinctIds: [],
  }
  const { id: cohortId } = await changed(call, { kind: 'create_cohort', cohort }, 'cohort')
  const deleted = { kind: 'update_cohort', id: cohortId, changes: { deleted: true } } as const
  try {
    // `changeExperiment` below stores an audit entry that names the experiment. This additional entry names the cohort.
    const entry = request.audit?.entry()
    if (entry !== undefined) {
      const objectId = `cohort ${cohortId}`
      await services.queries.organization('recordAudit', [{ ...entry, projectId, objectId }])
    }
    const members = { projectId, cohortId, actor, distinctIds }
    const isStored = await addMembers(services.commands, members)
    const made = isStored ? await cohortOf(call, cohortId) : null
    if (made === null) throw refused('The cohort was deleted while it was made. Try again.')
    const set = { action: 'set_exposure_cohort', id, cohortId, formerId, startDate } as const
    await changeExperiment(call, set)
    return made
  } catch (error) {
    // Because of the error, the experiment does not refer to the new cohort, so the cohort is deleted. If the deletion
    // fails, an unused cohort remains, which does no harm.
    await services.commands.run(projectId, actor, deleted).catch(() => undefined)
    throw error
  }
}

/**
 * Runs `action`. Throws 400 if an earlier request is still creating the cohort of this experiment, because creating a
 * cohort may scan many events.
 */
async function alone<Result>(
  { services, projectId }: ExperimentCall,
  id: number,
  action: () => Promise<Result>,
): Promise<Result> {
  const running = creating.get(services.queries) ?? new Set()
  creating.set(services.queries, running)
  const name = `${projectId}/${id}`
  if (running.has(name)) {
    throw refused('The cohort of the experiment is being created. Wait until it is finished.')
  }
  running.add(name)
  try {
    return await action()
  } finally {
    running.delete(name)
  }
}

function exposedIds(call: ExperimentCall, view: ExperimentView): Promise<Uint32Array> {
  const { services, projectId, nowMs, request } = call
  const { fields } = view.experiment
  if (fields.start_date === null) {
    throw refused(
      'The experiment was not launched yet, so nobody was exposed. Launch the experiment first.',
    )
  }
  const flag = services.flags.flagById(projectId, fields.flag_id)
  if (flag === null) {
    throw refused('The flag of the experiment was removed, so its variants are unknown.')
  }
  const experiment = definitionOf(view, flag)
  if (experiment.groupTypeIndex !== null) {
    throw refused('The experiment counts groups, and a cohort consists of persons.')
  }
  const { directory }: Pick<PersonServices, 'directory'> = services
  const project = directory.projectById(projectId)
  const task = {
    projectId,
    experiment,
    timezone: project?.timezone ?? 'UTC',
    testAccountFilters: project?.testAccountFilters ?? [],
    pathCleaningFilters: project?.pathCleaningFilters ?? [],
    channelTypeRules: project?.customChannelTypeRules ?? [],
    nowMs,
  }
  return services.queries.exposedMembers(task, (giveUp) => request.onLeave(giveUp))
}

/** Returns a cohort that is not deleted, with the number of its members. */
async function cohortOf(
  { services, projectId }: ExperimentCall,
  id: number,
): Promise<CohortView | null> {
  const cohorts = await services.queries.knownCohorts(projectId)
  return cohorts.find((cohort) => cohort.id === id) ?? null
}

function refused(detail: string): ServiceError {
  return new ServiceError('invalid_input', detail)
}
