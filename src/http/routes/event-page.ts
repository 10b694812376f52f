/** Pages of events, warnings and dropped events: how many rows, and where the next one goes on. */
import { ServiceError } from '../../base/errors.ts'
import { PAGE_EVENTS_DEFAULT, PAGE_EVENTS_MAX } from '../../base/limits.ts'
import { about, refused, TEXT, WHOLE } from '../server/schema.ts'

/** The parameter `limit`. */
export const LIMIT = about(
  refused(WHOLE, `limit must be a whole number from 1 to ${PAGE_EVENTS_MAX}`),
  'Rows of a page: 100 when absent, 1000 at most.',
)
/** The parameter `cursor`. */
export const CURSOR = about(TEXT, 'Where to go on; it comes in next.')

/** Rows of a page: absent and 0 mean the default, more than the limit means the limit. */
export function pageLimit(limit = 0): number {
  return limit === 0 ? PAGE_EVENTS_DEFAULT : Math.min(limit, PAGE_EVENTS_MAX)
}

/** 400 for a cursor that no page has named. */
export function foreignCursor(): ServiceError {
  const detail = 'cursor must come from the field next of a page before; start without one'
  return new ServiceError('invalid_input', detail, { attr: 'cursor' })
}
