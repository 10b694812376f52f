/**
 * Actions: named sets of events. An action consists of steps, and an event belongs to it if one step matches. This file
 * contains the shapes and the meaning of a step. Source: docs/compatibility/analytics.md, "Actions".
 */
import type { ActionStepMatch } from '../analytics/event-columns.ts'
import { allOf, type FilterGroup, type PropertyFilter } from './filter-group.ts'
import { readStoredFilters } from './filter-tree.ts'

/** How a text of a step is compared. */
export type StepMatching = 'contains' | 'exact' | 'regex'

/** A step as it is stored and shown. A member that is null sets no condition. */
export interface ActionStep {
  readonly event: string | null
  readonly url: string | null
  readonly url_matching: StepMatching
  readonly selector: string | null
  readonly tag_name: string | null
  readonly text: string | null
  readonly text_matching: StepMatching
  readonly href: string | null
  readonly href_matching: StepMatching
  /** A list or a tree of property filters, as it was sent. */
  readonly properties: unknown
}

/** An action as the API shows it. */
export interface ActionView {
  readonly id: number
  readonly name: string
  readonly description: string
  readonly tags: readonly string[]
  readonly steps: readonly ActionStep[]
  readonly created_at: string
  readonly created_by: Readonly<Record<string, unknown>> | null
  readonly deleted: boolean
  readonly is_calculating: false
}

/** The fields of an action that a client may set. */
export interface ActionDraft {
  readonly name: string
  readonly description: string
  readonly tags: readonly string[]
  readonly steps: readonly ActionStep[]
}

/** An action as it is stored. */
export interface ActionRecord extends ActionDraft {
  readonly id: number
  readonly isDeleted: boolean
  readonly createdAt: string
  readonly createdBy: Readonly<Record<string, unknown>> | null
}

/** Returns an action as the API shows it. */
export function actionView(action: ActionRecord): ActionView {
  return {
    id: action.id,
    name: action.name,
    description: action.description,
    tags: action.tags,
    steps: action.steps,
    created_at: action.createdAt,
    created_by: action.createdBy,
    deleted: action.isDeleted,
    is_calculating: false,
  }
}

const OPERATORS = { contains: 'icontains', exact: 'exact', regex: 'regex' } as const

/** Returns the conditions of the steps of an action, one of which must match. Throws 400 `invalid_input`. */
export function actionSteps(steps: readonly ActionStep[]): readonly ActionStepMatch[] {
  return steps.map((step) => ({
    name: step.event,
    url: step.url,
    urlMatching: step.url_matching,
    filter: allOf([elementFilters(step), readStoredFilters(step.properties, 'steps')]),
  }))
}

function elementFilters(step: ActionStep): FilterGroup | null {
  const { selector, text, href } = step
  const values: PropertyFilter[] = []
  const type = 'element'
  if (selector !== null) values.push({ type, key: 'selector', value: selector })
  if (step.tag_name !== null) values.push({ type, key: 'tag_name', value: step.tag_name })
  if (text !== null) {
    values.push({ type, key: 'text', value: text, operator: OPERATORS[step.text_matching] })
  }
  if (href !== null) {
    values.push({ type, key: 'href', value: href, operator: OPERATORS[step.href_matching] })
  }
  return values.length === 0 ? null : { type: 'AND', values }
}
