/** Groups as clients name and see them. Source: docs/COMPATIBILITY.md, "Group routes". */
import { ServiceError } from '../../base/errors.ts'
import { GROUP_TYPES_MAX } from '../../base/limits.ts'

/** A group type of the API; there are no names for people yet. */
export interface GroupTypeBody {
  readonly group_type: string
  readonly group_type_index: number
  readonly name_singular: null
  readonly name_plural: null
}

/** The body of a group type. */
export function groupTypeBody(type: {
  readonly group_type: string
  readonly group_type_index: number
}): GroupTypeBody {
  const { group_type, group_type_index } = type
  return { group_type, group_type_index, name_singular: null, name_plural: null }
}

/** The index of a group type. Throws 400 `required` and `invalid_input`. */
export function readGroupTypeIndex(text: string | null): number {
  if (text === null) {
    const detail = 'group_type_index is missing: groups_types/ lists them'
    throw new ServiceError('required', detail, { attr: 'group_type_index' })
  }
  const index = /^[0-9]{1,2}$/.test(text) ? Number(text) : GROUP_TYPES_MAX
  if (index >= GROUP_TYPES_MAX) {
    const detail = `group_type_index must be a number from 0 to ${GROUP_TYPES_MAX - 1}`
    throw new ServiceError('invalid_input', detail, { attr: 'group_type_index' })
  }
  return index
}

/** The opaque text of a cursor. */
export function encodeGroupCursor(cursor: string): string {
  return Buffer.from(cursor).toString('base64url')
}

/** Reads what `encodeGroupCursor` made. Throws 400 `invalid_input` for anything else. */
export function decodeGroupCursor(text: string): string {
  const cursor = Buffer.from(text, 'base64url').toString()
  if (encodeGroupCursor(cursor) === text) return cursor
  const detail = 'cursor must come from the field next of a page before; start without one'
  throw new ServiceError('invalid_input', detail, { attr: 'cursor' })
}
