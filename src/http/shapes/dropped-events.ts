/** The cursor of the list of dropped events. docs/COMPATIBILITY.md, "Dropped events". */
import { ServiceError } from '../../base/errors.ts'

/** The last event of a page, from which the next page goes on. */
export interface DroppedCursor {
  /** At most 48 bits. */
  readonly block: number
  /** At most 32 bits. */
  readonly place: number
}

const BLOCK_MAX = 2 ** 48 - 1
const PLACE_MAX = 2 ** 32 - 1

/** The opaque text of a cursor: base64url, so that it needs no escapes in a URL. */
export function encodeDroppedCursor({ block, place }: DroppedCursor): string {
  return Buffer.from(`${block},${place}`).toString('base64url')
}

/** Reads what `encodeDroppedCursor` made. Throws 400 `invalid_input` for anything else. */
export function decodeDroppedCursor(text: string): DroppedCursor {
  const parts = /^([0-9]{1,15}),([0-9]{1,10})$/.exec(Buffer.from(text, 'base64url').toString())
  const block = Number(parts?.[1])
  const place = Number(parts?.[2])
  if (!(block <= BLOCK_MAX && place <= PLACE_MAX)) {
    const detail = 'cursor must come from the field next of a page before; start without one'
    throw new ServiceError('invalid_input', detail, { attr: 'cursor' })
  }
  return { block, place }
}
