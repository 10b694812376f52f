/**
 * Goals: events and pageviews that count as a success. A goal is an action of the project that has the tag `goal`, so
 * every query that accepts actions can use it.
 */
import type { components } from '../../base/api-types.d.ts'

type Action = components['schemas']['Action']
/** The body of a request that creates an action. */
type ActionDraft = components['schemas']['ActionDraft']

/**
 * The tag that makes an action a goal, the same as `GOAL_TAG` in base/goals.ts. That file can only be loaded in
 * browsers, so it cannot be imported here.
 */
const TAG = 'goal'
const VIEW = '$pageview'
const PATHNAME = '$pathname'

/**
 * What a goal counts: an event, or views of a page. The path of the page may contain `*`, which stands for any text.
 */
export type Counted =
  | { readonly of: 'event'; readonly event: string }
  | { readonly of: 'page'; readonly path: string }
  /** An action with other conditions. Only the API can change them. */
  | { readonly of: 'action' }

/** Returns the body of a request that creates a goal. */
export function goalDraft(name: string, counted: Exclude<Counted, { of: 'action' }>): ActionDraft {
  return {
    name,
    tags: [TAG],
    steps: [counted.of === 'event' ? { event: counted.event } : viewOf(counted.path)],
  }
}

/** Returns the tags of an action after it has stopped being a goal. */
export function tagsWithoutGoal({ tags }: Pick<Action, 'tags'>): string[] {
  return tags.filter((tag) => tag !== TAG)
}

/** Returns what a goal counts. */
export function countedBy({ steps }: Pick<Action, 'steps'>): Counted {
  const [step] = steps
  const other = { of: 'action' } as const
  if (step === undefined || steps.length > 1) return other
  const { event, url, selector, tag_name: tag, text, href } = step
  if (event === null || [url, selector, tag, text, href].some((one) => one !== null)) return other
  const filters: readonly unknown[] = Array.isArray(step.properties) ? step.properties : [null]
  if (filters.length === 0) return { of: 'event', event }
  const path = event === VIEW && filters.length === 1 ? pathOf(filters[0]) : null
  return path === null ? other : { of: 'page', path }
}

/** Returns in words what a goal counts. */
export function goalWords(counted: Counted, eventLabel: (name: string) => string): string {
  if (counted.of === 'event') return `Event ${eventLabel(counted.event)}`
  return counted.of === 'page' ? `Page ${counted.path}` : 'Action with several conditions'
}

function viewOf(path: string) {
  const isPattern = path.includes('*')
  const operator = isPattern ? 'regex' : 'exact'
  const filter = {
    key: PATHNAME,
    type: 'event',
    operator,
    value: isPattern ? patternOf(path) : path,
  } as const
  return { event: VIEW, properties: [filter] }
}

/** Returns the path in a filter that `viewOf` has made, or null for another filter. */
function pathOf(filter: unknown): string | null {
  const { key, type, operator, value } = (filter ?? {}) as Readonly<Record<string, unknown>>
  if (key !== PATHNAME || type !== 'event' || typeof value !== 'string') return null
  if (operator === 'exact') return value.includes('*') ? null : value
  if (operator !== 'regex') return null
  const path = value.slice(1, -1).replace(/\.\*|\\(.)/gs, (_, escaped?: string) => escaped ?? '*')
  return patternOf(path) === value ? path : null
}

function patternOf(path: string): string {
  const parts = path.split('*').map((part) => part.replace(/[\\^$.+?()[\]{}|]/g, '\\$&'))
  return `^${parts.join('.*')}$`
}
