/** Helpers of the catalogue stores: checks that refuse a request, and the choice of the next record number. */
import { type ErrorCode, ServiceError } from '../../base/errors.ts'

/** Throws a `ServiceError` if `isFine` is false. `attr` is the field of the request that the error names. */
export function demand(
  isFine: boolean,
  code: ErrorCode,
  detail: string,
  attr?: string,
): asserts isFine {
  if (!isFine) throw new ServiceError(code, detail, attr === undefined ? {} : { attr })
}

/**
 * Throws a `ServiceError` if there are already `countMax` records. The error calls the records `names`, for example
 * `roles`.
 */
export function demandRoom(count: number, countMax: number, names: string): void {
  demand(count < countMax, 'invalid_input', `There can be at most ${countMax} ${names}.`)
}

/** Returns the number for a new record: the highest number in use plus 1. */
export function nextId(records: readonly { readonly id: number }[]): number {
  return records.reduce((highest, { id }) => Math.max(highest, id), 0) + 1
}
