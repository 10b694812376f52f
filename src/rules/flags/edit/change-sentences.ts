/**
 * Describes the changes of a flag in sentences, for the plan that shows what a file with flags would change. Filters
 * are described with the member names of such a file.
 */
import { isObject, isSameJson, type JsonObject, objectsOf } from '../../../base/json.ts'
import { PLAN_SENTENCE_UNITS_MAX } from '../limits.ts'

/**
 * The members of `filters` for which this file has functions of their own. A change of any other member is described by
 * the same general sentence.
 */
const DESCRIBED: readonly string[] = ['groups', 'multivariate', 'payloads']
const NAMES: Readonly<Record<string, string>> = {
  name: 'Description',
  tags: 'Tags',
  evaluation_contexts: 'Evaluation contexts',
  evaluation_runtime: 'Runtime',
  bucketing_identifier: 'Bucketing identifier',
  ensure_experience_continuity: 'Experience continuity',
  is_remote_configuration: 'Remote configuration',
}

/**
 * Returns sentences about the differences between two states of a flag, both in the form of a file. `before` is null
 * for a new flag. The sentences are in the order of the members and of the conditions.
 */
export function changeSentences(before: JsonObject | null, after: JsonObject): readonly string[] {
  const filters = isObject(after['filters']) ? after['filters'] : {}
  if (before === null) {
    return [
      after['active'] === false ? 'The flag is new and off.' : 'The flag is new.',
      ...filterSentences({}, filters),
    ]
  }
  const sentences: string[] = []
  const isOn = (flag: JsonObject): boolean => flag['active'] !== false
  if (isOn(before) !== isOn(after)) {
    sentences.push(isOn(after) ? 'The flag is switched on.' : 'The flag is switched off.')
  }
  for (const [member, name] of Object.entries(NAMES)) {
    if (isSameJson(before[member], after[member])) continue
    sentences.push(`${name}: ${shown(before[member])} becomes ${shown(after[member])}.`)
  }
  const old = isObject(before['filters']) ? before['filters'] : {}
  return [...sentences, ...filterSentences(old, filters)]
}

function filterSentences(before: JsonObject, after: JsonObject): readonly string[] {
  const sentences = [
    ...conditionSentences(objectsOf(before['groups']), objectsOf(after['groups'])),
    ...variantSentences(variantsOf(before), variantsOf(after)),
    ...payloadSentences(before['payloads'], after['payloads']),
  ]
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (DESCRIBED.includes(name) || isSameJson(before[name], after[name])) continue
    sentences.push(`${name}: ${shown(before[name])} becomes ${shown(after[name])}.`)
  }
  return sentences
}

function conditionSentences(
  before: readonly JsonObject[],
  after: readonly JsonObject[],
): readonly string[] {
  const sentences: string[] = []
  for (let index = 0; index < Math.max(before.length, after.length); index++) {
    const number = `Condition ${index + 1}`
    const old = before[index]
    const now = after[index]
    if (old === undefined && now !== undefined) sentences.push(`${number} is new: ${said(now)}.`)
    else if (now === undefined && old !== undefined)
      sentences.push(`${number} is removed: ${said(old)}.`)
    else if (old !== undefined && now !== undefined && !isSameJson(old, now)) {
      sentences.push(...memberSentences(number, old, now))
    }
  }
  return sentences
}

function memberSentences(number: string, old: JsonObject, now: JsonObject): readonly string[] {
  const sentences: string[] = []
  const { properties: oldFilters, rollout_percentage: oldRollout, ...oldRest } = old
  const { properties: nowFilters, rollout_percentage: nowRollout, ...nowRest } = now
  if (percentage(oldRollout) !== percentage(nowRollout)) {
    sentences.push(`${number}: ${percentage(oldRollout)} becomes ${percentage(nowRollout)}.`)
  }
  if (!isSameJson(oldFilters, nowFilters)) {
    sentences.push(`${number}: ${filtersText(oldFilters)} becomes ${filtersText(nowFilters)}.`)
  }
  for (const name of new Set([...Object.keys(oldRest), ...Object.keys(nowRest)])) {
    if (isSameJson(oldRest[name], nowRest[name])) continue
    sentences.push(`${number}, ${name}: ${shown(oldRest[name])} becomes ${shown(nowRest[name])}.`)
  }
  return sentences.length === 0 ? [`${number} is written in another form.`] : sentences
}

function variantSentences(
  before: ReadonlyMap<string, JsonObject>,
  after: ReadonlyMap<string, JsonObject>,
): readonly string[] {
  const sentences: string[] = []
  for (const [key, now] of after) {
    const old = before.get(key)
    const rollout = percentage(now['rollout_percentage'])
    if (old === undefined) sentences.push(`Variant ${shown(key)} is new: ${rollout}.`)
    else if (!isSameJson(old, now)) {
      const oldRollout = percentage(old['rollout_percentage'])
      sentences.push(
        oldRollout === rollout
          ? `Variant ${shown(key)} is renamed.`
          : `Variant ${shown(key)}: ${oldRollout} becomes ${rollout}.`,
      )
    }
  }
  for (const key of before.keys()) {
    if (!after.has(key)) sentences.push(`Variant ${shown(key)} is removed.`)
  }
  const isReordered =
    before.size > 0 &&
    sentences.length === 0 &&
    [...before.keys()].join() !== [...after.keys()].join()
  return isReordered ? ['The variants have another order, which moves persons.'] : sentences
}

function payloadSentences(before: unknown, after: unknown): readonly string[] {
  const old = isObject(before) ? before : {}
  const now = isObject(after) ? after : {}
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .filter((name) => !isSameJson(old[name], now[name]))
    .map((name) => {
      return `Payload of ${shown(name)}: ${shown(old[name])} becomes ${shown(now[name])}.`
    })
}

function variantsOf(filters: JsonObject): ReadonlyMap<string, JsonObject> {
  const { multivariate } = filters
  const list = isObject(multivariate) ? objectsOf(multivariate['variants']) : []
  return new Map(list.map((variant) => [String(variant['key']), variant]))
}

function said(condition: JsonObject): string {
  const rollout = percentage(condition['rollout_percentage'])
  const { variant } = condition
  const forced = typeof variant === 'string' && variant !== '' ? `, variant ${shown(variant)}` : ''
  return `${filtersText(condition['properties'])}, ${rollout}${forced}`
}

function filtersText(properties: unknown): string {
  const filters = objectsOf(properties)
  if (filters.length === 0) return 'everyone'
  return cut(filters.map(filterText).join(' and '))
}

function filterText(filter: JsonObject): string {
  const { type, key, operator = 'exact', value, cohort, flag, negation } = filter
  if (type === 'cohort') {
    const isOut = negation === true || operator === 'not_in'
    return `${isOut ? 'not in' : 'in'} the cohort ${shown(cohort ?? value)}`
  }
  if (type === 'flag') return `flag ${shown(flag ?? key)} is ${shown(value)}`
  const words = String(operator).replaceAll('_', ' ')
  return value === undefined ? `${shown(key)} ${words}` : `${shown(key)} ${words} ${shown(value)}`
}

/** Returns a rollout percentage as text. An absent one means 100 %. */
function percentage(value: unknown): string {
  return `${typeof value === 'number' ? value : 100} %`
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : cut(JSON.stringify(value))
}

function cut(text: string): string {
  return text.length <= PLAN_SENTENCE_UNITS_MAX
    ? text
    : `${text.slice(0, PLAN_SENTENCE_UNITS_MAX)}…`
}
