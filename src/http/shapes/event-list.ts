/**
 * The parameters of the event list that have a structure of their own: property filters and the
 * cursor. docs/COMPATIBILITY.md, "Reading events".
 */
import { ServiceError } from '../../base/errors.ts'
import { compileShape } from '../../base/validator.ts'
import { LIST_OPERATORS, OPERATORS_WITHOUT_VALUE } from '../../rules/filters/filter-operators.ts'

/** Filters of one request. More: 400 `invalid_input`. */
const FILTERS_MAX = 100
const SCALARS = ['string', 'number', 'boolean', 'null']

/** A test on one property of an event, or of its person. */
export interface EventFilterParameter {
  readonly key: string
  readonly value?: unknown
  readonly operator?: (typeof LIST_OPERATORS)[number]
  readonly type?: 'event' | 'person'
  /** Swaps the operator with its opposite. */
  readonly negation?: boolean
}

/** The parameter `properties` of the event list. */
export const eventFiltersShape = compileShape<readonly EventFilterParameter[]>({
  type: 'array',
  maxItems: FILTERS_MAX,
  items: {
    type: 'object',
    required: ['key'],
    properties: {
      key: { type: 'string', minLength: 1 },
      value: { type: [...SCALARS, 'array'], items: { type: SCALARS } },
      operator: { type: 'string', enum: LIST_OPERATORS },
      type: { type: 'string', enum: ['event', 'person'] },
      negation: { type: 'boolean' },
    },
  },
})

/** Reads the parameter `properties`, a JSON list of filters. Throws 400 `invalid_input`. */
export function parseEventFilters(text: string): readonly EventFilterParameter[] {
  const filters = parseJson(text)
  if (!eventFiltersShape.matches(filters)) {
    const problem = eventFiltersShape.problemOf(filters)
    const place = problem === null || problem.field === '' ? '' : ` (at ${problem.field})`
    throw invalid(`must be a list of filters${place}: ${problem?.message ?? 'wrong shape'}`)
  }
  for (const { operator, value } of filters) {
    const isMissing = value === undefined || value === null
    if (isMissing && !OPERATORS_WITHOUT_VALUE.includes(operator)) {
      throw invalid('needs a value in every filter, except with is_set and is_not_set')
    }
  }
  return filters
}

/** The last event of a page, from which the next page goes on. */
export interface EventListCursor {
  readonly timestampMs: number
  readonly id: number
}

/** The opaque text of a cursor: base64url, so that it needs no escapes in a URL. */
export function encodeEventCursor(cursor: EventListCursor): string {
  return Buffer.from(`${cursor.timestampMs},${cursor.id}`).toString('base64url')
}

/** Reads what `encodeEventCursor` made. Throws 400 `invalid_input` for anything else. */
export function decodeEventCursor(text: string): EventListCursor {
  const parts = /^(-?[0-9]{1,15}),([0-9]{1,15})$/.exec(Buffer.from(text, 'base64url').toString())
  if (parts === null) {
    const detail = 'cursor must come from the field next of a page before; start without one'
    throw new ServiceError('invalid_input', detail, { attr: 'cursor' })
  }
  return { timestampMs: Number(parts[1]), id: Number(parts[2]) }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid('must be a JSON list of filters, for example [{"key":"plan","value":"pro"}]')
  }
}

function invalid(what: string): ServiceError {
  return new ServiceError('invalid_input', `properties ${what}`, { attr: 'properties' })
}
