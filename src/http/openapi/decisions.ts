/** The description of flags as SDKs ask for them. docs/COMPATIBILITY.md, "Decisions" and "OpenFeature". */
import { EMPTY_LISTS } from '../routes/public/remote-config.ts'
import { DEFINITIONS, SEND_COHORTS } from './flags.ts'
import {
  ANY,
  about,
  BOOLEAN,
  choice,
  JSON_OBJECT,
  list,
  type Members,
  mapOf,
  NUMBER,
  nullable,
  type Operation,
  object,
  openObject,
  operation,
  optional,
  type Resource,
  ref,
  TEXT,
  TEXT_OR_NUMBER,
  UUID,
  WHOLE,
} from './types.ts'

const FLAG_VALUE = { type: ['boolean', 'string'] } as const
const OFREP = '/ofrep/v1/evaluate/flags'

/** Requests for decisions and answers to them. */
export const DECISION_COMPONENTS: Members = {
  DecisionRequest: openObject(
    { distinct_id: about(TEXT_OR_NUMBER, 'For whom.') },
    {
      token: about(TEXT, 'The key of the project; also as api_key.'),
      groups: about(JSON_OBJECT, 'Types and keys of groups.'),
      person_properties: about(JSON_OBJECT, 'Win over what is stored.'),
      group_properties: about(mapOf(JSON_OBJECT), 'The same for groups, by type.'),
      $anon_distinct_id: about(TEXT_OR_NUMBER, 'The id before the user logged in.'),
      $device_id: about(TEXT_OR_NUMBER, 'For flags that are decided by device.'),
      flag_keys_to_evaluate: about(list(TEXT), 'Only these flags.'),
      evaluation_contexts: about(list(TEXT), 'Leaves out flags of other contexts.'),
      evaluation_runtime: about(TEXT, 'Client, server or all, in lower case.'),
      disable_flags: about(BOOLEAN, 'An answer without flags.'),
      project_id: about(TEXT_OR_NUMBER, 'The project, for a personal key as token.'),
    },
  ),
  Decisions: about(
    openObject(
      { requestId: UUID, evaluatedAt: WHOLE },
      {
        flags: mapOf(ref('Decision')),
        featureFlags: { anyOf: [mapOf(FLAG_VALUE), list(TEXT)] },
        featureFlagPayloads: mapOf(TEXT),
        errorsWhileComputingFlags: BOOLEAN,
        errorComputingFlags: BOOLEAN,
      },
    ),
    'The members depend on v; the configuration of browsers may be there, too.',
  ),
  Decision: object(
    {
      key: TEXT,
      enabled: BOOLEAN,
      variant: nullable(TEXT),
      reason: object({ code: TEXT, condition_index: nullable(WHOLE), description: TEXT }),
      metadata: object({
        id: WHOLE,
        version: WHOLE,
        description: { type: 'null' },
        payload: about(nullable(TEXT), 'A JSON text.'),
        has_experiment: BOOLEAN,
      }),
    },
    { failed: BOOLEAN },
  ),
  RemoteConfig: openObject({
    token: TEXT,
    hasFeatureFlags: BOOLEAN,
    supportedCompression: list(TEXT),
  }),
  OfrepRequest: object({ context: openObject({ targetingKey: TEXT }) }),
  OfrepEvaluation: openObject(
    { key: TEXT },
    {
      value: FLAG_VALUE,
      reason: choice('TARGETING_MATCH', 'SPLIT', 'DEFAULT', 'DISABLED'),
      variant: TEXT,
      metadata: mapOf({ type: ['string', 'number'] }),
      errorCode: TEXT,
      errorDetails: TEXT,
    },
  ),
  OfrepFault: openObject({ errorCode: TEXT, errorDetails: TEXT }, { key: TEXT }),
}

const QUERY = [
  optional('v', TEXT, 'Version of the answer.'),
  optional('config', BOOLEAN, 'With the configuration of browsers.'),
  optional('compression', TEXT, 'How the body is wrapped.'),
  optional('only_evaluate_survey_feature_flags', BOOLEAN, 'Only flags of surveys.'),
]

function decisionOperations(path: '/decide' | '/flags', name: string): readonly Operation[] {
  const preflight = 'Answers a browser that asks first.'
  return [
    operation(`POST ${path}`, `post${name}`, 'Decides which flags are on for somebody.', {
      doors: ['none', 'projectKey'],
      query: QUERY,
      body: ref('DecisionRequest'),
      bodyTypes: ['text/plain', 'application/x-www-form-urlencoded', 'application/octet-stream'],
      answer: ref('Decisions'),
      errors: [400, 401, 413],
    }),
    operation(`GET ${path}`, `get${name}`, 'The configuration of browsers, without flags.', {
      answer: ref('Decisions'),
    }),
    operation(`HEAD ${path}`, `head${name}`, 'The headers of GET.'),
    path === '/decide'
      ? operation(`OPTIONS ${path}`, `options${name}`, preflight, {
          answer: object({ status: NUMBER }),
        })
      : operation(`OPTIONS ${path}`, `options${name}`, preflight, { status: 204 }),
  ]
}

/** Decisions, and the definitions for SDKs that decide by themselves. */
export const DECISION_RESOURCE: Resource = {
  name: 'Flag decisions',
  sentence: 'Which flags are on for somebody. The key of the project stands in the body or query.',
  doors: ['none'],
  errors: [500, 503],
  operations: [
    ...decisionOperations('/flags', 'Flags'),
    ...decisionOperations('/decide', 'Decide'),
    operation('GET /flags/definitions/', 'getDefinitions', 'Definitions with cohorts.', {
      ...DEFINITIONS,
      query: [optional('token', TEXT, 'Key of the project that is meant.')],
      errors: [401, 403, 404],
    }),
    operation('GET /api/feature_flag/local_evaluation/', 'getSdkDefinitions', 'Definitions.', {
      ...DEFINITIONS,
      query: [optional('token', TEXT, 'Key of the project that is meant.'), SEND_COHORTS],
      errors: [401, 403, 404],
    }),
    operation('GET /api/feature_flag/', 'listSdkFlags', 'All flags in one page, for old SDKs.', {
      scope: 'feature_flag:read',
      doors: ['personalKey', 'secretKey'],
      query: [optional('token', TEXT, 'Key of the project that is meant.')],
      answer: ref('FeatureFlagPage'),
      errors: [401, 403, 404],
    }),
  ],
}

/** GET, HEAD and OPTIONS of a path. */
function readable(
  path: `/${string}`,
  name: string,
  sentence: string,
  rest: Pick<Operation, 'answer' | 'answerType' | 'emptyAnswers' | 'errors'>,
): readonly Operation[] {
  const { errors = [], emptyAnswers = {} } = rest
  return [
    operation(`GET ${path}`, `get${name}`, sentence, rest),
    operation(`HEAD ${path}`, `head${name}`, 'The headers of GET.', { errors, emptyAnswers }),
    operation(`OPTIONS ${path}`, `options${name}`, 'Answers a browser that asks first.', {
      status: 204,
    }),
  ]
}

const UNCHANGED = { 304: 'The tag in If-None-Match is that of the answer.' } as const
const SDK_FILE = {
  answerType: 'application/javascript',
  emptyAnswers: UNCHANGED,
  errors: [404],
} as const

/** What browsers are told besides flags, and the SDK itself. docs/COMPATIBILITY.md, "Remote configuration". */
export const REMOTE_CONFIG_RESOURCE: Resource = {
  name: 'Remote configuration',
  sentence:
    'What browsers are told besides flags, their SDK, and lists of products that are not offered.',
  doors: ['none'],
  errors: [500],
  segments: {
    token: [TEXT, 'Key of the project.'],
    version: [TEXT, 'Of posthog-js, such as 1.449.2 or 1.'],
    name: [TEXT, 'Such as array.js.'],
  },
  operations: [
    ...readable('/static/:name', 'SdkFile', 'A file of posthog-js.', SDK_FILE),
    ...readable('/static/:version/:name', 'SdkFileOfVersion', 'The same of a version.', SDK_FILE),
    ...readable('/array/:token/array.js', 'SdkOfProject', 'array.js for a project.', SDK_FILE),
    ...readable('/array/:token/config', 'RemoteConfig', 'The configuration as JSON.', {
      answer: ref('RemoteConfig'),
      emptyAnswers: UNCHANGED,
      errors: [404],
    }),
    ...readable('/array/:token/config.js', 'RemoteConfigScript', 'The same as a script.', {
      answerType: 'application/javascript',
      emptyAnswers: UNCHANGED,
      errors: [404],
    }),
    ...Object.entries(EMPTY_LISTS).flatMap(([path, answer]) =>
      readable(`/${path.slice(1)}`, emptyName(path), 'An empty list.', {
        answer: openObject(Object.fromEntries(Object.keys(answer).map((name) => [name, ANY]))),
      }),
    ),
  ],
}

/** `/api/web_experiments` is `WebExperiments`. */
function emptyName(path: string): string {
  const words = (path.split('/').at(-1) ?? '').split('_')
  return words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')
}

const FAULTS = { 400: ['The body or its context cannot be used.', ref('OfrepFault')] } as const

function ofrepPreflight(path: `/${string}`, id: string): Operation {
  return operation(`OPTIONS ${path}`, id, 'Answers a browser that asks first.', {
    doors: ['none'],
    status: 204,
  })
}

/** OpenFeature's remote evaluation. docs/COMPATIBILITY.md, "OpenFeature". */
export const OFREP_RESOURCE: Resource = {
  name: 'OpenFeature',
  sentence: 'The same decisions in the protocol of OpenFeature.',
  doors: ['projectKeyHeader'],
  errors: [401, 503],
  operations: [
    operation(`POST ${OFREP}`, 'evaluateFlags', 'Decides all flags.', {
      body: ref('OfrepRequest'),
      answer: object({ flags: list(ref('OfrepEvaluation')), metadata: JSON_OBJECT }),
      emptyAnswers: UNCHANGED,
      otherAnswers: FAULTS,
      errors: [413],
    }),
    ofrepPreflight(OFREP, 'optionsEvaluateFlags'),
    operation(`POST ${OFREP}/:key`, 'evaluateFlag', 'Decides one flag.', {
      body: ref('OfrepRequest'),
      answer: ref('OfrepEvaluation'),
      otherAnswers: {
        ...FAULTS,
        404: ['There is no such flag.', ref('OfrepFault')],
        500: ['The flag cannot be computed.', ref('OfrepFault')],
      },
      errors: [413],
    }),
    ofrepPreflight(`${OFREP}/:key`, 'optionsEvaluateFlag'),
    operation('GET /ofrep/v1/configuration', 'getOfrepConfiguration', 'What is supported.', {
      answer: openObject({ name: TEXT, capabilities: JSON_OBJECT }),
    }),
    ofrepPreflight('/ofrep/v1/configuration', 'optionsOfrepConfiguration'),
  ],
}
