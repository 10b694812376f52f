/**
 * Describes public routes as records. Browsers, SDKs and OpenFeature clients call these routes without a personal key.
 * Their handlers answer the exchange themselves, most of them in microseconds, and read a body with `collectBody`. See
 * http/routes/public/README.md for how to write one.
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
 * Answers a public request. The handler must make sure that the exchange is answered through http/server/respond.ts. An
 * error that it throws, or with which its promise rejects, is answered for it.
 */
export type PublicHandler = (exchange: Exchange, head: RequestHead) => void | Promise<void>

/** One method of one public path, ready for the server. */
export interface PublicRoute {
  readonly method: string
  /** The path without a slash at its end. `:name` stands for one segment. */
  readonly path: string
  readonly handler: PublicHandler
}

/** The record of one method of one public path, for handlers that work with `Services`. */
export interface PublicRecord<Services> extends Described {
  readonly handle: (
    services: Services,
    exchange: Exchange,
    head: RequestHead,
  ) => void | Promise<void>
}

/** A group of public routes with one subject, in the order of the API description. */
export interface PublicResource<Services> extends DescribedResource {
  readonly routes: readonly PublicRecord<Services>[]
}

/**
 * The media types besides JSON that SDKs send. The declared type does not matter: the body is recognised by its bytes.
 */
export const ANY_TEXT_TYPES: readonly string[] = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/octet-stream',
]

/** Turns records into routes for the server. */
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
 * Returns the records of GET, HEAD and OPTIONS for a path that is only read. `record.id` is the end of their operation
 * names.
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

/** Returns the record of OPTIONS for a path. It answers 204 without a body. `id` is the end of its operation name. */
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
