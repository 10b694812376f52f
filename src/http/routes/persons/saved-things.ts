/**
 * The common part of actions and cohorts, which users save under a name: their route records, and the fields of their
 * bodies. Each field is described and read in one place.
 */
import { PAGE_ROWS_MAX } from '../../server/limits.ts'
import { booleanMember, type RequestParameters, textMember } from '../../server/parameters.ts'
import type { Answer } from '../../server/respond.ts'
import { type AnyRoute, done, inProject, routesOf } from '../../server/route.ts'
import type { Schema } from '../../server/schema.ts'
import * as is from '../../server/schema.ts'
import { answerFound, answerPage } from '../formats.ts'
import { DESCRIPTION_UNITS_MAX, NAME_UNITS_MAX } from '../limits.ts'
import { type PersonCall, type PersonServices, unknown } from './person-services.ts'

/** A field of a body. */
export interface Field<T> {
  readonly schema: Schema
  /** Reads the parameter `name`. Returns undefined if it was not sent. Throws 400. */
  readonly read: (parameters: RequestParameters, name: string) => T | undefined
}

type Fields = Readonly<Record<string, Field<unknown>>>

/** The fields of a request. Fields that were not sent are absent. */
export type FieldsOf<Table extends Fields> = {
  readonly [Name in keyof Table]?: Table[Name] extends Field<infer T> ? T : never
}

/** Returns a boolean field, which may also be sent as text. */
export function truth(description: string): Field<boolean> {
  return {
    schema: is.about(is.BOOLEAN, description),
    read: (parameters, name) => booleanMember(parameters.value(name), name),
  }
}

/** The fields of every saved object. */
export const NAME_FIELDS = {
  name: {
    schema: is.TEXT,
    read: (parameters, name) => textMember(parameters.value(name), name, NAME_UNITS_MAX)?.trim(),
  },
  description: {
    schema: is.TEXT,
    read: (parameters, name) => textMember(parameters.value(name), name, DESCRIPTION_UNITS_MAX),
  },
} satisfies Readonly<Record<string, Field<string>>>

/** Reads the fields of a table, in its order. Throws 400 for the first invalid field. */
export function readFields<Table extends Fields>(
  parameters: RequestParameters,
  table: Table,
): FieldsOf<Table> {
  const members = Object.entries(table).map(([name, { read }]) => [name, read(parameters, name)])
  // Each member has the type of its field, because only undefined members were removed.
  return Object.fromEntries(members.filter(([, value]) => value !== undefined)) as FieldsOf<Table>
}

/** Returns the number of the object in the path. Throws 404 `not_found`. */
export function idInPath(call: Pick<PersonCall, 'number'>, thing: SavedThing['thing']): number {
  const id = call.number(`${thing}_id`)
  if (id === null) throw unknown(thing)
  return id
}

/** The properties in which the records of actions and cohorts differ. */
interface SavedThing {
  readonly thing: 'action' | 'cohort'
  readonly schema: Schema
  readonly fields: Fields
  readonly bodyTypes?: readonly string[]
  /** The summaries of listing and changing, as sentences. */
  readonly lists: string
  readonly changes: string
  readonly create: (call: PersonCall) => Promise<Answer>
  readonly patch: (call: PersonCall) => Promise<Answer>
}

/** Returns the records of an object: list, create, get, patch and put. */
export function savedRoutes(saved: SavedThing): readonly AnyRoute<PersonServices>[] {
  const { thing, schema, fields, bodyTypes = [], lists, changes, create, patch } = saved
  const route = routesOf<PersonServices>(
    `/api/projects/:project_id/${thing}s/`,
    inProject(`${thing}:read`),
    inProject(`${thing}:write`),
  )
  const one = `:${thing}_id/`
  const [title, a] = thing === 'action' ? ['Action', 'an action'] : ['Cohort', 'a cohort']
  const { name = is.TEXT, ...others } = Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [name, field.schema]),
  )
  const answers = { 200: done(schema) }
  const body = is.named(`${title}Changes`, is.openObject({}, { name, ...others }))
  const changing = { body, bodyTypes, answers, respond: patch }
  return [
    route('GET', '', `list${title}s`, lists, {
      query: is.options(is.pageParameters(PAGE_ROWS_MAX)),
      answers: { 200: done(is.pageOf(schema)) },
      respond: (call) =>
        answerPage(call, ({ limit, offset }, wish) => {
          const { queries } = call.services
          return thing === 'action'
            ? queries.listActions(call.projectId, limit, offset, wish)
            : queries.listCohorts(call.projectId, limit, offset, wish)
        }),
    }),
    route('POST', '', `create${title}`, `Creates ${a}.`, {
      body: is.named(`${title}Draft`, is.openObject({ name }, others)),
      bodyTypes,
      answers: { 201: done(schema) },
      respond: create,
    }),
    route('GET', one, `get${title}`, `Shows ${a}.`, {
      answers,
      respond(call) {
        const id = idInPath(call, thing)
        const { queries } = call.services
        return answerFound(call, unknown(thing), (format, wish) =>
          thing === 'action'
            ? queries.getAction(call.projectId, id, format)
            : queries.getCohort(call.projectId, id, wish),
        )
      },
    }),
    route('PATCH', one, `patch${title}`, changes, changing),
    route('PUT', one, `put${title}`, 'Same as PATCH.', changing),
  ]
}
