/**
 * The description of actions, cohorts and groups. docs/COMPATIBILITY.md, "Actions", "Cohorts" and "Group
 * routes".
 */
import {
  ANY,
  about,
  BODY_ERRORS,
  BOOLEAN,
  choice,
  JSON_OBJECT,
  list,
  type Members,
  nullable,
  object,
  openObject,
  operation,
  optional,
  PRIVATE_ERRORS,
  pageOf,
  pageParameters,
  type Resource,
  ref,
  required,
  TEXT,
  TIME,
  UUID,
  WHOLE,
} from './types.ts'

const PROJECT = '/api/projects/:project_id/'
const ACTIONS = `${PROJECT}actions/` as const
const COHORTS = `${PROJECT}cohorts/` as const
const GROUPS = `${PROJECT}groups/` as const
const MATCHING = choice('contains', 'exact', 'regex')
const READ_ACTIONS = { scope: 'action:read' } as const
const WRITE_ACTIONS = { scope: 'action:write', answer: ref('Action'), errors: BODY_ERRORS } as const
const READ_COHORTS = { scope: 'cohort:read' } as const
const WRITE_COHORTS = { scope: 'cohort:write', answer: ref('Cohort'), errors: BODY_ERRORS } as const
const GROUP_TYPE = required('group_type_index', WHOLE, 'Number of the group type, from 0 to 4.')
const GROUP_KEY = required('group_key', TEXT, 'Key of the group.')

const COHORT_FIELDS: Members = {
  description: TEXT,
  is_static: about(BOOLEAN, 'A list of persons instead of a rule; cannot change.'),
  filters: about(JSON_OBJECT, 'The rule, as {"properties": filters}.'),
  person_uuids: about(list(UUID), 'Persons to add to a static cohort.'),
  distinct_ids: about(list(TEXT), 'Persons to add to a static cohort.'),
  deleted: about(BOOLEAN, 'With true the cohort is removed for good.'),
}
const ACTION_FIELDS: Members = {
  description: TEXT,
  tags: list(TEXT),
  steps: list(ref('ActionStepFields')),
  deleted: about(BOOLEAN, 'With true the action is removed for good.'),
}
const STEP_MEMBERS: Members = {
  event: nullable(TEXT),
  url: nullable(TEXT),
  url_matching: MATCHING,
  selector: nullable(TEXT),
  tag_name: nullable(TEXT),
  text: nullable(TEXT),
  text_matching: MATCHING,
  href: nullable(TEXT),
  href_matching: MATCHING,
  properties: ref('Filters'),
}

/** Actions, cohorts and groups. */
export const SET_COMPONENTS: Members = {
  Action: object({
    id: WHOLE,
    name: TEXT,
    description: TEXT,
    tags: list(TEXT),
    steps: list(ref('ActionStep')),
    created_at: TIME,
    created_by: nullable(JSON_OBJECT),
    deleted: BOOLEAN,
    is_calculating: BOOLEAN,
  }),
  ActionStep: object(STEP_MEMBERS),
  ActionStepFields: openObject({}, STEP_MEMBERS),
  ActionPage: pageOf('Action'),
  ActionDraft: openObject({ name: TEXT }, ACTION_FIELDS),
  ActionChanges: openObject({}, { name: TEXT, ...ACTION_FIELDS }),
  Cohort: object({
    id: WHOLE,
    name: TEXT,
    description: TEXT,
    groups: list(ANY),
    deleted: BOOLEAN,
    filters: openObject({}, { properties: ref('Filters') }),
    is_calculating: BOOLEAN,
    created_by: nullable(JSON_OBJECT),
    created_at: TIME,
    last_calculation: nullable(TIME),
    errors_calculating: WHOLE,
    count: about(nullable(WHOLE), 'Members; may be null in lists.'),
    is_static: BOOLEAN,
  }),
  CohortPage: pageOf('Cohort'),
  CohortDraft: openObject({ name: TEXT }, COHORT_FIELDS),
  CohortChanges: openObject({}, { name: TEXT, ...COHORT_FIELDS }),
  Group: object({
    group_type_index: WHOLE,
    group_key: TEXT,
    group_properties: JSON_OBJECT,
    created_at: TIME,
  }),
  GroupType: object({
    group_type: TEXT,
    group_type_index: WHOLE,
    name_singular: { type: 'null' },
    name_plural: { type: 'null' },
  }),
}

/** Actions. */
export const ACTION_RESOURCE: Resource = {
  name: 'Actions',
  sentence: 'Names for sets of events.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  isTable: true,
  operations: [
    operation(`GET ${ACTIONS}`, 'listActions', 'Lists actions in the order of creation.', {
      ...READ_ACTIONS,
      query: pageParameters(10_000),
      answer: ref('ActionPage'),
    }),
    operation(`POST ${ACTIONS}`, 'createAction', 'Makes an action.', {
      ...WRITE_ACTIONS,
      body: ref('ActionDraft'),
      status: 201,
    }),
    operation(`GET ${ACTIONS}:action_id/`, 'getAction', 'Shows an action.', {
      ...READ_ACTIONS,
      answer: ref('Action'),
    }),
    operation(`PATCH ${ACTIONS}:action_id/`, 'patchAction', 'Changes an action.', {
      ...WRITE_ACTIONS,
      body: ref('ActionChanges'),
    }),
    operation(`PUT ${ACTIONS}:action_id/`, 'putAction', 'The same as PATCH.', {
      ...WRITE_ACTIONS,
      body: ref('ActionChanges'),
    }),
    operation(`DELETE ${ACTIONS}:action_id/`, 'deleteAction', 'Removes an action for good.', {
      scope: 'action:write',
      status: 204,
    }),
  ],
}

/** Cohorts. */
export const COHORT_RESOURCE: Resource = {
  name: 'Cohorts',
  sentence: 'Sets of persons, by a rule or as a list.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  isTable: true,
  operations: [
    operation(`GET ${COHORTS}`, 'listCohorts', 'Lists cohorts.', {
      ...READ_COHORTS,
      query: pageParameters(10_000),
      answer: ref('CohortPage'),
    }),
    operation(`POST ${COHORTS}`, 'createCohort', 'Makes a cohort.', {
      ...WRITE_COHORTS,
      body: ref('CohortDraft'),
      bodyTypes: ['text/csv'],
      status: 201,
    }),
    operation(`GET ${COHORTS}:cohort_id/`, 'getCohort', 'Shows a cohort.', {
      ...READ_COHORTS,
      answer: ref('Cohort'),
    }),
    operation(`PATCH ${COHORTS}:cohort_id/`, 'patchCohort', 'Changes a cohort or adds members.', {
      ...WRITE_COHORTS,
      body: ref('CohortChanges'),
      bodyTypes: ['text/csv'],
    }),
    operation(`PUT ${COHORTS}:cohort_id/`, 'putCohort', 'The same as PATCH.', {
      ...WRITE_COHORTS,
      body: ref('CohortChanges'),
      bodyTypes: ['text/csv'],
    }),
  ],
}

/** Groups and group types. */
export const GROUP_RESOURCE: Resource = {
  name: 'Groups',
  sentence: 'Companies and other groups, as events named them.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  isTable: true,
  operations: [
    operation(`GET ${PROJECT}groups_types/`, 'listGroupTypes', 'Lists the group types.', {
      scope: 'group:read',
      answer: list(ref('GroupType')),
    }),
    operation(`GET ${GROUPS}`, 'listGroups', 'Lists the groups of a type.', {
      scope: 'group:read',
      query: [
        GROUP_TYPE,
        optional('search', TEXT, 'Part of the key.'),
        optional('limit', WHOLE, 'Groups of a page: 100 when absent, 1000 at most.'),
        optional('cursor', TEXT, 'Where to go on; it comes in next.'),
      ],
      answer: object({
        next: nullable(TEXT),
        previous: { type: 'null' },
        results: list(ref('Group')),
      }),
    }),
    operation(`GET ${GROUPS}find/`, 'findGroup', 'Shows a group.', {
      scope: 'group:read',
      query: [GROUP_TYPE, GROUP_KEY],
      answer: ref('Group'),
    }),
    operation(`POST ${GROUPS}update_property/`, 'updateGroupProperty', 'Sets one property.', {
      scope: 'group:write',
      query: [GROUP_TYPE, GROUP_KEY],
      body: object({ key: TEXT, value: ANY }),
      answer: ref('Group'),
      errors: BODY_ERRORS,
    }),
  ],
}
