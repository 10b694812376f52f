/**
 * Goals: events and pages that count as a success. A goal is an action of the project with the tag `goal`, so every
 * query that accepts actions can use it.
 */
import type { components } from '../../base/api-types.d.ts'

type Action = components['schemas']['Action']
/** The body that creates an action. */
type ActionDraft = components['schemas']['ActionDraft']

/** The tag of actions that are goals, as `GOAL_TAG` in the kit, which only browsers can load. */
const TAG = 'goal'
const VIEW = '$pageview'
const PATHNAME = '$pathname'

/** What a goal counts. A path may contain `*`, which stands for any text. */
export type Counted =
  | { readonly of: 'event'; readonly event: string }
  | { readonly of: 'page'; readonly path: string }
  /** Conditions that only the API can change. */
  | { readonly of: 'action' }

/** Returns the body that creates a goal. */
export function goalDraft(name: string, counted: Exclude<Counted, { of: 'action' }>): ActionDraft {
  return {
    name,
    tags: [TAG],
    steps: [counted.of === 'event' ? { event: counted.event } : viewOf(counted.path)],
  }
}

/** Returns the tags of a goal that is only an action from now on. */
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

/** Returns what a goal counts, as words. */
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

/** Returns the path of a filter that `viewOf` makes, or null. */
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
