/** Checks of the catalogue stores that refuse a request, and the numbers of new records. */
import { type ErrorCode, ServiceError } from '../../base/errors.ts'

/** Throws a `ServiceError` unless `isFine` is true. `attr` is the field concerned. */
export function demand(
  isFine: boolean,
  code: ErrorCode,
  detail: string,
  attr?: string,
): asserts isFine {
  if (!isFine) throw new ServiceError(code, detail, attr === undefined ? {} : { attr })
}

/** Throws a `ServiceError` if there is no room for another record. `names` is the name of the records. */
export function demandRoom(count: number, countMax: number, names: string): void {
  demand(count < countMax, 'invalid_input', `There can be at most ${countMax} ${names}.`)
}

/** Returns a number higher than those of all records. */
export function nextId(records: readonly { readonly id: number }[]): number {
  return records.reduce((highest, { id }) => Math.max(highest, id), 0) + 1
}
