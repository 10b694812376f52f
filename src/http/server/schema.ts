/**
 * Builds the JSON schemas in the records of routes, in the dialect of OpenAPI 3.1. A schema also has the TypeScript
 * type of its values. This type exists only for the compiler.
 */

import type { OwnRefusal } from '../../base/input-faults.ts'

declare const TYPE: unique symbol
const DEFINITION = Symbol('definition')

/** A JSON schema for values of type `T`. */
export type Schema<T = unknown> = Readonly<Record<string, unknown>> & { readonly [TYPE]?: T }

/** The TypeScript type of the values of a schema. */
export type TypeOf<S> = S extends { readonly [TYPE]?: infer T } ? T : never

/** The schemas of an object's members, by name. */
export type Members = Readonly<Record<string, Schema>>

type ObjectOf<Required extends Members, Optional extends Members> = {
  readonly [Name in keyof Required]: TypeOf<Required[Name]>
} & { readonly [Name in keyof Optional]?: TypeOf<Optional[Name]> }

/** A schema with a name. The API description contains it once, under this name. */
export interface Definition {
  readonly name: string
  readonly schema: Schema
}

/** A JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Accepts any JSON value. */
export const ANY: Schema = {}
/** Accepts a string. */
export const TEXT: Schema<string> = { type: 'string' }
/** Accepts an integer. */
export const WHOLE: Schema<number> = { type: 'integer' }
/** Accepts null only. */
export const NOTHING: Schema<null> = { type: 'null' }
/** Accepts any number. */
export const NUMBER: Schema<number> = { type: 'number' }
/** Accepts true or false. */
export const BOOLEAN: Schema<boolean> = { type: 'boolean' }
/** Accepts a moment in ISO 8601. The format is not checked. */
export const TIME: Schema<string> = { type: 'string', format: 'date-time' }
/** Accepts a UUID with hyphens. The format is not checked. */
export const UUID: Schema<string> = { type: 'string', format: 'uuid' }
/** Accepts a UUID in any of the usual forms, and converts it to lower case with hyphens. */
export const CLIENT_UUID: Schema<string> = { ...UUID, canonicalUuid: true }
/** Accepts any JSON object. */
export const JSON_OBJECT: Schema<JsonObject> = { type: 'object', additionalProperties: true }
/** Accepts a string or a number. */
export const TEXT_OR_NUMBER: Schema<string | number> = { type: ['string', 'number'] }

/** Returns the schema of a name: spaces at both ends are removed, and the rest must not be empty. */
export function name(charactersMax: number): Schema<string> {
  return { type: 'string', trim: true, minLength: 1, maxLength: charactersMax }
}

/** Returns the schema of a string with at most `charactersMax` characters. An emoji counts as one character. */
export function text(charactersMax: number): Schema<string> {
  return { type: 'string', maxLength: charactersMax }
}

/**
 * Returns the schema of a string with at most `unitsMax` UTF-16 units, the unit of `length` in JavaScript. An emoji has
 * two of them.
 */
export function units(unitsMax: number): Schema<string> {
  return { type: 'string', unitsMax }
}

/**
 * Returns the schema of an object with these members. The members of `optional` may be absent. Input may also have
 * other members.
 */
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

/** Returns the schema of an object in which every member may be absent. */
export function options<Optional extends Members>(optional: Optional) {
  return object<Record<never, Schema>, Optional>({}, optional)
}

/**
 * Returns the same schema as `object`, with a note in the API description that the object may have other members too.
 */
export function openObject<Required extends Members, Optional extends Members = Members>(
  required: Required,
  optional?: Optional,
): Schema<ObjectOf<Required, Members extends Optional ? Record<never, Schema> : Optional>> {
  return { ...object(required, optional), additionalProperties: true }
}

/**
 * Returns the schema of a body whose members may be in the query instead. If both contain a member, the value in the
 * body is used. Null counts as absent, and a text may stand for a boolean or for JSON. Source:
 * docs/compatibility/persons.md, "Parameters of persons".
 */
export function parameters<Required extends Members, Optional extends Members = Members>(
  required: Required,
  optional?: Optional,
) {
  return { ...openObject(required, optional), isParameters: true } as ReturnType<
    typeof openObject<Required, Optional>
  >
}

/** Returns the schema of a list or an object in `is.parameters` that clients must not send as JSON inside a text. */
export function jsonOnly<T>(schema: Schema<T>): Schema<T> {
  return { ...schema, isJsonOnly: true }
}

/**
 * Returns a schema of JSON in the query. Integers beyond 2^53 in that JSON become texts, so that no digit is lost. The
 * texts do no harm, because the values are only compared with stored values.
 */
export function exact<T>(schema: Schema<T>): Schema<T> {
  return { ...schema, isExact: true }
}

/** Returns a schema that only describes a value in the API description. The handler checks the value itself. */
export function unchecked<T>(schema: Schema<T>): Schema<T> {
  return { ...schema, isUnchecked: true }
}

/** Returns a schema that accepts no members besides the listed ones. */
export function closed<T>(schema: Schema<T>): Schema<T> {
  return { ...schema, additionalProperties: false }
}

/** Returns the schema of an object whose values all have the same schema. */
export function mapOf<T>(value: Schema<T>): Schema<Readonly<Record<string, T>>> {
  return { type: 'object', additionalProperties: value }
}

/** Returns the schema of a list. A list in input may have at most `itemsMax` items. */
export function list<T>(items: Schema<T>, itemsMax?: number): Schema<readonly T[]> {
  return { type: 'array', items, ...(itemsMax === undefined ? {} : { maxItems: itemsMax }) }
}

/** Returns the schema of a value that must be one of `values`. */
export function choice<const Value extends string | number | null>(
  ...values: readonly Value[]
): Schema<Value> {
  return { enum: values }
}

/** Returns the schema of a number that must be one of `values`. Clients may also send the number as a text. */
export function numberChoice<const Value extends number>(
  ...values: readonly Value[]
): Schema<Value> {
  return { enum: values, fromText: true }
}

/** Returns a schema that also accepts null. */
export function nullable<T>(schema: Schema<T>): Schema<T | null> {
  const { type } = schema
  return typeof type === 'string' && definitionOf(schema) === null
    ? { ...schema, type: [type, 'null'] }
    : { anyOf: [schema, NOTHING] }
}

/** Adds a description to a schema. */
export function about<T>(schema: Schema<T>, description: string): Schema<T> {
  return { ...schema, description }
}

/**
 * Returns a schema with its own error. A value that does not match the schema is refused with `code` and the text
 * `detail`. With `keyword`, this error is used only if the value violates this keyword of the schema.
 */
export function refused<T>(
  schema: Schema<T>,
  detail: string,
  code: 'invalid_input' | 'invalid_choice' = 'invalid_input',
  keyword?: 'minLength' | 'maxItems' | 'null',
): Schema<T> {
  const others = (schema['refusals'] ?? []) as readonly OwnRefusal[]
  const own: OwnRefusal = keyword === undefined ? [code, detail] : [code, detail, keyword]
  return { ...schema, refusals: [...others, own] }
}

/**
 * Returns a schema with a name. The API description contains it once, under this name. Two schemas must not have the
 * same name.
 */
export function named<T>(name: string, schema: Schema<T>): Schema<T> {
  const definition: Definition = { name, schema }
  return { ...schema, [DEFINITION]: definition }
}

/** Returns the schema of an object with a name. The API description contains it once, under this name. */
export function namedObject<Required extends Members, Optional extends Members = Members>(
  name: string,
  required: Required,
  optional?: Optional,
) {
  return named(name, object(required, optional))
}

/** Returns the name and the original form of a named schema, or null if the schema has no name. */
export function definitionOf(schema: Schema): Definition | null {
  const definition = (schema as { readonly [DEFINITION]?: Definition })[DEFINITION]
  return definition ?? null
}

/** Returns a reference to a named schema, for use inside the definition of that schema. */
export function ref(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` }
}

/** Returns the schema of one page of a list that is read with `limit` and `offset`. */
export function pageOf<T>(item: Schema<T>) {
  const definition = definitionOf(item)
  const page = object({
    count: about(WHOLE, 'All rows that match, not only those on this page.'),
    next: about(nullable(TEXT), 'URL of the next page.'),
    previous: about(nullable(TEXT), 'URL of the previous page.'),
    results: list(item),
  })
  return definition === null ? page : named(`${definition.name}Page`, page)
}

/** Returns the parameters `limit` and `offset` of a list with pages. `rowsMax` is the largest `limit`. */
export function pageParameters(rowsMax: number) {
  return {
    limit: about(WHOLE, `Rows per page. The default is 100, the maximum ${rowsMax}.`),
    offset: about(WHOLE, 'Number of rows to skip.'),
  }
}
