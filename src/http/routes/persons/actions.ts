/** The routes of actions. Source: docs/compatibility/analytics.md, "Actions". */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { given } from '../../../base/json.ts'
import { type ActionStep, type ActionView, actionSteps } from '../../../rules/filters/actions.ts'
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
import { type Call, inProject, type Resource } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf } from '../collection.ts'
import { STEP_TEXT_UNITS_MAX, STEPS_MAX, TAG_UNITS_MAX, TAGS_MAX } from '../limits.ts'
import { compileInTurns } from './pattern-turns.ts'
import { change, changed, existing, idInPath, type PersonServices } from './person-services.ts'
import { FILTERS, SAVED_NAMES } from './question-schemas.ts'

const MATCHINGS = ['contains', 'exact', 'regex'] as const
const MATCHING = is.choice(...MATCHINGS)

const ACTION = is.namedObject('Action', {
  id: is.WHOLE,
  name: is.TEXT,
  description: is.TEXT,
  tags: is.list(is.TEXT),
  steps: is.list(
    is.namedObject(
      'ActionStep',
      stepMembers(is.nullable(is.TEXT), () => MATCHING),
    ),
  ),
  created_at: is.TIME,
  created_by: is.nullable(is.JSON_OBJECT),
  deleted: is.BOOLEAN,
  is_calculating: is.BOOLEAN,
})
const STEP_FIELDS = is.named(
  'ActionStepFields',
  is.refused(
    is.openObject({}, stepMembers(is.nullable(is.units(STEP_TEXT_UNITS_MAX)), matching)),
    '`steps` may contain objects only.',
  ),
)
const NO_TEXT = '`tags` must contain texts.'
const TAG = is.refused(
  is.refused({ ...is.units(TAG_UNITS_MAX), minLength: 1 }, NO_TEXT, 'invalid_input', 'minLength'),
  NO_TEXT,
  'invalid_input',
  'null',
)
const FIELDS = {
  description: SAVED_NAMES.description,
  tags: is.list(TAG, TAGS_MAX),
  steps: is.list(STEP_FIELDS, STEPS_MAX),
  deleted: is.about(is.BOOLEAN, 'If true, the action is removed permanently.'),
}
const { name } = SAVED_NAMES
const CHANGES = is.named('ActionChanges', is.parameters({}, { name, ...FIELDS }))

const collection = collectionOf<PersonServices>(
  '/api/projects/:project_id/actions/',
  inProject('action:read'),
  inProject('action:write'),
)

/** The routes of actions. */
export const ACTION_RESOURCE: Resource<PersonServices> = {
  name: 'Actions',
  sentence: 'Named sets of events.',
  isTable: true,
  routes: collection({
    name: 'Action',
    noun: 'an action',
    one: ':action_id/',
    schema: ACTION,
    isTable: true,
    list: {
      says: 'Lists actions in order of creation.',
      rowsMax: PAGE_ROWS_MAX,
      rows: ({ services, projectId }, { limit, offset }, wish) =>
        services.queries.listActions(projectId, limit, offset, wish),
    },
    get: {
      async row(call, format) {
        const id = idInPath(call, 'action')
        return existing(await call.services.queries.getAction(call.projectId, id, format), 'action')
      },
    },
    find: storedAction,
    show: (_, action: { readonly id: number }) => withWireTimes(action),
    create: {
      body: is.named('ActionDraft', is.parameters({ name }, FIELDS)),
      async make(call) {
        const { name, description = '', tags = [], steps: sent = [] } = call.body()
        const steps = sent.map(stepOf)
        requireNoFault(newFault(await checkSteps(steps), () => []))
        const action = { name, description, tags, steps }
        return changed(call, { kind: 'create_action', action }, 'action')
      },
    },
    patch: {
      body: CHANGES,
      change: patchAction,
    },
    put: { body: CHANGES, change: patchAction },
    remove: {
      says: 'Removes an action permanently.',
      async run(call) {
        const id = idInPath(call, 'action')
        await change(call, { kind: 'update_action', id, changes: { deleted: true } })
      },
    },
  }),
}

/** Returns the action named in the path. Throws 404 `not_found`. */
async function storedAction(call: Call<PersonServices>): Promise<ActionView> {
  const id = idInPath(call, 'action')
  const text = existing(await call.services.queries.getAction(call.projectId, id, 'json'), 'action')
  return JSON.parse(Buffer.from(text).toString()) as ActionView
}

async function patchAction(
  call: Call<PersonServices, is.Schema, typeof CHANGES>,
  before: ActionView,
) {
  const { steps: sent, ...fields } = call.body()
  const steps = sent?.map(stepOf)
  const faults = await checkSteps(steps ?? [])
  // A step that can never match is accepted if it was stored before. Otherwise the rest of the action could not be
  // changed.
  requireNoFault(newFault(faults, () => actionFaults(before.steps)))
  const changes = given({ ...fields, steps })
  return changed(call, { kind: 'update_action', id: before.id, changes }, 'action')
}

/**
 * Returns the schemas of the members of a step. `text` is the schema of a text, such as `url`. `matching` returns the
 * schema of a member that says how a text is compared, such as `url_matching`.
 */
function stepMembers<Text, Matching>(
  text: is.Schema<Text>,
  matching: (name: string) => is.Schema<Matching>,
) {
  return {
    event: text,
    url: text,
    url_matching: matching('url_matching'),
    selector: text,
    tag_name: text,
    text,
    text_matching: matching('text_matching'),
    href: text,
    href_matching: matching('href_matching'),
    properties: is.unchecked(FILTERS),
  }
}

/**
 * Returns the schema of a member that says how a text of a step is compared. `name` is its name, such as
 * `url_matching`.
 */
function matching(name: string) {
  const detail = `\`steps\` need \`contains\`, \`exact\` or \`regex\` as \`${name}\`.`
  return is.refused(is.choice(...MATCHINGS, null), detail)
}

/** Returns a step with all its members. An empty text means that the step has no such condition. */
function stepOf(step: is.TypeOf<typeof STEP_FIELDS>): ActionStep {
  return {
    event: step.event || null,
    url: step.url || null,
    url_matching: step.url_matching ?? 'contains',
    selector: step.selector || null,
    tag_name: step.tag_name || null,
    text: step.text || null,
    text_matching: step.text_matching ?? 'exact',
    href: step.href || null,
    href_matching: step.href_matching ?? 'exact',
    properties: step.properties ?? [],
  }
}

/** Throws 400 for steps that are invalid or have too many patterns. Returns the filters that can never match. */
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
