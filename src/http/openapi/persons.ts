/** The description of persons and of what people changed about them. docs/COMPATIBILITY.md, "Persons". */
import {
  ANY,
  about,
  BODY_ERRORS,
  BOOLEAN,
  choice,
  JSON_OBJECT,
  jsonText,
  list,
  type Members,
  NOTHING,
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
  TEXT_OR_NUMBER,
  TIME,
  UUID,
  WHOLE,
} from './types.ts'

const PERSONS = '/api/projects/:project_id/persons/'
const PERSON = `${PERSONS}:id/` as const

const PERSON_MEMBERS: Members = {
  id: WHOLE,
  name: TEXT,
  distinct_ids: list(TEXT),
  properties: JSON_OBJECT,
  created_at: TIME,
  uuid: UUID,
}

/** Present when not all ids are shown. */
const ID_COUNT: Members = { distinct_ids_count: WHOLE }

/** Persons, filters on them, and the log of changes. */
export const PERSON_COMPONENTS: Members = {
  Person: object(PERSON_MEMBERS, ID_COUNT),
  PersonChanged: object({ ...PERSON_MEMBERS, success: BOOLEAN }, ID_COUNT),
  PersonPage: pageOf('Person'),
  PropertyFilter: about(
    openObject(
      { key: TEXT_OR_NUMBER },
      {
        value: ANY,
        operator: nullable(TEXT),
        type: nullable(
          choice('person', 'event', 'group', 'cohort', 'static-cohort', 'element', 'flag'),
        ),
        group_type_index: nullable(WHOLE),
        negation: nullable(BOOLEAN),
      },
    ),
    'A test on one property.',
  ),
  FilterGroup: about(
    object({
      type: choice('AND', 'OR'),
      values: list({ anyOf: [ref('FilterGroup'), ref('PropertyFilter')] }),
    }),
    'Tests of which all or any must hold.',
  ),
  Filters: { anyOf: [list(ref('PropertyFilter')), ref('FilterGroup'), JSON_OBJECT] },
  ActivityPage: object({
    results: list(ref('Activity')),
    next: nullable(TEXT),
    previous: nullable(TEXT),
    total_count: WHOLE,
  }),
  Activity: object({
    user: object({ first_name: TEXT, email: TEXT }),
    activity: choice('updated', 'delete_property', 'deleted', 'split_person'),
    scope: choice('Person'),
    item_id: TEXT,
    detail: object({
      changes: nullable(list(ANY)),
      name: nullable(TEXT),
      short_id: NOTHING,
      type: NOTHING,
      trigger: NOTHING,
    }),
    created_at: TIME,
  }),
  ValueCount: object({ name: TEXT, count: WHOLE }),
  PropertiesTimeline: object({
    points: list(object({ timestamp: TIME, properties: JSON_OBJECT, relevant_event_count: WHOLE })),
    crucial_property_keys: list(TEXT),
    effective_date_from: TEXT,
    effective_date_to: TEXT,
  }),
}

/** Parameters of a range of days. */
export const RANGE_PARAMETERS = [
  optional('date_from', TEXT, 'Where the range begins: a day, a moment, or -7d and the like.'),
  optional('date_to', TEXT, 'Where it ends, the last day included.'),
  optional('interval', choice('hour', 'day', 'week', 'month'), 'How long a period is.'),
]
const ACTIVITY_PARAMETERS = [
  optional('page', WHOLE, 'Number of the page, from 1.'),
  optional('limit', WHOLE, 'Entries of a page: 10 when absent, 1000 at most.'),
  optional('skip', WHOLE, 'Entries of the page that were shown before; it comes in next.'),
]
const PROPERTIES = jsonText('properties', ref('Filters'), 'Tests on properties.')
const SETTING = {
  scope: 'person:write',
  body: object({ properties: JSON_OBJECT }),
  answer: ref('Person'),
  status: 202,
  errors: BODY_ERRORS,
} as const

/** Persons, apart from analytics. */
export const PERSON_RESOURCE: Resource = {
  name: 'Persons',
  sentence: 'Users as events made them. Parameters may stand in the query or in a JSON body.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  segments: { id: [TEXT_OR_NUMBER, 'Number or uuid of the person.'] },
  isTable: true,
  operations: [
    operation(`GET ${PERSONS}`, 'listPersons', 'Lists persons, the newest first.', {
      scope: 'person:read',
      query: [
        optional('distinct_id', TEXT, 'The person with this distinct_id.'),
        optional('email', TEXT, 'Persons whose property email is exactly this.'),
        optional('search', TEXT, 'Part of the e-mail address, or a distinct_id, or a uuid.'),
        PROPERTIES,
        optional('cohort', WHOLE, 'Members of the cohort with this number.'),
        ...pageParameters(10_000),
      ],
      answer: ref('PersonPage'),
    }),
    operation(`GET ${PERSONS}values/`, 'listPersonValues', 'Counts the values of a property.', {
      scope: 'person:read',
      query: [
        optional('key', TEXT, 'Name of the property; without it nothing is found.'),
        optional('value', TEXT, 'Only values that contain this.'),
      ],
      answer: list(ref('ValueCount')),
    }),
    operation(`GET ${PERSONS}cohorts/`, 'listCohortsOfPerson', 'Lists the cohorts of a person.', {
      scope: 'person:read',
      query: [required('person_id', TEXT_OR_NUMBER, 'Number or uuid of the person.')],
      answer: object({ results: list(ref('Cohort')) }),
    }),
    operation(`GET ${PERSONS}activity/`, 'listPersonsActivity', 'Lists changes of all persons.', {
      scope: 'activity_log:read',
      query: ACTIVITY_PARAMETERS,
      answer: ref('ActivityPage'),
    }),
    operation(`GET ${PERSON}`, 'getPerson', 'Shows a person.', {
      scope: 'person:read',
      query: [
        optional(
          'distinct_ids_offset',
          WHOLE,
          'Ids to leave out, of those in the order of linking.',
        ),
      ],
      answer: ref('Person'),
    }),
    operation(`PATCH ${PERSON}`, 'patchPerson', 'Sets properties of a person.', SETTING),
    operation(`PUT ${PERSON}`, 'putPerson', 'The same as PATCH.', SETTING),
    operation(`DELETE ${PERSON}`, 'deletePerson', 'Removes a person for good.', {
      scope: 'person:write',
      query: [optional('delete_events', TEXT, 'Removes the events, too, unless false or 0.')],
      status: 202,
    }),
    operation(`GET ${PERSON}activity/`, 'listPersonActivity', 'Lists changes of a person.', {
      scope: 'activity_log:read',
      query: ACTIVITY_PARAMETERS,
      answer: ref('ActivityPage'),
    }),
    operation(
      `GET ${PERSON}properties_timeline/`,
      'getPropertiesTimeline',
      'Shows how the properties that an insight is about changed.',
      {
        scope: 'person:read',
        query: [
          jsonText('events', list(ref('Series')), 'Which events count; all when absent.'),
          jsonText('actions', list(ANY), 'Must be empty.'),
          PROPERTIES,
          optional('breakdown', TEXT, 'A property that counts, too.'),
          optional('breakdown_type', TEXT, 'With person, breakdown is a property of persons.'),
          ...RANGE_PARAMETERS,
        ],
        answer: ref('PropertiesTimeline'),
      },
    ),
    operation(`POST ${PERSON}update_property/`, 'updatePersonProperty', 'Sets one property.', {
      ...SETTING,
      body: object({ key: TEXT, value: ANY }),
    }),
    operation(`POST ${PERSON}delete_property/`, 'deletePersonProperty', 'Removes a property.', {
      ...SETTING,
      body: object({ $unset: TEXT }),
      answer: ref('PersonChanged'),
      status: 201,
    }),
    operation(`POST ${PERSON}split/`, 'splitPerson', 'Makes each distinct_id a person.', {
      ...SETTING,
      body: object({}, { main_distinct_id: about(TEXT, 'Keeps the person and its properties.') }),
      isBodyOptional: true,
      answer: ref('PersonChanged'),
      status: 201,
    }),
    operation(`POST ${PERSON}merge/`, 'mergePersons', 'Merges other persons into this one.', {
      ...SETTING,
      body: object({ ids: list(TEXT_OR_NUMBER) }),
      answer: ref('PersonChanged'),
      status: 201,
    }),
  ],
}
