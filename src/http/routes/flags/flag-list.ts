/**
 * The route that lists feature flags, with its filters, orders and pages. It answers from memory. Source:
 * docs/compatibility/flags.md, "List of feature flags".
 */
import { isObject, objectsOf } from '../../../base/json.ts'
import { hasExperiment, statusOf } from '../../../rules/flags/edit/flag-body.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import { countedUrls, lenientPage } from '../../server/pages.ts'
import type { Answer } from '../../server/respond.ts'
import { PAGE_FLAG_UNITS_MAX } from '../limits.ts'
import { type FlagCall, presentFlag } from './flag-access.ts'

const TYPES: readonly (string | null)[] = ['boolean', 'multivariant', 'experiment', 'remote_config']

/** Answers a request for one page of the list. Cost: each flag of the project is tested. */
export function listFlags(call: FlagCall): Answer {
  const { request, services, projectId, nowMs } = call
  const found = services.flags.flagsOf(projectId).filter(filterOf(request.query, nowMs))
  found.sort(orderOf(request.query.get('order')))
  const page = lenientPage(call)
  const texts = textsOf(call, found.slice(page.offset, page.offset + page.limit))
  const urls = countedUrls(call, page, texts.length, found.length)
  const opening = JSON.stringify({ count: found.length, ...urls }).slice(0, -1)
  const body = `${opening},"results":[${texts.join(',')}]}`
  return { status: 200, contentType: 'application/json', body }
}

/**
 * Returns the JSON of each flag. Stops before the flag that would make the page too large, but returns at least one.
 */
function textsOf(call: FlagCall, flags: readonly Flag[]): readonly string[] {
  const texts: string[] = []
  let units = 0
  for (const flag of flags) {
    const text = JSON.stringify(presentFlag(call, flag, false))
    units += text.length
    if (units > PAGE_FLAG_UNITS_MAX && texts.length > 0) break
    texts.push(text)
  }
  return texts
}

type FlagTest = (flag: Flag) => boolean

function filterOf(query: URLSearchParams, nowMs: number): FlagTest {
  const tests = [
    activityTest(query.get('active'), nowMs),
    searchTest(query.get('search')),
    typeTest(query.get('type')),
    creatorTest(query.get('created_by_id')),
    listTest(query.get('tags'), (flag, tags) => flag.tags.some((tag) => tags.includes(tag))),
    listTest(query.get('excluded_properties'), (flag, keys) => !keys.includes(flag.key)),
    runtimeTest(query.get('evaluation_runtime')),
  ].filter((test) => test !== null)
  return (flag) => tests.every((test) => test(flag))
}

function activityTest(text: string | null, nowMs: number): FlagTest | null {
  if (text === null) return null
  if (text === 'STALE') return (flag) => statusOf(flag, nowMs) === 'STALE'
  const isWanted = text === 'true'
  return ({ active }) => active === isWanted
}

function searchTest(text: string | null): FlagTest | null {
  if (text === null || text === '') return null
  const wanted = text.toLowerCase()
  return ({ key, name }) =>
    key.toLowerCase().includes(wanted) || name.toLowerCase().includes(wanted)
}

function typeTest(type: string | null): FlagTest | null {
  if (!TYPES.includes(type)) return null
  if (type === 'experiment') return hasExperiment
  if (type === 'remote_config') return ({ isRemoteConfiguration }) => isRemoteConfiguration
  return (flag) => hasVariants(flag) === (type === 'multivariant')
}

function hasVariants({ filters }: Flag): boolean {
  const { multivariate } = filters
  return isObject(multivariate) && objectsOf(multivariate['variants']).length > 0
}

function creatorTest(text: string | null): FlagTest | null {
  if (text === null || !/^[0-9]{1,15}$/.test(text)) return null
  return ({ createdById }) => createdById === Number(text)
}

/**
 * Returns the test for a filter whose value must be a JSON list. Returns null for any other value. The filter is then
 * ignored.
 */
function listTest(
  text: string | null,
  test: (flag: Flag, list: readonly unknown[]) => boolean,
): FlagTest | null {
  const list = jsonList(text)
  return list === null || list.length === 0 ? null : (flag) => test(flag, list)
}

function jsonList(text: string | null): readonly unknown[] | null {
  if (text === null) return null
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? value : null
  } catch {
    return null
  }
}

function runtimeTest(text: string | null): FlagTest | null {
  if (text === null || text === '') return null
  return ({ evaluationRuntime }) => evaluationRuntime === text
}

type FlagOrder = (a: Flag, b: Flag) => number

/** The fields by which the list can be ordered, and the value of each in a flag. */
const ORDERS: ReadonlyMap<string, (flag: Flag) => string | number | boolean> = new Map([
  ['id', (flag: Flag): string | number | boolean => flag.id],
  ['key', (flag) => flag.key],
  ['name', (flag) => flag.name],
  ['created_at', (flag) => flag.createdAtMs],
  ['updated_at', (flag) => flag.updatedAtMs],
  ['active', (flag) => flag.active],
])

/**
 * Returns the comparison for the order named in a request: a field, with `-` in front for descending. The default is
 * newest first.
 */
function orderOf(text: string | null): FlagOrder {
  const isDescending = text?.startsWith('-') === true
  const sortValue = ORDERS.get(isDescending ? text.slice(1) : (text ?? ''))
  if (sortValue === undefined) return (a, b) => b.createdAtMs - a.createdAtMs || b.id - a.id
  const sign = isDescending ? -1 : 1
  return (a, b) => {
    const left = sortValue(a)
    const right = sortValue(b)
    if (left === right) return b.id - a.id
    return left < right ? -sign : sign
  }
}
