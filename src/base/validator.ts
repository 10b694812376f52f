/**
 * Compiles JSON schemas into functions. Only this file imports ajv. A schema is compiled when its first value is
 * checked, because many threads and commands never check a value, and because loading ajv takes longer than most other
 * modules. The file also adds schema keywords for values that clients send in several forms.
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
import { isObject } from './json.ts'
import { loadPackage } from './load-package.ts'

/** The first fault of a value. It can be shown to anybody, because it never contains client data. */
export interface ShapeProblem {
  /** The path to the value at fault: names of fields joined by dots, or '' if the whole value is at fault. */
  readonly field: string
  /** The expectation that is not met, e.g. "must be object". */
  readonly message: string
}

/** A compiled schema. */
export interface Shape<T> {
  /** The schema that was compiled. The description of the API contains it. */
  readonly schema: Readonly<Record<string, unknown>>
  /** Returns true if the value matches the schema. Does not change the value. */
  matches(value: unknown): value is T
  /**
   * Returns the reason why a value does not match, or null if it does. It checks the value again, so use it for
   * refusals only.
   */
  problemOf(value: unknown): ShapeProblem | null
}

/** The first fault in the input of a route. */
export interface InputFault {
  /**
   * The JSON Schema keyword that the value does not meet, or the text `null` if the value is null and the schema allows
   * no null.
   */
  readonly keyword: string
  /** The names and indexes on the path to the value at fault. */
  readonly path: readonly string[]
  /** The expectation that is not met, e.g. "must be object". */
  readonly message: string
  /** Details of ajv about the keyword, such as `missingProperty`. */
  readonly params: Readonly<Record<string, unknown>>
  /** The value at fault, which is client data. */
  readonly value: unknown
  /** The schema that the value does not meet. */
  readonly schema: Readonly<Record<string, unknown>>
}

/**
 * Schema keywords of our own that say how the input of a route is read. The published description of the API does not
 * contain them.
 */
export const INPUT_KEYWORDS: readonly string[] = [
  'trim',
  'canonicalUuid',
  'fromText',
  'unitsMax',
  'refusals',
  'isParameters',
  'isUnchecked',
  'isJsonOnly',
  'isExact',
]

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
  // ajv does not check formats. They only document a value, and `canonicalUuid` checks UUIDs.
  inputs = createCompiler({ messages: true, verbose: true, validateFormats: false })
  inputs.addKeyword({ keyword: 'refusals', schemaType: 'array' })
  inputs.addKeyword({ keyword: 'isParameters', schemaType: 'boolean' })
  inputs.addKeyword({ keyword: 'isJsonOnly', schemaType: 'boolean' })
  inputs.addKeyword({ keyword: 'isExact', schemaType: 'boolean' })
  addReading(inputs, 'trim', { type: 'string', before: 'minLength' }, (text) => String(text).trim())
  // `unitsMax` limits the length of a text as the client sent it, so it is checked before `trim` removes spaces.
  inputs.addKeyword({
    keyword: 'unitsMax',
    type: 'string',
    schemaType: 'number',
    before: 'trim',
    errors: false,
    validate: (unitsMax: number, text: string) => text.length <= unitsMax,
  })
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
    strict: true,
    allowUnionTypes: true,
    allErrors: false,
    // A test checks that our schemas are valid, so they are not validated here: compiling the meta schema takes longer
    // than compiling all of our schemas.
    meta: false,
    validateSchema: false,
    ...options,
  })
}

/**
 * Creates a shape from a schema. The schema is compiled when the first value is checked. That takes about a
 * millisecond, and 30 ms for the first schema of a thread. The caller guarantees that `T` is the type that the schema
 * describes. `matches` and `problemOf` throw if the schema itself is invalid.
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
 * Compiles the schema of a route's input into a function that returns the first fault, or null. The function changes
 * the value where a keyword of `INPUT_KEYWORDS` says so, for example by removing the spaces around a text.
 */
export function compileInput(
  schema: Readonly<Record<string, unknown>>,
): (value: unknown) => InputFault | null {
  const validate = inputCompiler().compile(checkedPart(schema) as AnySchemaObject)
  return (value) => {
    if (validate(value)) return null
    const [error] = validate.errors ?? []
    if (error === undefined) throw new TypeError('a value was rejected without a reason')
    return {
      keyword: error.data === null && isOfKind(error) ? 'null' : error.keyword,
      path: error.instancePath.split('/').slice(1),
      message: error.message ?? 'has the wrong shape',
      params: error.params,
      value: error.data,
      schema: error.parentSchema ?? {},
    }
  }
}

function isOfKind({ keyword }: ErrorObject): boolean {
  return keyword === 'type' || keyword === 'enum'
}

/**
 * Returns a schema that accepts any value in the parts with `isUnchecked`. These parts are only for the description of
 * the API. Other code checks their values.
 */
function checkedPart(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(checkedPart)
  if (!isObject(schema)) return schema
  if (schema['isUnchecked'] === true) return {}
  return Object.fromEntries(Object.entries(schema).map(([name, part]) => [name, checkedPart(part)]))
}

/** Adds a keyword that replaces a value by the result of `read`. If the result is undefined, the value is invalid. */
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
    keyword,
    ...place,
    schemaType: 'boolean',
    modifying: true,
    errors: false,
    validate,
  })
}

function toProblem(error: ErrorObject | undefined): ShapeProblem {
  if (error === undefined) return { field: '', message: 'has the wrong shape' }
  const field = error.instancePath.slice(1).replaceAll('/', '.')
  if (error.keyword === 'clientUuid') return { field, message: 'must be a UUID' }
  return { field, message: error.message ?? 'has the wrong shape' }
}
