/** The query of a flag request. */
import type { AnswerShape } from './decide-answers.ts'

/** What the query says; '' and null where it says nothing. */
export interface FlagQuery {
  /** What `v` means on `/decide/`, and on `/flags/`. */
  readonly decideShape: AnswerShape
  readonly flagsShape: AnswerShape
  /** Answers of `/flags/` have the configuration. */
  readonly isConfigWanted: boolean
  readonly token: string | null
  readonly apiKey: string | null
  readonly projectId: string | null
  /** The wrapping that is declared; `unknown` for a name that means nothing here. */
  readonly compression: '' | 'gzip' | 'base64' | 'lz64' | 'unknown'
  readonly isSurveyFlagsOnly: boolean
}

const DECIMAL_INTEGER = /^[+-]?\d{1,15}$/

/** Reads a query, the text behind `?`. Unknown parameters are ignored. */
export function readFlagQuery(text: string): FlagQuery {
  const parameters = new URLSearchParams(text)
  const version = parameters.get('v')
  const config = parameters.get('config')
  return {
    decideShape: decideShape(version),
    flagsShape: flagsShape(version),
    isConfigWanted: config === null ? version === null : config === 'true',
    token: parameters.get('token'),
    apiKey: parameters.get('api_key'),
    projectId: parameters.get('project_id'),
    compression: compressionOf(parameters.get('compression') ?? ''),
    isSurveyFlagsOnly: isTrue(parameters.get('only_evaluate_survey_feature_flags')),
  }
}

/** A parameter that is switched on. */
function isTrue(value: string | null): boolean {
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

/** A version that is no integer means 2: an SDK once sent its own version number. */
function decideShape(version: string | null): AnswerShape {
  const text = version?.trim() ?? ''
  if (text === '') return 'decide1'
  if (!DECIMAL_INTEGER.test(text)) return 'decide2'
  const number = Number(text)
  if (number <= 1) return 'decide1'
  if (number === 2) return 'decide2'
  return number === 3 ? 'decide3' : 'decide4'
}

function flagsShape(version: string | null): AnswerShape {
  const text = version?.trim() ?? ''
  if (text === '') return 'flags2'
  return DECIMAL_INTEGER.test(text) && Number(text) >= 2 ? 'flags2' : 'flags1'
}
