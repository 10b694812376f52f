/** The routes of actions. Source: docs/COMPATIBILITY.md, "Actions". */
import { ServiceError } from '../../base/errors.ts'
import type { RowFormat } from '../../base/pages.ts'
import type { ActionQueries, PersonQueries } from '../../engine/threads/calls.ts'
import {
  type ActionDraft,
  type ActionStep,
  type ActionView,
  actionSteps,
  type StepMatching,
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
import {
  booleanMember,
  invalid,
  listMember,
  pageUrls,
  RequestParameters,
  required,
  textMember,
} from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import type { ApiHandler, ApiRequest, Route } from '../server/router.ts'
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
const NAME_UNITS_MAX = 400
const DESCRIPTION_UNITS_MAX = 1000
/** Steps of an action. More: 400 `invalid_input`. */
const STEPS_MAX = 100
/** Tags of an action. More: 400 `invalid_input`. */
const TAGS_MAX = 100
const TAG_UNITS_MAX = 255
const STEP_TEXT_UNITS_MAX = 1000
const MATCHINGS = ['contains', 'exact', 'regex'] as const

/** What these routes work with. */
export interface ActionRoutesOptions extends PersonRoutesOptions {
  readonly queries: PersonQueries & ActionQueries
}

type ActionHandler = (access: Access, actions: ActionQueries) => Promise<Answer>

/** The routes under `/api/projects/:project_id/actions/`. */
export function actionRoutes(options: ActionRoutesOptions): readonly Route[] {
  const route = (method: Route['method'], path: string, handle: ActionHandler): Route => {
    const scope = method === 'GET' ? 'action:read' : 'action:write'
    const handler: ApiHandler = (request) =>
      handle(openAccess(request, options, scope), options.queries)
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

/** What a request says about an action; what is absent there is absent here, too. */
type ActionFields = Partial<ActionDraft> & { readonly deleted?: boolean }

function readRequest(request: ApiRequest): {
  readonly fields: ActionFields
  readonly format: RowFormat
} {
  const parameters = new RequestParameters(request)
  const format = formatOf(request, parameters)
  const name = textMember(parameters.value('name'), 'name', NAME_UNITS_MAX)
  const about = parameters.value('description')
  const description = textMember(about, 'description', DESCRIPTION_UNITS_MAX)
  const steps = listMember(parameters.json('steps'), 'steps', STEPS_MAX)
  const tags = listMember(parameters.json('tags'), 'tags', TAGS_MAX)
  const deleted = booleanMember(parameters.value('deleted'), 'deleted')
  const fields = {
    ...(name === undefined ? {} : { name: name.trim() }),
    ...(description === undefined ? {} : { description }),
    ...(tags === undefined ? {} : { tags: tags.map(readTag) }),
    ...(steps === undefined ? {} : { steps: steps.map(readStep) }),
    ...(deleted === undefined ? {} : { deleted }),
  }
  return { fields, format }
}

function readTag(tag: unknown): string {
  const text = textMember(tag, 'tags', TAG_UNITS_MAX) ?? ''
  if (text === '') throw invalid('tags', 'must hold texts')
  return text
}

function readStep(raw: unknown): ActionStep {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
    throw invalid('steps', 'may hold objects only')
  }
  const members = new Map<string, unknown>(Object.entries(raw))
  const text = (name: string): string | null =>
    textMember(members.get(name), 'steps', STEP_TEXT_UNITS_MAX) || null
  const matching = (name: string, ifAbsent: StepMatching): StepMatching => {
    const value = members.get(name) ?? ifAbsent
    const found = MATCHINGS.find((one) => one === value)
    if (found === undefined) throw invalid('steps', `need contains, exact or regex as ${name}`)
    return found
  }
  return {
    event: text('event'),
    url: text('url'),
    url_matching: matching('url_matching', 'contains'),
    selector: text('selector'),
    tag_name: text('tag_name'),
    text: text('text'),
    text_matching: matching('text_matching', 'exact'),
    href: text('href'),
    href_matching: matching('href_matching', 'exact'),
    properties: members.get('properties') ?? [],
  }
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
