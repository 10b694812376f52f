/** Tables of operations, as the files of this folder have them, in the form of records. */
import type { ErrorCode } from '../../base/errors.ts'
import type { Scope } from '../../rules/access/scopes.ts'
import type { DescribedAnswer, Resource, RouteRecord } from '../server/route.ts'
import type { Schema } from '../server/schema.ts'
import type { Operation, Parameter, Resource as Table } from './types.ts'

type Described = Omit<RouteRecord, 'handle' | 'respond'>

/** One code of each status. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid_input',
  401: 'not_authenticated',
  403: 'permission_denied',
  404: 'not_found',
  409: 'conflict',
  413: 'request_too_large',
  415: 'unsupported_media_type',
  429: 'throttled',
  500: 'error',
  503: 'server_error',
  504: 'query_timeout',
}

/** The records of a table, as far as they are described. */
export function fromTable(
  table: Table,
): Omit<Resource, 'routes'> & { readonly routes: readonly Described[] } {
  const segments = Object.entries(table.segments ?? {}).map(([name, [schema, description]]) => [
    name,
    { ...schema, description },
  ])
  return {
    name: table.name,
    sentence: table.sentence,
    segments: Object.fromEntries(segments),
    ...(table.isTable === true ? { isTable: true } : {}),
    routes: table.operations.map((operation) => recordOf(table, operation)),
  }
}

function recordOf(table: Table, operation: Operation): Described {
  const { method, path, id, sentence, scope, doors, query = [], body, answer } = operation
  const codes = [...table.errors, ...(operation.errors ?? [])].map((status) => {
    const code = CODES[status]
    if (code === undefined) throw new TypeError(`${id}: no code has the status ${status}`)
    return code
  })
  const answers: Record<number, DescribedAnswer> = {
    [operation.status ?? 200]: {
      description: 'Done.',
      ...(answer === undefined ? {} : { schema: answer }),
      ...(operation.answerType === undefined ? {} : { type: operation.answerType }),
    },
  }
  for (const [status, description] of Object.entries(operation.emptyAnswers ?? {})) {
    answers[Number(status)] = { description }
  }
  for (const [status, [description, schema]] of Object.entries(operation.otherAnswers ?? {})) {
    answers[Number(status)] = { description, schema }
  }
  return {
    method,
    path,
    id,
    summary: sentence,
    who: { doors: doors ?? table.doors, about: 'nothing', scope: (scope ?? null) as Scope | null },
    query: queryOf(query),
    ...(body === undefined ? {} : { body: body as Schema }),
    ...(operation.bodyTypes === undefined ? {} : { bodyTypes: operation.bodyTypes }),
    answers,
    errors: codes,
  }
}

function queryOf(parameters: readonly Parameter[]): Schema {
  const members = parameters.map(({ name, schema, sentence }) => [
    name,
    { ...schema, description: sentence },
  ])
  return {
    type: 'object',
    required: parameters.filter(({ isRequired }) => isRequired === true).map(({ name }) => name),
    properties: Object.fromEntries(members),
  }
}
