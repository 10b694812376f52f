/**
 * Copies an experiment to another project of the organization. Shapes: PostHog
 * products/experiments/backend/presentation/views/experiments.py, `copy_to_project`. Source:
 * docs/compatibility/experiments.md, "Copies in other projects".
 */
import { ServiceError } from '../../../base/errors.ts'
import type { Scope } from '../../../rules/access/scopes.ts'
import {
  type CopyWish,
  copiedExperiment,
} from '../../../rules/experiments/edit/copied-experiment.ts'
import { authoriseAs, denied } from '../../server/auth.ts'
import { existing } from '../collection.ts'
import { requireEdit } from '../flags/flag-access.ts'
import { callIn, mayUse } from '../flags/flag-copies.ts'
import { ask } from '../organization/organization-services.ts'
import { changedExperiment, type ExperimentCall, presentExperiment } from './experiment-access.ts'

/**
 * Creates the copy as a draft, with its flag and its saved metrics, in one transaction. Returns the JSON of the copy.
 * The rights are checked in the source and in the target project, because the user may have a different level in each.
 * Throws 400, 403 `permission_denied`, and 404 `not_found`.
 */
export async function copyToProject(
  call: ExperimentCall,
  wanted: () => CopyWish & { readonly target_team_id: number },
) {
  const { services, request, grant, nowMs, actor } = call
  const segment = request.parameter('project_id')
  const source = authoriseAs(grant, request, services.directory, 'experiment:write', segment)
  const { target_team_id: projectId, ...wish } = wanted()
  if (projectId === source.id) {
    const detail = 'The project has this experiment already. Use `duplicate/`, or name another one.'
    throw new ServiceError('invalid_input', detail, { attr: 'target_team_id' })
  }
  requireScopeIn('experiment:write')
  const setOf = (id: number) => services.decisions.snapshot(id)?.set
  const [from, to] = [setOf(source.id), setOf(projectId)]
  const found = await ask(call, 'getExperiment', {
    projectId: source.id,
    id: call.number('id') ?? 0,
  })
  const view = existing(
    found?.experiment.isDeleted === true ? null : found,
    'The project has no such experiment.',
  )
  if (from === undefined || to === undefined) {
    throw new ServiceError('not_found', 'The target project does not exist.')
  }
  const { flag_id: flagId, saved_metrics: links = [] } = view.experiment.fields
  if (links.length > 0) requireScopeIn('experiment_saved_metric:write')
  const flag = services.flags.flagById(source.id, flagId)
  if (flag === null) {
    const detail = 'The flag of the experiment was removed, so the experiment cannot be copied.'
    throw new ServiceError('invalid_input', detail)
  }
  const known = services.flags.flagByKey(projectId, wish.feature_flag_key ?? flag.key)
  if (known !== null) requireEdit(callIn(call, projectId), known)
  const refusal = services.mixedRefusal()
  if (refusal !== null) throw refusal
  const target = { services, request, projectId, nowMs, actor }
  const copy = copiedExperiment(view, flag, wish, from, to)
  return presentExperiment(target, await changedExperiment(target, copy))

  function requireScopeIn(scope: Scope): void {
    if (mayUse(grant, projectId, scope)) return
    throw denied(
      `The target project needs the scope \`${scope}\`, which this key does not have there.`,
    )
  }
}
