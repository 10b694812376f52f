/** Helpers of the catalogue stores: checks that refuse a request, and the number of the next record. */
import { type ErrorCode, ServiceError } from '../../base/errors.ts'

/** Throws a `ServiceError` unless `isFine` is true. `attr` is the field of the request that is named in the error. */
export function demand(
  isFine: boolean,
  code: ErrorCode,
  detail: string,
  attr?: string,
): asserts isFine {
  if (!isFine) throw new ServiceError(code, detail, attr === undefined ? {} : { attr })
}

/**
 * Throws a `ServiceError` if `count` has reached `countMax`. `names` is the plural noun that the error uses for the
 * records.
 */
export function demandRoom(count: number, countMax: number, names: string): void {
  demand(count < countMax, 'invalid_input', `There can be at most ${countMax} ${names}.`)
}

/** Returns the highest number of a record plus one. */
export function nextId(records: readonly { readonly id: number }[]): number {
  return records.reduce((highest, { id }) => Math.max(highest, id), 0) + 1
}
