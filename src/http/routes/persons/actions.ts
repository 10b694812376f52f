/** The routes of actions. Source: docs/compatibility/analytics.md, "Actions". */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import {
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
import { listMember, required, textMember } from '../../server/parameters.ts'
import type { Answer } from '../../server/respond.ts'
import { done, inProject, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { answerOne, inputOf } from '../formats.ts'
import { STEP_TEXT_UNITS_MAX, STEPS_MAX, TAG_UNITS_MAX, TAGS_MAX } from '../limits.ts'
import { compileInTurns } from './pattern-turns.ts'
import {
  change,
  changed,
  type PersonCall,
  type PersonServices,
  unknown,
} from './person-services.ts'
import { FILTERS } from './question-schemas.ts'
import {
  type Field,
  idInPath,
  NAME_FIELDS,
  readFields,
  savedRoutes,
  truth,
} from './saved-things.ts'

const MATCHINGS = ['contains', 'exact', 'regex'] as const

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
  ...NAME_FIELDS,
  tags: {
    schema: is.list(is.TEXT),
    read: (parameters) => listMember(parameters.json('tags'), 'tags', TAGS_MAX)?.map(readTag),
  } satisfies Field<readonly string[]>,
  steps: {
    schema: is.list(is.named('ActionStepFields', is.openObject({}, STEP_MEMBERS))),
    read: (parameters) => listMember(parameters.json('steps'), 'steps', STEPS_MAX)?.map(readStep),
  } satisfies Field<readonly ActionStep[]>,
  deleted: truth('If true, the action is removed permanently.'),
}

const route = routesOf<PersonServices>(
  '/api/projects/:project_id/actions/',
  inProject('action:write'),
)

/** The actions of a project. */
export const ACTION_RESOURCE: Resource<PersonServices> = {
  name: 'Actions',
  sentence: 'Named sets of events.',
  isTable: true,
  routes: [
    ...savedRoutes({
      thing: 'action',
      schema: ACTION,
      fields: FIELDS,
      lists: 'Lists actions in order of creation.',
      changes: 'Updates an action.',
      create: createAction,
      patch: patchAction,
    }),
    route('DELETE', ':action_id/', 'deleteAction', 'Removes an action permanently.', {
      answers: { 204: done() },
      async handle(call) {
        const id = idInPath(call, 'action')
        await change(call, { kind: 'update_action', id, changes: { deleted: true } })
      },
    }),
  ],
}

async function createAction(call: PersonCall): Promise<Answer> {
  const { parameters, format } = inputOf(call)
  const fields = readFields(parameters, FIELDS)
  const { name = '', description = '', tags = [], steps = [] } = fields
  if (name === '') throw required('name')
  requireNoFault(newFault(await checkSteps(steps), () => []))
  const action = { name, description, tags, steps }
  const made = await changed(call, { kind: 'create_action', action }, 'action')
  return answerOne(format, withWireTimes(made), 201)
}

async function patchAction(call: PersonCall): Promise<Answer> {
  const id = idInPath(call, 'action')
  const { parameters, format } = inputOf(call)
  const fields = readFields(parameters, FIELDS)
  if (fields.name === '') throw invalidInput('name', 'must not be empty')
  const faults = await checkSteps(fields.steps ?? [])
  if (faults.length > 0) {
    // A step that can never match may stay if it was stored before, so that the rest of the action can be changed.
    const before = await call.services.queries.getAction(call.projectId, id, 'json')
    if (before === null) throw unknown('action')
    const { steps } = JSON.parse(Buffer.from(before).toString()) as Pick<ActionView, 'steps'>
    requireNoFault(newFault(faults, () => actionFaults(steps)))
  }
  const made = await changed(call, { kind: 'update_action', id, changes: fields }, 'action')
  return answerOne(format, withWireTimes(made))
}

function readTag(tag: unknown): string {
  const text = textMember(tag, 'tags', TAG_UNITS_MAX) ?? ''
  if (text === '') throw invalidInput('tags', 'must contain texts')
  return text
}

function readStep(raw: unknown): ActionStep {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
    throw invalidInput('steps', 'may contain objects only')
  }
  const members = new Map<string, unknown>(Object.entries(raw))
  const text = (name: string): string | null =>
    textMember(members.get(name), 'steps', STEP_TEXT_UNITS_MAX) || null
  const matching = (name: string, ifAbsent: StepMatching): StepMatching => {
    const value = members.get(name) ?? ifAbsent
    const found = MATCHINGS.find((one) => one === value)
    if (found === undefined)
      throw invalidInput('steps', `need \`contains\`, \`exact\` or \`regex\` as \`${name}\``)
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

/** Refuses steps that are invalid or have too many patterns. Returns the filters that can never match. */
async function checkSteps(steps: readonly ActionStep[]): Promise<readonly FilterFault[]> {
  for (const { selector } of steps) {
    if (selector !== null && !isSelector(selector)) {
      throw invalidInput(
        'steps',
        'have a selector that cannot be read. Use tags, classes, IDs, [name="value"], :nth-child(n), spaces and >',
      )
    }
  }
  actionSteps(steps)
  const filters = actionFilters(steps).map(({ filter }) => filter)
  const limit = patternLimitFault(filters)
  if (limit !== null) throw invalidInput('steps', limit)
  await compileInTurns(patternsOf(filters), ACTION_DIALECTS)
  return actionFaults(steps)
}

function requireNoFault(fault: FilterFault | null): void {
  if (fault !== null) throw new ServiceError('invalid_input', faultText(fault), { attr: 'steps' })
}
