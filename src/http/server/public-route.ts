/**
 * Describes public routes as records. Browsers, SDKs and OpenFeature clients call these routes without a personal key.
 * The handler of a public route answers the exchange itself, usually within microseconds, and reads a body with
 * `collectBody`. http/routes/public/README.md describes how to write such a route.
 */
import type { Exchange } from './exchange.ts'
import type { RequestHead } from './framing.ts'
import { sendEmpty } from './respond.ts'
import {
  ANYBODY,
  type Described,
  type DescribedAnswer,
  type DescribedResource,
  done,
} from './route.ts'

/**
 * Answers a request to a public route. The handler must make sure that the exchange is answered through
 * http/server/respond.ts. If it throws an error or its promise rejects, the server answers with that error.
 */
export type PublicHandler = (exchange: Exchange, head: RequestHead) => void | Promise<void>

/** A public route for one method and one path, as the server registers it. */
export interface PublicRoute {
  readonly method: string
  /** The path without a slash at its end. `:name` stands for one segment. */
  readonly path: string
  readonly handler: PublicHandler
}

/** The record of one method and one path. Its handler works with `Services`. */
export interface PublicRecord<Services> extends Described {
  readonly handle: (
    services: Services,
    exchange: Exchange,
    head: RequestHead,
  ) => void | Promise<void>
}

/** Public routes with a common subject, in the order of the API description. */
export interface PublicResource<Services> extends DescribedResource {
  readonly routes: readonly PublicRecord<Services>[]
}

/**
 * The media types besides JSON that SDKs declare. The declared type does not matter, because the format of a body is
 * recognized by its bytes.
 */
export const ANY_TEXT_TYPES: readonly string[] = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/octet-stream',
]

/** Turns records into routes that the server can register. */
export function bindPublic<Services>(
  records: readonly PublicRecord<Services>[],
  services: Services,
): readonly PublicRoute[] {
  return records.map(({ method, path, handle }) => ({
    method,
    path,
    handler: (exchange, head) => handle(services, exchange, head),
  }))
}

/**
 * Returns the records of GET, HEAD and OPTIONS for a path that is only read. Their operation IDs are `get`, `head` and
 * `options`, each followed by `record.id`.
 */
export function readable<Services>(
  record: Omit<PublicRecord<Services>, 'method' | 'who'>,
): readonly [
  get: PublicRecord<Services>,
  head: PublicRecord<Services>,
  options: PublicRecord<Services>,
] {
  const { path, id, answers } = record
  const headers: Record<number, DescribedAnswer> = { ...answers, 200: done() }
  return [
    { ...record, who: ANYBODY, method: 'GET', id: `get${id}` },
    {
      ...record,
      who: ANYBODY,
      method: 'HEAD',
      id: `head${id}`,
      answers: headers,
      summary: 'The headers of GET.',
    },
    preflight(path, id),
  ]
}

/**
 * Joins the words of a path into one name: `/i/v0/e` becomes `IV0E`, and `web_experiments` becomes `WebExperiments`.
 */
export function pascalCase(path: string): string {
  const words = path.split(/[/_]/).filter((word) => word !== '')
  return words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')
}

/**
 * Returns the record of OPTIONS for a path. Its handler answers 204 without a body. Its operation ID is `options`,
 * followed by `id`.
 */
export function preflight(path: string, id: string): PublicRecord<unknown> {
  return {
    method: 'OPTIONS',
    path,
    id: `options${id}`,
    summary: 'Answers a CORS preflight request.',
    who: ANYBODY,
    answers: { 204: done() },
    handle: (_, exchange) => sendEmpty(exchange, 204),
  }
}
