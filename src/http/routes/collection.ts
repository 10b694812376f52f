/**
 * Turns the record of one kind of object into the usual routes for it: list, create, show, change and remove. A record
 * contains the schemas and the functions that do the work. This file adds the paths, operation IDs, pages, formats and
 * statuses of the routes.
 */
import { ServiceError } from '../../base/errors.ts'
import { given } from '../../base/json.ts'
import type { CountedRows, PageWish, RowFormat, RowText } from '../../base/pages.ts'
import { type Items, itemPage, lenientPage, type OffsetPage, PAGE_LIMITS } from '../server/pages.ts'
import {
  type AnyRoute,
  type Call,
  done,
  type RouteContent,
  type RouteServices,
  refusedRoute,
  routesOf,
  type Who,
} from '../server/route.ts'
import type { Members, Schema } from '../server/schema.ts'
import * as is from '../server/schema.ts'
import { answerFound, answerOne, answerPage, inputOf } from './formats.ts'

type MaybePromise<T> = T | Promise<T>

/**
 * The members that a record may set for a single route, such as `create`. `says` is the summary of the route in the API
 * description.
 */
type Part<Services extends RouteServices, Body extends Schema = Schema> = Pick<
  RouteContent<Services, Schema, Body>,
  'who' | 'errors' | 'body' | 'bodyTypes'
> & { readonly says?: string }

interface ListPart<Services extends RouteServices, Item, Query extends Members> {
  readonly says: string
  readonly who?: Who
  /** The query parameters of the list in addition to the parameters for paging. */
  readonly query?: Query
  /** The schema of a list item, if it differs from the schema of the object. */
  readonly item?: Schema
  /** The largest number of items on a page. */
  readonly rowsMax?: number
  /** Returns the items of one page, or all items if the list is in memory. */
  readonly items?: (
    call: Call<Services, ReturnType<typeof is.options<Query>>>,
    page: OffsetPage,
  ) => MaybePromise<Items<Item>>
  /** Returns the JSON of an item. */
  readonly show?: (call: Call<Services>, item: Item) => unknown
  /** Returns the rows of one page as text that a worker thread has written. Used instead of `items` and `show`. */
  readonly rows?: (call: Call<Services>, page: OffsetPage, wish: PageWish) => Promise<CountedRows>
}

interface GetPart<Services extends RouteServices> extends Omit<Part<Services>, 'body'> {
  /** The schema of the query parameters. */
  readonly query?: Schema
  /** Returns the JSON of the answer, if it differs from the JSON of the object in the path. Throws 404 `not_found`. */
  readonly read?: (call: Call<Services>) => unknown
  /** Returns the object as text that a worker thread has written. Used instead of `read`. Throws 404 `not_found`. */
  readonly row?: (call: Call<Services>, format: RowFormat, wish: PageWish) => Promise<RowText>
}

interface ChangePart<Services extends RouteServices, Thing, Found, Body extends Schema>
  extends Part<Services, Body> {
  readonly change: (call: Call<Services, Schema, Body>, before: Found) => MaybePromise<Thing>
}

/**
 * The record of one kind of object. A route exists only if the record has a member for it, such as `list` for the list.
 */
export interface Collection<
  Services extends RouteServices,
  Thing,
  Found extends Thing,
  Item,
  Query extends Members,
  Draft extends Schema,
  Changes extends Schema,
  Whole extends Schema,
> {
  /** The name of the object in operation IDs, such as `Role` in `getRole`. */
  readonly name: string
  /** The plural of `name` in operation IDs, if it is not the name with an `s`. */
  readonly plural?: string
  /** The object in the summaries of routes, such as `a role`. */
  readonly noun: string
  /** The end of the path of a single object, such as `:role_id/`. */
  readonly one: string
  readonly schema: Schema
  /** True if the routes also answer with CSV tables. */
  readonly isTable?: true
  readonly list?: ListPart<Services, Item, Query>
  /** Returns the object in the path. It is used for showing and changing the object. Throws 404 `not_found`. */
  readonly find?: (call: Call<Services>) => MaybePromise<Found>
  /** Returns the JSON of an object. */
  readonly show: (call: Call<Services>, thing: Thing) => MaybePromise<object>
  readonly create?: Part<Services, Draft> & {
    readonly make: (call: Call<Services, Schema, Draft>) => MaybePromise<Thing>
  }
  readonly get?: GetPart<Services>
  readonly patch?: ChangePart<Services, Thing, Found, Changes>
  readonly put?: ChangePart<Services, Thing, Found, Whole>
  readonly remove?: Part<Services> & { readonly run: (call: Call<Services>) => unknown }
  /**
   * The error text for a client that sends DELETE, if objects of this kind cannot be removed. It says what to send
   * instead.
   */
  readonly removeInstead?: string
}

/**
 * Returns a function that turns records into routes whose handlers work with `Services`. The paths of the routes begin
 * with `base`. Reads are open to `reader` and changes to `writer`, unless a part of the record sets its own `who`.
 */
export function collectionOf<Services extends RouteServices>(
  base: string,
  reader: Who,
  writer = reader,
) {
  const route = routesOf<Services>(base, reader, writer)
  return <
    Thing,
    Found extends Thing,
    Item,
    Query extends Members = Record<never, Schema>,
    Draft extends Schema = Schema<object>,
    Changes extends Schema = Schema<object>,
    Whole extends Schema = Schema<object>,
  >(
    record: Collection<Services, Thing, Found, Item, Query, Draft, Changes, Whole>,
  ): readonly AnyRoute<Services>[] => {
    const { name, plural = `${name}s`, noun, one, schema, isTable, show } = record
    const { find = () => notFound(name) } = record
    const { list, create, get, patch, put, remove, removeInstead } = record
    const routes: AnyRoute<Services>[] = []
    if (list !== undefined) {
      const { says, who, query, item = schema, rowsMax = PAGE_LIMITS.max } = list
      const { items, show: showItem, rows } = list
      routes.push(
        route('GET', '', `list${plural}`, says, {
          ...given({ who }),
          query: is.options({ ...query, ...is.pageParameters(rowsMax) }),
          answers: { 200: done(is.pageOf(item)) },
          ...(rows === undefined
            ? {
                async handle(call: Call<Services, ReturnType<typeof is.options<Query>>>) {
                  const page = lenientPage(call)
                  const found = (await items?.(call, page)) ?? []
                  return itemPage(call, page, found, (one) => showItem?.(call, one))
                },
              }
            : { respond: (call) => answerPage(call, (page, wish) => rows(call, page, wish)) }),
        }),
      )
    }
    if (create !== undefined) {
      const { says = `Creates ${noun}.`, make, ...content } = create
      const making = { ...content, ...made(201, () => null, make) }
      routes.push(route('POST', '', `create${name}`, says, making))
    }
    if (get !== undefined) {
      const { says = `Shows ${noun}.`, row, read, ...content } = get
      const handle = read ?? (async (call: Call<Services>) => show(call, await find(call)))
      const respond =
        row && ((call: Call<Services>) => answerFound(call, (...to) => row(call, ...to)))
      const getting = respond === undefined ? { handle } : { respond }
      const answers = { 200: done(schema) }
      routes.push(route('GET', one, `get${name}`, says, { ...content, answers, ...getting }))
    }
    if (patch !== undefined) {
      const { says = `Updates ${noun}.`, change, ...content } = patch
      const changing = { ...content, ...made(200, find, change) }
      routes.push(route('PATCH', one, `patch${name}`, says, changing))
    }
    if (put !== undefined) {
      const { says = 'Same as PATCH.', change, ...content } = put
      routes.push(route('PUT', one, `put${name}`, says, { ...content, ...made(200, find, change) }))
    }
    if (remove !== undefined) {
      const { says = `Removes ${noun}.`, run, ...content } = remove
      const removing = { ...content, answers: { 204: done() }, handle: run }
      routes.push(route('DELETE', one, `delete${name}`, says, removing))
    }
    if (removeInstead !== undefined) {
      const methods = [get && 'GET', patch && 'PATCH', put && 'PUT']
      const allow = methods.filter((method) => method !== undefined).join(', ')
      routes.push(refusedRoute({ method: 'DELETE', path: base + one, allow }, removeInstead))
    }
    return routes

    /**
     * Returns the answer and the handler of a route that creates or changes an object and shows the result. `prepare`
     * may refuse the request before its body is read.
     */
    function made<Body extends Schema, Ready>(
      status: number,
      prepare: (call: Call<Services>) => MaybePromise<Ready>,
      make: (call: Call<Services, Schema, Body>, ready: Ready) => MaybePromise<Thing>,
    ): Pick<RouteContent<Services, Schema, Body>, 'answers' | 'handle' | 'respond'> {
      const answers = { [status]: done(schema) }
      if (isTable !== true) {
        return {
          answers,
          handle: async (call) => show(call, await make(call, await prepare(call))),
        }
      }
      return {
        answers,
        async respond(call) {
          const ready = await prepare(call)
          const { format } = inputOf(call)
          return answerOne(format, await show(call, await make(call, ready)), status)
        },
      }
    }
  }
}

/** Returns an object. If it is missing (null or undefined), throws 404 `not_found` with `detail`. */
export function existing<Thing>(thing: Thing | null | undefined, detail: string): Thing {
  if (thing !== null && thing !== undefined) return thing
  throw new ServiceError('not_found', detail)
}

function notFound(name: string): never {
  throw new TypeError(`the collection of ${name} cannot find an object`)
}
