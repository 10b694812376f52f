/**
 * The only door to ajv: JSON schemas become functions, once, when a module is loaded. Adds the keyword
 * `clientUuid` for UUIDs in the forms that clients send.
 */
import { Ajv, type ErrorObject } from 'ajv'
import { parseUuid } from './ids.ts'

/** The first thing that is wrong with a value. Safe to show: it never holds what the client sent. */
export interface ShapeProblem {
  /** Names of the schema's fields on the way to the value at fault, joined by dots; '' is the value itself. */
  readonly field: string
  /** What is expected there, e.g. "must be object". */
  readonly message: string
}

/** A compiled schema. */
export interface Shape<T> {
  /** What it was compiled from, for the description of the API. */
  readonly schema: Readonly<Record<string, unknown>>
  /** True when the value has the shape. Changes nothing. */
  matches(value: unknown): value is T
  /** Why a value does not match; null when it does. For refusals: looks at the value once more. */
  problemOf(value: unknown): ShapeProblem | null
}

const ajv = new Ajv({ strict: true, allowUnionTypes: true, allErrors: false, messages: true })

ajv.addKeyword({
  keyword: 'clientUuid',
  schemaType: 'boolean',
  errors: false,
  validate: (_: boolean, value: unknown): boolean =>
    value === null || value === '' || (typeof value === 'string' && parseUuid(value) !== null),
})

/**
 * Compiles a schema (about a millisecond: do it once). The caller vouches that `T` is what the schema
 * describes. Throws when the schema itself is wrong.
 */
export function compileShape<T>(schema: Readonly<Record<string, unknown>>): Shape<T> {
  const validate = ajv.compile(schema)
  return {
    schema,
    matches: (value): value is T => validate(value),
    problemOf: (value) => (validate(value) ? null : toProblem(validate.errors?.[0])),
  }
}

function toProblem(error: ErrorObject | undefined): ShapeProblem {
  if (error === undefined) return { field: '', message: 'has the wrong shape' }
  const field = error.instancePath.slice(1).replaceAll('/', '.')
  if (error.keyword === 'clientUuid') return { field, message: 'must be a UUID' }
  return { field, message: error.message ?? 'has the wrong shape' }
}
