/**
 * JSON schemas in few words, in the dialect of OpenAPI 3.1: what records of routes are written in. A schema
 * carries the type of what it describes, for the compiler alone.
 */

declare const TYPE: unique symbol
const DEFINITION = Symbol('definition')

/** A JSON schema of values of `T`. */
export type Schema<T = unknown> = Readonly<Record<string, unknown>> & { readonly [TYPE]?: T }

/** What a schema describes. */
export type TypeOf<S> = S extends { readonly [TYPE]?: infer T } ? T : never

/** Members of an object, by name. */
export type Members = Readonly<Record<string, Schema>>

type ObjectOf<Required extends Members, Optional extends Members> = {
  readonly [Name in keyof Required]: TypeOf<Required[Name]>
} & { readonly [Name in keyof Optional]?: TypeOf<Optional[Name]> }

/** A schema that stands in the document once, under its name. */
export interface Definition {
  readonly name: string
  readonly schema: Schema
}

/** JSON. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Any JSON. */
export const ANY: Schema = {}
/** A text. */
export const TEXT: Schema<string> = { type: 'string' }
/** A whole number. */
export const WHOLE: Schema<number> = { type: 'integer' }
/** Null. */
export const NOTHING: Schema<null> = { type: 'null' }
/** Any number. */
export const NUMBER: Schema<number> = { type: 'number' }
/** True or false. */
export const BOOLEAN: Schema<boolean> = { type: 'boolean' }
/** A moment in ISO 8601. */
export const TIME: Schema<string> = { type: 'string', format: 'date-time' }
/** A UUID with hyphens. */
export const UUID: Schema<string> = { type: 'string', format: 'uuid' }
/** A UUID in any usual form; read as lower-case text with hyphens. */
export const CLIENT_UUID: Schema<string> = { ...UUID, canonicalUuid: true }
/** An object of which nothing more is said. */
export const JSON_OBJECT: Schema<JsonObject> = { type: 'object', additionalProperties: true }
/** A text or a number. */
export const TEXT_OR_NUMBER: Schema<string | number> = { type: ['string', 'number'] }

/** A text with something in it besides spaces, which are taken away at both ends. */
export function name(charactersMax: number): Schema<string> {
  return { type: 'string', trim: true, minLength: 1, maxLength: charactersMax }
}

/** A text of at most so many characters. */
export function text(charactersMax: number): Schema<string> {
  return { type: 'string', maxLength: charactersMax }
}

/** An object with exactly these members; `optional` ones may be absent. As an input it may have others. */
export function object<Required extends Members, Optional extends Members = Members>(
  required: Required,
  optional?: Optional,
): Schema<ObjectOf<Required, Members extends Optional ? Record<never, Schema> : Optional>> {
  const names = Object.keys(required)
  return {
    type: 'object',
    ...(names.length === 0 ? {} : { required: names }),
    properties: { ...required, ...optional },
  }
}

/** The same where every member may be absent. */
export function options<Optional extends Members>(optional: Optional) {
  return object<Record<never, Schema>, Optional>({}, optional)
}

/** An object that may have members besides those. */
export function openObject<Required extends Members, Optional extends Members = Members>(
  required: Required,
  optional?: Optional,
): Schema<ObjectOf<Required, Members extends Optional ? Record<never, Schema> : Optional>> {
  return { ...object(required, optional), additionalProperties: true }
}

/** An input that must not have members besides those of the schema. */
export function closed<T>(schema: Schema<T>): Schema<T> {
  return { ...schema, additionalProperties: false }
}

/** An object whose members are all alike. */
export function mapOf<T>(value: Schema<T>): Schema<Readonly<Record<string, T>>> {
  return { type: 'object', additionalProperties: value }
}

/** A list of such items; `itemsMax` is a limit of inputs. */
export function list<T>(items: Schema<T>, itemsMax?: number): Schema<readonly T[]> {
  return { type: 'array', items, ...(itemsMax === undefined ? {} : { maxItems: itemsMax }) }
}

/** One of these values. */
export function choice<const Value extends string | number | null>(
  ...values: readonly Value[]
): Schema<Value> {
  return { enum: values }
}

/** One of these numbers, which clients may send as texts. */
export function numberChoice<const Value extends number>(
  ...values: readonly Value[]
): Schema<Value> {
  return { enum: values, fromText: true }
}

/** That, or null. */
export function nullable<T>(schema: Schema<T>): Schema<T | null> {
  const { type } = schema
  return typeof type === 'string' && definitionOf(schema) === null
    ? { ...schema, type: [type, 'null'] }
    : { anyOf: [schema, NOTHING] }
}

/** The same schema with a sentence about it. */
export function about<T>(schema: Schema<T>, description: string): Schema<T> {
  return { ...schema, description }
}

/** The same schema; an input that does not meet it is refused with this code and text. */
export function refused<T>(
  schema: Schema<T>,
  detail: string,
  code: 'invalid_input' | 'invalid_choice' = 'invalid_input',
): Schema<T> {
  return { ...schema, refusal: [code, detail] }
}

/** The same schema, which stands in the document once. A name stands for one schema. */
export function named<T>(name: string, schema: Schema<T>): Schema<T> {
  const definition: Definition = { name, schema }
  return { ...schema, [DEFINITION]: definition }
}

/** An object that stands in the document once. */
export function namedObject<Required extends Members, Optional extends Members = Members>(
  name: string,
  required: Required,
  optional?: Optional,
) {
  return named(name, object(required, optional))
}

/** The name of a schema, and what was named; null for one without. */
export function definitionOf(schema: Schema): Definition | null {
  const definition = (schema as { readonly [DEFINITION]?: Definition })[DEFINITION]
  return definition ?? null
}

/** A named schema inside itself. */
export function ref(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` }
}

/** The envelope of a list that is counted through. */
export function pageOf<T>(item: Schema<T>) {
  const definition = definitionOf(item)
  const page = object({
    count: about(WHOLE, 'All that match, not only those of the page.'),
    next: about(nullable(TEXT), 'Address of the next page.'),
    previous: about(nullable(TEXT), 'Address of the page before.'),
    results: list(item),
  })
  return definition === null ? page : named(`${definition.name}Page`, page)
}

/** Parameters of a list that is counted through; `rowsMax` is the largest page. */
export function pageParameters(rowsMax: number) {
  return {
    limit: about(WHOLE, `Rows of a page: 100 when absent, ${rowsMax} at most.`),
    offset: about(WHOLE, 'Rows to pass over.'),
  }
}
