/** The query of a flag request. Most requests repeat one of a few texts, so each is read once. */

/** Texts that are remembered, and their length. */
const KNOWN_QUERIES_MAX = 200
const KNOWN_UNITS_MAX = 200

/** What the query says; '' and null where it says nothing. */
export interface FlagQuery {
  /** `v` as it stands there. */
  readonly version: string | null
  /** `config`. */
  readonly config: string | null
  readonly token: string | null
  readonly apiKey: string | null
  readonly projectId: string | null
  /** The wrapping that is declared; `unknown` for a name that means nothing here. */
  readonly compression: '' | 'gzip' | 'base64' | 'lz64' | 'unknown'
  readonly isSurveyFlagsOnly: boolean
}

const known = new Map<string, FlagQuery>()

/** Reads a query, the text behind `?`. Unknown parameters are ignored. */
export function readFlagQuery(text: string): FlagQuery {
  const before = known.get(text)
  if (before !== undefined) return before
  const parameters = new URLSearchParams(text)
  const query: FlagQuery = {
    version: parameters.get('v'),
    config: parameters.get('config'),
    token: parameters.get('token'),
    apiKey: parameters.get('api_key'),
    projectId: parameters.get('project_id'),
    compression: compressionOf(parameters.get('compression') ?? ''),
    isSurveyFlagsOnly: isTrue(parameters.get('only_evaluate_survey_feature_flags')),
  }
  if (text.length <= KNOWN_UNITS_MAX) {
    if (known.size >= KNOWN_QUERIES_MAX) known.clear()
    known.set(text, query)
  }
  return query
}

/** A parameter that is switched on. */
export function isTrue(value: string | null): boolean {
  return value === 'true' || value === 'True' || value === '1'
}

function compressionOf(name: string): FlagQuery['compression'] {
  switch (name.trim().toLowerCase()) {
    case '':
      return ''
    case 'gzip':
    case 'gzip-js':
      return 'gzip'
    case 'base64':
    case 'b64':
      return 'base64'
    case 'lz64':
    case 'lz-string':
      return 'lz64'
    default:
      return 'unknown'
  }
}
