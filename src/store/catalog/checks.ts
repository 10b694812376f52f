/** What the stores of the catalogue refuse, and the numbers that they give. */
import { type ErrorCode, ServiceError } from '../../base/errors.ts'

/** Throws a `ServiceError` unless what has to hold does; `attr`: the field that it is about. */
export function demand(
  isFine: boolean,
  code: ErrorCode,
  detail: string,
  attr?: string,
): asserts isFine {
  if (!isFine) throw new ServiceError(code, detail, attr === undefined ? {} : { attr })
}

/** Throws a `ServiceError` when there is no room for one record more; `names`: what they are called. */
export function demandRoom(count: number, countMax: number, names: string): void {
  demand(count < countMax, 'invalid_input', `there can be at most ${countMax} ${names}`)
}

/** A number above those of all records. */
export function nextId(records: readonly { readonly id: number }[]): number {
  return records.reduce((highest, { id }) => Math.max(highest, id), 0) + 1
}
