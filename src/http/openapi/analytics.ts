/** The description of the analytic routes of persons. docs/COMPATIBILITY.md, "Analytic person routes". */
import { RANGE_PARAMETERS } from './persons.ts'
import {
  ANY,
  about,
  BODY_ERRORS,
  BOOLEAN,
  bodyOf,
  choice,
  JSON_OBJECT,
  jsonText,
  list,
  type Members,
  NUMBER,
  nullable,
  type Operation,
  object,
  openObject,
  operation,
  optional,
  type Parameter,
  PRIVATE_ERRORS,
  pageParameters,
  type Resource,
  ref,
  required,
  type Schema,
  TEXT,
  TEXT_OR_NUMBER,
  TIME,
  UUID,
  WHOLE,
} from './types.ts'

const PERSONS = '/api/projects/:project_id/persons/'
const NAMES: Schema = list(TEXT)

const ACTOR_MEMBERS: Members = {
  properties: JSON_OBJECT,
  matched_recordings: list(ANY),
  value_at_data_point: nullable(NUMBER),
}

/** Series, and the people of an answer. */
export const ANALYTIC_COMPONENTS: Members = {
  Series: about(
    openObject(
      {},
      {
        id: nullable(TEXT_OR_NUMBER),
        order: nullable(WHOLE),
        math: nullable(TEXT),
        math_property: nullable(TEXT),
        math_group_type_index: nullable(WHOLE),
        properties: ref('Filters'),
      },
    ),
    'Events of one name, or those of an action.',
  ),
  Actor: { anyOf: [ref('PersonActor'), ref('GroupActor')] },
  PersonActor: object(
    {
      type: choice('person'),
      id: UUID,
      uuid: UUID,
      created_at: TIME,
      is_identified: BOOLEAN,
      name: TEXT,
      distinct_ids: NAMES,
      ...ACTOR_MEMBERS,
    },
    { distinct_ids_count: WHOLE },
  ),
  GroupActor: object({
    type: choice('group'),
    id: TEXT,
    group_key: TEXT,
    group_type_index: WHOLE,
    created_at: nullable(TIME),
    ...ACTOR_MEMBERS,
  }),
  People: object({ people: list(ref('Actor')), count: WHOLE }),
  ActorPage: object({ results: list(ref('People')), next: nullable(TEXT) }, { total: WHOLE }),
  ChartActorPage: object(
    {
      results: list(ref('People')),
      next: nullable(TEXT),
      initial: about(TEXT, 'Address of the first page.'),
      missing_persons: about(WHOLE, 'People of the page who do not exist any more.'),
      is_cached: BOOLEAN,
      last_refresh: TIME,
    },
    { total: about(WHOLE, 'People of all pages, with include_total.') },
  ),
  RetentionPage: object(
    {
      result: list(object({ person: ref('Actor'), appearances: list(WHOLE) })),
      next: nullable(TEXT),
      missing_persons: WHOLE,
    },
    { total: WHOLE, totals: about(list(WHOLE), 'How many of them appear in each period.') },
  ),
}

const SERIES = jsonText('events', list(ref('Series')), 'The series that are events.')
const SHARED: readonly Parameter[] = [
  SERIES,
  jsonText('actions', list(ref('Series')), 'The series that are actions.'),
  jsonText('properties', ref('Filters'), 'Tests for all series.'),
  ...RANGE_PARAMETERS,
  optional('filter_test_accounts', BOOLEAN, 'Adds the filters of the project.'),
  optional('include_total', BOOLEAN, 'Says how many people there are on all pages.'),
  optional('search', TEXT, 'Part of an e-mail address, name or distinct_id.'),
]
const PAGE = pageParameters(10_000)
const TARGET: readonly Parameter[] = [
  optional('entity_id', TEXT_OR_NUMBER, 'The event or action whose people are meant.'),
  optional('entity_type', choice('events', 'actions'), 'Which of both.'),
  optional('entity_math', TEXT, 'How the chart counts that series.'),
  optional('entity_order', WHOLE, 'Its number among the series.'),
  optional('math_property', TEXT, 'The property that is added up and the like.'),
  optional('math_group_type_index', WHOLE, 'The group type that is counted.'),
]
const BREAKDOWN: readonly Parameter[] = [
  optional('breakdown', TEXT_OR_NUMBER, 'A property or cohort that splits the chart; or a list.'),
  jsonText('breakdowns', list(JSON_OBJECT), 'Several, each with property and type.'),
  optional('breakdown_type', TEXT, 'What is split: event, person, group or cohort.'),
  optional('breakdown_group_type_index', WHOLE, 'The group type of that property.'),
  optional('breakdown_value', TEXT_OR_NUMBER, 'The value that is asked for.'),
  optional('breakdown_histogram_bin_count', WHOLE, 'Says that the value is a range of numbers.'),
]
const FUNNEL: readonly Parameter[] = [
  ...SHARED,
  ...BREAKDOWN,
  optional('funnel_step', WHOLE, 'How far people came; negative for those who stopped there.'),
  jsonText('funnel_custom_steps', list(WHOLE), 'Exact numbers of steps.'),
  optional('funnel_order_type', choice('ordered', 'strict', 'unordered'), 'Order of the steps.'),
  optional('funnel_window_interval', WHOLE, 'How long an attempt may take: a number of units.'),
  optional('funnel_window_interval_unit', TEXT, 'Minute, hour, day, week or month.'),
  optional('funnel_window_days', WHOLE, 'The same in days; goes before both.'),
  jsonText('exclusions', list(JSON_OBJECT), 'Series that end an attempt.'),
  optional('funnel_viz_type', TEXT, 'With trends the period in which attempts begin counts.'),
  optional('entrance_period_start', TEXT, 'First moment of that period.'),
  optional('drop_off', TEXT, 'Those who did not convert.'),
  optional('funnel_from_step', WHOLE, 'The step from which they count.'),
  optional('funnel_to_step', WHOLE, 'The step up to which they count.'),
  optional('aggregation_group_type_index', WHOLE, 'Groups of this type instead of persons.'),
  optional('breakdown_attribution_type', TEXT, 'Which value stands for a person.'),
  optional('breakdown_attribution_value', WHOLE, 'The step that decides.'),
  optional('funnel_step_breakdown', TEXT_OR_NUMBER, 'The value of the breakdown; or a list.'),
]
const CORRELATION: readonly Parameter[] = [
  ...FUNNEL,
  optional('funnel_correlation_type', TEXT, 'Events, event_with_properties or properties.'),
  jsonText('funnel_correlation_person_entity', ref('Series'), 'The event in between.'),
  optional('funnel_correlation_person_converted', BOOLEAN, 'Whether the people converted.'),
  jsonText('funnel_correlation_property_values', ref('Filters'), 'What the people are like.'),
  optional('funnel_correlation_person_limit', WHOLE, 'People of a page, 100 when absent.'),
  optional('funnel_correlation_person_offset', WHOLE, 'People to pass over.'),
]
const PATHS: readonly Parameter[] = [
  ...SHARED,
  jsonText('include_event_types', NAMES, 'Kinds of events: $pageview, $screen, custom_event.'),
  jsonText('include_custom_events', NAMES, 'Further events by name.'),
  jsonText('exclude_events', NAMES, 'Items that are taken away.'),
  jsonText('path_groupings', NAMES, 'Patterns that become one item.'),
  jsonText('local_path_cleaning_filters', list(JSON_OBJECT), 'Patterns and their aliases.'),
  optional('start_point', TEXT, 'Item with which paths begin.'),
  optional('end_point', TEXT, 'Item with which paths end.'),
  optional('step_limit', WHOLE, 'Items of a path, 5 when absent.'),
  optional('path_start_key', TEXT, 'Position and item, such as 1_/about.'),
  optional('path_end_key', TEXT, 'The item that must follow.'),
  optional('path_dropoff_key', TEXT, 'The item with which paths must end.'),
  optional('funnel_paths', TEXT, 'Which part of a funnel paths are about.'),
  jsonText('funnel_filter', JSON_OBJECT, 'That funnel.'),
  ...PAGE,
]

/** Both methods of a route whose parameters may be too long for an address. */
function readAndPost(
  path: string,
  name: string,
  sentence: string,
  query: readonly Parameter[],
): readonly Operation[] {
  const rest = { scope: 'person:read', answer: ref('ChartActorPage'), errors: [504] } as const
  return [
    operation(`GET ${PERSONS}${path}/`, `get${name}`, sentence, { ...rest, query }),
    operation(`POST ${PERSONS}${path}/`, `post${name}`, sentence, {
      ...rest,
      body: bodyOf(query),
      isBodyOptional: true,
      errors: [504, ...BODY_ERRORS],
    }),
  ]
}

/** Who is behind a number of a chart. */
export const ANALYTIC_RESOURCE: Resource = {
  name: 'Analytics',
  sentence: 'Who is behind a number of a chart. The parameters are those of the links of charts.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  isTable: true,
  operations: [
    operation(`GET ${PERSONS}trends/`, 'getTrendsPersons', 'People of a point of a trend.', {
      scope: 'person:read',
      query: [...SHARED, ...TARGET, ...BREAKDOWN, ...PAGE],
      answer: ref('ChartActorPage'),
      errors: [504],
    }),
    operation(`GET ${PERSONS}lifecycle/`, 'getLifecyclePersons', 'New, returning or lost people.', {
      scope: 'person:read',
      query: [
        required('target_date', TEXT, 'A moment of the period.'),
        required('lifecycle_type', TEXT, 'New, returning, resurrecting or dormant, in lower case.'),
        ...SHARED,
        ...PAGE,
      ],
      answer: ref('ActorPage'),
      errors: [504],
    }),
    operation(`GET ${PERSONS}retention/`, 'getRetentionPersons', 'When people came back.', {
      scope: 'person:read',
      query: [
        jsonText('target_entity', ref('Series'), 'The event that begins; $pageview when absent.'),
        jsonText('returning_entity', ref('Series'), 'The event that shows a return.'),
        optional('retention_type', TEXT, 'With retention_first_time only the first one counts.'),
        optional('period', choice('Hour', 'Day', 'Week', 'Month'), 'How long a period is.'),
        optional('total_intervals', WHOLE, 'Periods of the range, 11 when absent.'),
        optional('selected_interval', WHOLE, 'The period of the cohort, from 0.'),
        ...SHARED,
        ...PAGE,
      ],
      answer: ref('RetentionPage'),
      errors: [504],
    }),
    operation(`GET ${PERSONS}stickiness/`, 'getStickinessPersons', 'People by active periods.', {
      scope: 'person:read',
      query: [
        ...SHARED,
        ...TARGET,
        optional('stickiness_days', WHOLE, 'In how many periods.'),
        ...PAGE,
      ],
      answer: ref('ActorPage'),
      errors: [504],
    }),
    ...readAndPost('funnel', 'FunnelPersons', 'People of a step of a funnel.', [
      ...FUNNEL,
      ...PAGE,
    ]),
    ...readAndPost(
      'funnel/correlation',
      'CorrelationPersons',
      'People of a funnel with an event or property in common.',
      CORRELATION,
    ),
    ...readAndPost('path', 'PathPersons', 'People who went a way.', PATHS),
  ],
}
