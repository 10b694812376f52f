/**
 * Reads the parameters of persons/path into plain data that may be passed to another thread. Source:
 * docs/compatibility/analytics.md, "Paths".
 */

import { invalidInput } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import { type FunnelParameters, readFunnelParameters } from '../funnel/funnel-shapes.ts'
import { PATH_TEXT_UNITS_MAX, PATH_TEXTS_MAX } from '../limits.ts'
import { JsonParameters, type ParameterSource, readAnalyticParameters } from '../question-shapes.ts'

/** A pattern that is searched for in the items of paths, and the text that replaces its matches. */
export type CleaningRule = Readonly<Record<'regex' | 'alias', string>>

/** The parameters of persons/path. */
export type PathParameters = Readonly<ReturnType<typeof readPathParameters>>

/** Reads the parameters of persons/path. Throws 400 `invalid_input`. */
export function readPathParameters(source: ParameterSource) {
  return {
    ...readAnalyticParameters(source),
    includeEventTypes: readTexts(source, 'include_event_types'),
    includeCustomEvents: readTexts(source, 'include_custom_events'),
    excludeEvents: readTexts(source, 'exclude_events'),
    groupings: readTexts(source, 'path_groupings'),
    cleaningRules: readCleaningRules(source),
    startPoint: source.text('start_point'),
    endPoint: source.text('end_point'),
    stepLimit: source.wholeNumber('step_limit'),
    startKey: source.text('path_start_key'),
    endKey: source.text('path_end_key'),
    dropOffKey: source.text('path_dropoff_key'),
    funnelPaths: source.text('funnel_paths'),
    funnel: readFunnelFilter(source),
  }
}

function readTexts(source: ParameterSource, name: string): readonly string[] {
  const value = source.json(name)
  if (value === undefined || value === null) return []
  const isList = Array.isArray(value) && value.length <= PATH_TEXTS_MAX && value.every(isText)
  if (!isList) throw invalidInput(name, `must be a list of at most ${PATH_TEXTS_MAX} texts`)
  return value
}

function readCleaningRules(source: ParameterSource): readonly CleaningRule[] {
  const name = 'local_path_cleaning_filters'
  const value = source.json(name)
  if (value === undefined || value === null) return []
  if (!Array.isArray(value) || value.length > PATH_TEXTS_MAX) {
    throw invalidInput(name, `must be a list of at most ${PATH_TEXTS_MAX} rules`)
  }
  return value.map((rule: unknown) => {
    const { regex, alias } = isObject(rule) ? rule : {}
    if (isText(regex) && isText(alias)) return { regex, alias }
    throw invalidInput(name, 'needs the texts `regex` and `alias` in each rule')
  })
}

function readFunnelFilter(source: ParameterSource): FunnelParameters | null {
  const value = source.json('funnel_filter')
  if (value === undefined || value === null) return null
  if (!isObject(value))
    throw invalidInput('funnel_filter', 'must be an object that describes a funnel')
  return readFunnelParameters(new JsonParameters(value))
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= PATH_TEXT_UNITS_MAX
}
