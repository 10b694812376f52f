/**
 * The only door to ajv: JSON schemas become functions when the first value is compared with them. Many
 * threads and commands never do, and loading ajv takes longer than most of what they load. Adds keywords
 * for what clients send in several forms.
 */
import type {
  Ajv,
  AnySchemaObject,
  ErrorObject,
  Options,
  SchemaValidateFunction,
  ValidateFunction,
} from 'ajv'
import { formatUuid, parseUuid } from './ids.ts'
import { loadPackage } from './load-package.ts'

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

/** The first thing that is wrong with the input of a route. */
export interface InputFault {
  /** The keyword of JSON Schema that is not met. */
  readonly keyword: string
  /** Names and indexes on the way to the value at fault. */
  readonly path: readonly string[]
  /** What is expected, e.g. "must be object". */
  readonly message: string
  /** What ajv tells about the keyword, such as `missingProperty`. */
  readonly params: Readonly<Record<string, unknown>>
  /** The value at fault: client text. */
  readonly value: unknown
  /** The schema that it does not meet. */
  readonly schema: Readonly<Record<string, unknown>>
}

/** Keywords that say how the input of a route is read, and are no part of what is published. */
export const INPUT_KEYWORDS: readonly string[] = ['trim', 'canonicalUuid', 'fromText', 'refusal']

let shapes: Ajv | undefined
let inputs: Ajv | undefined

function shapeCompiler(): Ajv {
  shapes ??= createCompiler({ messages: true }).addKeyword({
    keyword: 'clientUuid',
    schemaType: 'boolean',
    errors: false,
    validate: (_: boolean, value: unknown): boolean =>
      value === null || value === '' || (typeof value === 'string' && parseUuid(value) !== null),
  })
  return shapes
}

function inputCompiler(): Ajv {
  if (inputs !== undefined) return inputs
  // Formats are for readers of the description; `canonicalUuid` checks.
  inputs = createCompiler({ messages: true, verbose: true, validateFormats: false })
  inputs.addKeyword({ keyword: 'refusal', schemaType: 'array' })
  addReading(inputs, 'trim', { type: 'string', before: 'minLength' }, (text) => String(text).trim())
  addReading(inputs, 'canonicalUuid', { type: 'string' }, (text) => {
    const uuid = parseUuid(String(text))
    return uuid === null ? undefined : formatUuid(uuid, 0)
  })
  addReading(inputs, 'fromText', { before: 'enum' }, (value, { enum: choices }) => {
    const found = typeof value === 'string' && Array.isArray(choices)
    return (found ? choices.find((choice) => String(choice) === value) : value) ?? value
  })
  return inputs
}

function createCompiler(options: Options): Ajv {
  const { Ajv: Compiler } = loadPackage('ajv') as typeof import('ajv')
  return new Compiler({
    ...{ strict: true, allowUnionTypes: true, allErrors: false },
    // That schemas are JSON schemas is seen by a test: compiling theirs takes longer than all of ours.
    ...{ meta: false, validateSchema: false },
    ...options,
  })
}

/**
 * A shape made of a schema, which is compiled (about a millisecond; the first one 30) when the first
 * value comes. The caller vouches that `T` is what the schema describes. `matches` and `problemOf` throw
 * when the schema itself is wrong.
 */
export function compileShape<T>(schema: Readonly<Record<string, unknown>>): Shape<T> {
  let compiled: ValidateFunction | undefined
  const validate = (value: unknown): boolean => {
    compiled ??= shapeCompiler().compile(schema)
    return compiled(value)
  }
  return {
    schema,
    matches: (value): value is T => validate(value),
    problemOf: (value) => (validate(value) ? null : toProblem(compiled?.errors?.[0])),
  }
}

/**
 * Compiles the schema of a route's input: a function that answers what is wrong, or null. It changes the
 * value where a keyword of `INPUT_KEYWORDS` says so: texts lose the spaces around them and so on.
 */
export function compileInput(
  schema: Readonly<Record<string, unknown>>,
): (value: unknown) => InputFault | null {
  const validate = inputCompiler().compile(schema)
  return (value) => {
    if (validate(value)) return null
    const [error] = validate.errors ?? []
    if (error === undefined) throw new TypeError('a schema is not met and nobody knows why')
    return {
      keyword: error.keyword,
      path: error.instancePath.split('/').slice(1),
      message: error.message ?? 'has the wrong shape',
      params: error.params,
      value: error.data,
      schema: error.parentSchema ?? {},
    }
  }
}

/** A keyword that replaces a value by what `read` makes of it; undefined: it cannot be used. */
function addReading(
  compiler: Ajv,
  keyword: string,
  place: { readonly type?: 'string'; readonly before?: string },
  read: (value: unknown, schema: AnySchemaObject) => unknown,
): void {
  const validate: SchemaValidateFunction = (_, value, schema, context) => {
    const result = read(value, schema ?? {})
    if (result === undefined || context === undefined) return false
    const { parentData, parentDataProperty } = context
    parentData[parentDataProperty] = result
    return true
  }
  compiler.addKeyword({
    ...{ keyword, ...place },
    ...{ schemaType: 'boolean', modifying: true, errors: false, validate },
  })
}

function toProblem(error: ErrorObject | undefined): ShapeProblem {
  if (error === undefined) return { field: '', message: 'has the wrong shape' }
  const field = error.instancePath.slice(1).replaceAll('/', '.')
  if (error.keyword === 'clientUuid') return { field, message: 'must be a UUID' }
  return { field, message: error.message ?? 'has the wrong shape' }
}
