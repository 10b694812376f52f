/** The routes of actions. Source: docs/compatibility/analytics.md, "Actions". */
import { ServiceError } from '../../../base/errors.ts'
import type { RowFormat } from '../../../base/pages.ts'
import type { ActionQueries, PersonQueries } from '../../../engine/threads/call-table.ts'
import {
  type ActionDraft,
  type ActionStep,
  type ActionView,
  actionSteps,
  type StepMatching,
} from '../../../rules/filters/actions.ts'
import { isSelector } from '../../../rules/filters/element-filter.ts'
import {
  type FilterFault,
  faultText,
  newFault,
  patternLimitFault,
  patternsOf,
} from '../../../rules/filters/filter-faults.ts'
import {
  ACTION_DIALECTS,
  actionFaults,
  actionFilters,
} from '../../../rules/filters/saved-filters.ts'
import { withWireTimes } from '../../../rules/persons/person-answer.ts'
import { PAGE_ROWS_MAX } from '../../server/limits.ts'
import {
  booleanMember,
  invalid,
  listMember,
  required,
  textMember,
} from '../../server/parameters.ts'
import type { Answer } from '../../server/respond.ts'
import { done, inProject, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { answerFound, answerOne, answerPage, inputOf } from '../formats.ts'
import {
  DESCRIPTION_UNITS_MAX,
  NAME_UNITS_MAX,
  STEP_TEXT_UNITS_MAX,
  STEPS_MAX,
  TAG_UNITS_MAX,
  TAGS_MAX,
} from '../limits.ts'
import { compileInTurns } from './pattern-turns.ts'
import {
  change,
  changed,
  type PersonCall,
  type PersonServices,
  unknown,
} from './person-services.ts'
import { FILTERS } from './question-schemas.ts'

const MATCHINGS = ['contains', 'exact', 'regex'] as const

/** What these routes work with. */
export interface ActionServices extends PersonServices {
  readonly queries: PersonQueries & ActionQueries
}

const MATCHING = is.choice(...MATCHINGS)
const STEP_MEMBERS = {
  event: is.nullable(is.TEXT),
  url: is.nullable(is.TEXT),
  url_matching: MATCHING,
  selector: is.nullable(is.TEXT),
  tag_name: is.nullable(is.TEXT),
  text: is.nullable(is.TEXT),
  text_matching: MATCHING,
  href: is.nullable(is.TEXT),
  href_matching: MATCHING,
  properties: FILTERS,
}
const ACTION = is.namedObject('Action', {
  id: is.WHOLE,
  name: is.TEXT,
  description: is.TEXT,
  tags: is.list(is.TEXT),
  steps: is.list(is.namedObject('ActionStep', STEP_MEMBERS)),
  created_at: is.TIME,
  created_by: is.nullable(is.JSON_OBJECT),
  deleted: is.BOOLEAN,
  is_calculating: is.BOOLEAN,
})
const FIELDS = {
  description: is.TEXT,
  tags: is.list(is.TEXT),
  steps: is.list(is.named('ActionStepFields', is.openObject({}, STEP_MEMBERS))),
  deleted: is.about(is.BOOLEAN, 'With true the action is removed for good.'),
}
const CHANGING = {
  body: is.named('ActionChanges', is.openObject({}, { name: is.TEXT, ...FIELDS })),
  answers: { 200: done(ACTION) },
  respond: patchAction,
} as const

const route = routesOf<ActionServices>(
  '/api/projects/:project_id/actions/',
  inProject('action:read'),
  inProject('action:write'),
)

/** Actions. */
export const ACTION_RESOURCE: Resource<ActionServices> = {
  name: 'Actions',
  sentence: 'Names for sets of events.',
  isTable: true,
  routes: [
    route('GET', '', 'listActions', 'Lists actions in the order of creation.', {
      query: is.options(is.pageParameters(PAGE_ROWS_MAX)),
      answers: { 200: done(is.pageOf(ACTION)) },
      respond: (call) =>
        answerPage(call, ({ limit, offset }, wish) =>
          call.services.queries.listActions(call.projectId, limit, offset, wish),
        ),
    }),
    route('POST', '', 'createAction', 'Makes an action.', {
      body: is.named('ActionDraft', is.openObject({ name: is.TEXT }, FIELDS)),
      answers: { 201: done(ACTION) },
      respond: createAction,
    }),
    route('GET', ':action_id/', 'getAction', 'Shows an action.', {
      answers: { 200: done(ACTION) },
      respond(call) {
        const id = actionInPath(call)
        return answerFound(call, unknown('action'), (format) =>
          call.services.queries.getAction(call.projectId, id, format),
        )
      },
    }),
    route('PATCH', ':action_id/', 'patchAction', 'Changes an action.', CHANGING),
    route('PUT', ':action_id/', 'putAction', 'The same as PATCH.', CHANGING),
    route('DELETE', ':action_id/', 'deleteAction', 'Removes an action for good.', {
      answers: { 204: done() },
      async handle(call) {
        const id = actionInPath(call)
        await change(call, { kind: 'update_action', id, changes: { deleted: true } })
      },
    }),
  ],
}

type ActionCall = PersonCall<ActionServices>

async function createAction(call: ActionCall): Promise<Answer> {
  const { fields, format } = readRequest(call)
  const { name = '', description = '', tags = [], steps = [] } = fields
  if (name === '') throw required('name')
  requireNoFault(newFault(await checkSteps(steps), () => []))
  const action = { name, description, tags, steps }
  const made = await changed(call, { kind: 'create_action', action }, 'action')
  return answerOne(format, withWireTimes(made), 201)
}

async function patchAction(call: ActionCall): Promise<Answer> {
  const id = actionInPath(call)
  const { fields, format } = readRequest(call)
  if (fields.name === '') throw invalid('name', 'must not be empty')
  const faults = await checkSteps(fields.steps ?? [])
  if (faults.length > 0) {
    // What can never match may stay, so that the rest of the action can be changed.
    const before = await call.services.queries.getAction(call.projectId, id, 'json')
    if (before === null) throw unknown('action')
    const { steps } = JSON.parse(Buffer.from(before).toString()) as Pick<ActionView, 'steps'>
    requireNoFault(newFault(faults, () => actionFaults(steps)))
  }
  const made = await changed(call, { kind: 'update_action', id, changes: fields }, 'action')
  return answerOne(format, withWireTimes(made))
}

/** What a request says about an action; what is absent there is absent here, too. */
type ActionFields = Partial<ActionDraft> & { readonly deleted?: boolean }

function readRequest(call: ActionCall): {
  readonly fields: ActionFields
  readonly format: RowFormat
} {
  const { parameters, format } = inputOf(call)
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

function actionInPath(call: ActionCall): number {
  const id = call.number('action_id')
  if (id === null) throw unknown('action')
  return id
}
