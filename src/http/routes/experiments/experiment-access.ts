/**
 * The common part of the routes of experiments, holdouts and saved metrics: checks the rights of the caller, makes
 * changes, and shows the objects.
 */

import type { ServiceError } from '../../../base/errors.ts'
import type { JsonObject } from '../../../base/json.ts'
import type { ExposureQueries } from '../../../engine/threads/call-table.ts'
import {
  experimentBody,
  holdoutBody,
  savedMetricBody,
} from '../../../rules/experiments/edit/experiment-body.ts'
import type { ExperimentCommand } from '../../../rules/experiments/edit/experiment-changes.ts'
import type {
  ExperimentView,
  Holdout,
  SavedMetric,
} from '../../../rules/experiments/edit/stored-experiment.ts'
import { groupTypeOf } from '../../../rules/flags/group-type.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import type { SavedPlace } from '../../../rules/saved/saved.ts'
import type { Call } from '../../server/route.ts'
import { existing } from '../collection.ts'
import { type FlagServices, requireEdit } from '../flags/flag-access.ts'
import { ask, type OrganizationServices } from '../organization/organization-services.ts'
import type { PersonServices } from '../persons/person-services.ts'

/** The services that these routes need. */
export interface ExperimentServices extends FlagServices, OrganizationServices, PersonServices {
  readonly directory: FlagServices['directory'] &
    OrganizationServices['directory'] &
    PersonServices['directory']
  readonly queries: FlagServices['queries'] &
    OrganizationServices['queries'] &
    PersonServices['queries'] &
    ExposureQueries
  readonly flags: FlagServices['flags']
  /**
   * Returns the error that refuses a change while the cluster has machines of an older version, which could not read
   * the change. Returns null if there is no such machine.
   */
  readonly mixedRefusal: () => ServiceError | null
}

/** A request to one of these routes. */
export type ExperimentCall = Call<ExperimentServices>

/**
 * The parts of a request that a change needs. `projectId` is the project to change. It may differ from the project in
 * the path, for example when an experiment is copied to another project.
 */
type ChangingCall = Pick<ExperimentCall, 'request' | 'services' | 'projectId' | 'nowMs' | 'actor'>

const UNKNOWN = 'The project has no such experiment.'

/**
 * Returns the project and the number in the path. If the text in the path is not a number, the number is 0, which no
 * experiment has.
 */
export function placeInPath(call: ExperimentCall): SavedPlace {
  return { projectId: call.projectId, id: call.number('id') ?? 0 }
}

/** Returns the experiment named in the path, even if it is deleted. Throws 404 `not_found` if there is none. */
export async function experimentInPath(call: ExperimentCall): Promise<ExperimentView> {
  return existing(await ask(call, 'getExperiment', placeInPath(call)), UNKNOWN)
}

/** Returns the experiment named in the path. Throws 404 `not_found` if there is none, or if it is deleted. */
export async function visibleExperiment(call: ExperimentCall): Promise<ExperimentView> {
  const view = await experimentInPath(call)
  return existing(view.experiment.isDeleted ? null : view, UNKNOWN)
}

/** Throws 403 `permission_denied` if the caller may not change the flag that an experiment uses. */
export function requireFlagEdit(call: ExperimentCall, { experiment }: ExperimentView): void {
  const flag = call.services.flags.flagById(call.projectId, experiment.fields.flag_id)
  if (flag !== null) requireEdit(call, flag)
}

/** Throws 403 `permission_denied` if a flag with this key exists and the caller may not change it. */
export function requireKeyEdit(call: ExperimentCall, key: string): void {
  const flag = call.services.flags.flagByKey(call.projectId, key)
  if (flag !== null) requireEdit(call, flag)
}

/**
 * Throws 503 if an experiment with this flag would count groups, while the cluster has machines of an older version.
 * They would count persons. `parameters` are those of the request. `flag` is null if the request creates the flag.
 */
export function refuseGroupsIfMixed(
  { services }: { readonly services: Pick<ExperimentServices, 'mixedRefusal'> },
  flag: Pick<Flag, 'filters'> | null,
  parameters: JsonObject | null = null,
): void {
  const wanted = parameters?.['aggregation_group_type_index'] ?? null
  const countsGroups = wanted !== null || (flag !== null && groupTypeOf(flag.filters) !== null)
  const refusal = countsGroups ? services.mixedRefusal() : null
  if (refusal !== null) throw refusal
}

/**
 * Makes a change together with its audit entry, and returns the number of the experiment, the holdout or the saved
 * metric. When it resolves, the change is durable and every later flag decision uses it. Throws 400, 404 `not_found`,
 * and 503 if nothing can be written.
 */
export async function changeExperiment(
  { request, services, projectId, nowMs, actor }: ChangingCall,
  change: ExperimentCommand,
): Promise<number> {
  const refusal = services.refusal()
  if (refusal !== null) throw refusal
  const command = { kind: 'experiment', change } as const
  const { id } = await request.noting((entry) => {
    const audit = entry === undefined ? undefined : { ...entry, projectId }
    return services.queries.changeFlag({ projectId, actor, nowMs, command, audit })
  })
  services.refresh()
  return id
}

/** Makes a change of an experiment, and returns the experiment after the change. */
export async function changedExperiment(
  call: ChangingCall,
  change: ExperimentCommand,
): Promise<ExperimentView> {
  const id = await changeExperiment(call, change)
  return existing(await ask(call, 'getExperiment', { projectId: call.projectId, id }), UNKNOWN)
}

/** Returns the JSON of an experiment. */
export function presentExperiment(
  call: Pick<ExperimentCall, 'services' | 'projectId'>,
  view: ExperimentView,
) {
  return experimentBody(showingOf(call), view)
}

/** Returns the JSON of a holdout. */
export function presentHoldout(call: ExperimentCall, holdout: Holdout) {
  return holdoutBody(showingOf(call), holdout)
}

/** Returns the JSON of a saved metric. */
export function presentSavedMetric(call: ExperimentCall, metric: SavedMetric) {
  return savedMetricBody(showingOf(call), metric)
}

function showingOf({ services, projectId }: Pick<ExperimentCall, 'services' | 'projectId'>) {
  const { flags, directory } = services
  return {
    flagById: (id: number) => flags.flagById(projectId, id),
    userById: (id: number) => directory.userById(id),
  }
}
