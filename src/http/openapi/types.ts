/**
 * The vocabulary of the API description: JSON schemas in few words, and what is said about one operation.
 * The tables beside this file are written in it, document.ts makes OpenAPI of them.
 */

/** A JSON schema in the dialect of OpenAPI 3.1. */
export type Schema = Readonly<Record<string, unknown>>

/** Members of an object, by name. */
export type Members = Readonly<Record<string, Schema>>

/** Any JSON. */
export const ANY: Schema = {}
/** A text. */
export const TEXT: Schema = { type: 'string' }
/** A whole number. */
export const WHOLE: Schema = { type: 'integer' }
/** Null. */
export const NOTHING: { readonly type: 'null' } = { type: 'null' }
/** Any number. */
export const NUMBER: Schema = { type: 'number' }
/** True or false. */
export const BOOLEAN: Schema = { type: 'boolean' }
/** A moment in ISO 8601. */
export const TIME: Schema = { type: 'string', format: 'date-time' }
/** A UUID with hyphens. */
export const UUID: Schema = { type: 'string', format: 'uuid' }
/** An object of which nothing more is said. */
export const JSON_OBJECT: Schema = { type: 'object', additionalProperties: true }
/** A text or a number. */
export const TEXT_OR_NUMBER: Schema = { type: ['string', 'number'] }

/** An object with exactly these members; `optional` ones may be absent. */
export function object(required: Members, optional: Members = {}): Schema {
  const names = Object.keys(required)
  return {
    type: 'object',
    ...(names.length === 0 ? {} : { required: names }),
    properties: { ...required, ...optional },
  }
}

/** An object that may have members besides those. */
export function openObject(required: Members, optional: Members = {}): Schema {
  return { ...object(required, optional), additionalProperties: true }
}

/** An object whose members are all alike. */
export function mapOf(value: Schema): Schema {
  return { type: 'object', additionalProperties: value }
}

/** A list of such items. */
export function list(items: Schema): Schema {
  return { type: 'array', items }
}

/** One of these values. */
export function choice(...values: readonly (string | number | null)[]): Schema {
  return { enum: values }
}

/** That, or null. */
export function nullable(schema: Schema): Schema {
  const { type } = schema
  return typeof type === 'string'
    ? { ...schema, type: [type, 'null'] }
    : { anyOf: [schema, { type: 'null' }] }
}

/** The component with this name. */
export function ref(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` }
}

/** The same schema with a sentence about it. */
export function about(schema: Schema, description: string): Schema {
  return { ...schema, description }
}

/** One parameter of a path or query. */
export interface Parameter {
  readonly name: string
  readonly schema: Schema
  readonly sentence: string
  readonly isRequired?: boolean
  /** Its text is JSON of that schema. */
  readonly isJson?: boolean
}

/** A parameter that may be left out. */
export function optional(name: string, schema: Schema, sentence: string): Parameter {
  return { name, schema, sentence }
}

/** A parameter that must be there. */
export function required(name: string, schema: Schema, sentence: string): Parameter {
  return { name, schema, sentence, isRequired: true }
}

/** A parameter whose text is JSON. */
export function jsonText(name: string, schema: Schema, sentence: string): Parameter {
  return { name, schema, sentence, isJson: true }
}

/** The parameters as members of a JSON body. */
export function bodyOf(parameters: readonly Parameter[]): Schema {
  const members = (those: readonly Parameter[]): Members =>
    Object.fromEntries(those.map(({ name, schema, sentence }) => [name, about(schema, sentence)]))
  return openObject(
    members(parameters.filter(({ isRequired }) => isRequired === true)),
    members(parameters.filter(({ isRequired }) => isRequired !== true)),
  )
}

/** The methods that are served. */
export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

/** Whose key opens an operation; several are alternatives, and `none` stands for no key. */
export type Door = 'none' | 'personalKey' | 'projectKey' | 'projectKeyHeader' | 'secretKey'

/** What is said about one method of one path. */
export interface Operation {
  readonly method: Method
  /** As it is registered: `:name` stands for one segment. */
  readonly path: string
  /** Unique name for generated clients. */
  readonly id: string
  readonly sentence: string
  /** Scope that a personal key needs. */
  readonly scope?: string
  /** Instead of those of the resource. */
  readonly doors?: readonly Door[]
  readonly query?: readonly Parameter[]
  /** JSON body. */
  readonly body?: Schema
  /** The body may be left out. */
  readonly isBodyOptional?: boolean
  /** Further media types of the body, each as a text. */
  readonly bodyTypes?: readonly string[]
  /** JSON of a success; absent: an answer without a body. */
  readonly answer?: Schema
  /** Media type of a success whose body is no JSON. */
  readonly answerType?: string
  /** Of a success: 200 when absent. */
  readonly status?: number
  /** Further answers without a body, with what they mean. */
  readonly emptyAnswers?: Readonly<Record<number, string>>
  /** Further answers with a body of their own. */
  readonly otherAnswers?: Readonly<Record<number, readonly [sentence: string, schema: Schema]>>
  /** Statuses of errors, besides those of the resource. */
  readonly errors?: readonly number[]
}

/** Operations that belong together. */
export interface Resource {
  /** Its name in the document. */
  readonly name: string
  readonly sentence: string
  readonly doors: readonly Door[]
  /** Statuses of errors that all of its operations have. */
  readonly errors: readonly number[]
  /** What the names in its paths stand for; those of every path are in document.ts. */
  readonly segments?: Readonly<Record<string, readonly [schema: Schema, sentence: string]>>
  /** Answers come as a table, too, when `format=csv` asks for one. */
  readonly isTable?: boolean
  readonly operations: readonly Operation[]
}

type Rest = Omit<Operation, 'method' | 'path' | 'id' | 'sentence'>

/** Writes an operation down. */
export function operation(
  methodAndPath: `${Method} /${string}`,
  id: string,
  sentence: string,
  rest: Rest = {},
): Operation {
  const [method, path] = methodAndPath.split(' ') as [Method, string]
  return { method, path, id, sentence, ...rest }
}

/** Errors of private routes: bad parameters, keys, rights, nothing there, no room. */
export const PRIVATE_ERRORS: readonly number[] = [400, 401, 403, 404, 500, 503]
/** Further errors of operations that read a body. */
export const BODY_ERRORS: readonly number[] = [413, 415]

/** The envelope of a list that is counted through. */
export function pageOf(item: string): Schema {
  return object({
    count: about(WHOLE, 'All that match, not only those of the page.'),
    next: about(nullable(TEXT), 'Address of the next page.'),
    previous: about(nullable(TEXT), 'Address of the page before.'),
    results: list(ref(item)),
  })
}

/** Parameters of a list that is counted through; `rowsMax` is the largest page. */
export function pageParameters(rowsMax: number): readonly Parameter[] {
  return [
    optional('limit', WHOLE, `Rows of a page: 100 when absent, ${rowsMax} at most.`),
    optional('offset', WHOLE, 'Rows to pass over.'),
  ]
}
