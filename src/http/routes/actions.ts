/** The routes of actions. Source: docs/COMPATIBILITY.md, "Actions". */
import { ServiceError } from '../../base/errors.ts'
import type { RowFormat } from '../../base/pages.ts'
import {
  type ActionQueries,
  type ActionStep,
  type ActionView,
  actionSteps,
} from '../../rules/filters/actions.ts'
import { isSelector } from '../../rules/filters/element-filter.ts'
import {
  type FilterFault,
  faultText,
  newFault,
  patternsOf,
} from '../../rules/filters/filter-faults.ts'
import { ACTION_DIALECTS, actionFaults, actionFilters } from '../../rules/filters/saved-filters.ts'
import { patternLimitFault } from '../../rules/flags/edit/pattern-limits.ts'
import { withWireTimes } from '../../rules/persons/person-answer.ts'
import { invalid, pageUrls, RequestParameters, required } from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import type { ApiHandler, ApiRequest, Route } from '../server/router.ts'
import { type ActionFields, readActionFields } from '../shapes/action.ts'
import { answerOne, answerRow, answerRows, formatOf, wishOf } from './formats.ts'
import { compileInTurns } from './pattern-turns.ts'
import {
  type Access,
  change,
  type DoneResult,
  openAccess,
  type PersonRoutesOptions,
} from './person-access.ts'

const ACTIONS_PATH = '/api/projects/:project_id/actions/'
const ACTION_PATH = `${ACTIONS_PATH}:action_id/`

/** What these routes work with. */
export interface ActionRoutesOptions extends PersonRoutesOptions {
  readonly actions: ActionQueries
}

type ActionHandler = (access: Access, actions: ActionQueries) => Promise<Answer>

/** The routes under `/api/projects/:project_id/actions/`. */
export function actionRoutes(options: ActionRoutesOptions): readonly Route[] {
  const route = (method: Route['method'], path: string, handle: ActionHandler): Route => {
    const scope = method === 'GET' ? 'action:read' : 'action:write'
    const handler: ApiHandler = (request) =>
      handle(openAccess(request, options, scope), options.actions)
    return { method, path, handler }
  }
  return [
    route('GET', ACTIONS_PATH, listActions),
    route('POST', ACTIONS_PATH, createAction),
    route('GET', ACTION_PATH, getAction),
    route('PATCH', ACTION_PATH, patchAction),
    route('PUT', ACTION_PATH, patchAction),
    route('DELETE', ACTION_PATH, deleteAction),
  ]
}

async function listActions(access: Access, actions: ActionQueries): Promise<Answer> {
  const { request, projectId, base } = access
  const parameters = new RequestParameters(request)
  const format = formatOf(request, parameters)
  const { limit, offset } = parameters.page()
  const wish = wishOf(request, format)
  const page = await actions.listActions(projectId, limit, offset, wish)
  const urls = pageUrls(request, base, parameters, page)
  return answerRows(format, page, 'results', { count: page.count, ...urls })
}

async function getAction({ request, projectId }: Access, actions: ActionQueries): Promise<Answer> {
  const id = actionInPath(request)
  const format = formatOf(request, new RequestParameters(request))
  const action = await actions.getAction(projectId, id, format)
  if (action === null) throw unknownAction()
  return answerRow(format, action)
}

async function createAction(access: Access): Promise<Answer> {
  const { fields, format } = readRequest(access.request)
  const { name = '', description = '', tags = [], steps = [] } = fields
  if (name === '') throw required('name')
  requireNoFault(newFault(await checkSteps(steps), () => []))
  const action = { name, description, tags, steps }
  return answer(format, await change(access, { kind: 'create_action', action }), 201)
}

async function patchAction(access: Access, actions: ActionQueries): Promise<Answer> {
  const id = actionInPath(access.request)
  const { fields, format } = readRequest(access.request)
  if (fields.name === '') throw invalid('name', 'must not be empty')
  const faults = await checkSteps(fields.steps ?? [])
  if (faults.length > 0) {
    // What can never match may stay, so that the rest of the action can be changed.
    const before = await actions.getAction(access.projectId, id, 'json')
    if (before === null) throw unknownAction()
    const { steps } = JSON.parse(Buffer.from(before).toString()) as Pick<ActionView, 'steps'>
    requireNoFault(newFault(faults, () => actionFaults(steps)))
  }
  return answer(format, await change(access, { kind: 'update_action', id, changes: fields }), 200)
}

async function deleteAction(access: Access): Promise<Answer> {
  const id = actionInPath(access.request)
  await change(access, { kind: 'update_action', id, changes: { deleted: true } })
  return { status: 204, contentType: '', body: '' }
}

function readRequest(request: ApiRequest): {
  readonly fields: ActionFields
  readonly format: RowFormat
} {
  const parameters = new RequestParameters(request)
  const format = formatOf(request, parameters)
  const fields = readActionFields((name) =>
    name === 'steps' || name === 'tags' ? parameters.json(name) : parameters.value(name),
  )
  return { fields, format }
}

/** Refuses steps that cannot be read, and too many patterns; answers what can never match. */
async function checkSteps(steps: readonly ActionStep[]): Promise<readonly FilterFault[]> {
  for (const { selector } of steps) {
    if (selector !== null && !isSelector(selector)) {
      throw invalid(
        'steps',
        'have a selector that cannot be read: use tags, classes, ids, [name="value"], :nth-child(n), spaces and >',
      )
    }
  }
  actionSteps(steps)
  const filters = actionFilters(steps).map(({ filter }) => filter)
  const limit = patternLimitFault(filters)
  if (limit !== null) throw invalid('steps', limit)
  await compileInTurns(patternsOf(filters), ACTION_DIALECTS)
  return actionFaults(steps)
}

function requireNoFault(fault: FilterFault | null): void {
  if (fault !== null) throw new ServiceError('invalid_input', faultText(fault), { attr: 'steps' })
}

function answer(format: RowFormat, result: DoneResult, status: number): Answer {
  if (result.action === undefined) throw new TypeError('the change answered no action')
  return answerOne(format, withWireTimes(result.action), status)
}

function actionInPath(request: ApiRequest): number {
  const text = request.parameter('action_id')
  if (!/^[0-9]{1,15}$/.test(text)) throw unknownAction()
  return Number(text)
}

function unknownAction(): ServiceError {
  return new ServiceError('not_found', 'the project has no such action')
}
