/**
 * Public routes as records: what browsers, SDKs and OpenFeature ask without a personal key. Their
 * handlers answer an exchange themselves, most of them in microseconds; a body is read with
 * `collectBody`. How to write one: http/routes/public/README.md.
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
 * Answers a public request. It must see to it that the exchange is answered, through http/server/respond.ts. What it throws, or a promise that it returns rejects with,
 * is answered.
 */
export type PublicHandler = (exchange: Exchange, head: RequestHead) => void | Promise<void>

/** One method of one public path, for the server. */
export interface PublicRoute {
  readonly method: string
  /** Without a slash at its end; `:name` stands for one segment. */
  readonly path: string
  readonly handler: PublicHandler
}

/** Everything about one method of one public path, for handlers that work with `Services`. */
export interface PublicRecord<Services> extends Described {
  readonly handle: (
    services: Services,
    exchange: Exchange,
    head: RequestHead,
  ) => void | Promise<void>
}

/** Routes that belong together, in the order of the description. */
export interface PublicResource<Services> extends DescribedResource {
  readonly routes: readonly PublicRecord<Services>[]
}

/** Media types besides JSON that bodies of SDKs come in: whatever they say, the bytes decide. */
export const ANY_TEXT_TYPES: readonly string[] = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/octet-stream',
]

/** The routes of records, for the server. */
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

/** GET, HEAD and OPTIONS of a path that is only read; `record.id` is the end of their names. */
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
      ...{ who: ANYBODY, method: 'HEAD', id: `head${id}`, answers: headers },
      summary: 'The headers of GET.',
    },
    preflight(path, id),
  ]
}

/** The words of a path as one name: `/i/v0/e` is `IV0E`, `web_experiments` is `WebExperiments`. */
export function pascalCase(path: string): string {
  const words = path.split(/[/_]/).filter((word) => word !== '')
  return words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')
}

/** OPTIONS of a path, answered with 204 and without a body; `id` is the end of its name. */
export function preflight(path: string, id: string): PublicRecord<unknown> {
  return {
    method: 'OPTIONS',
    path,
    id: `options${id}`,
    summary: 'Answers a browser that asks first.',
    who: ANYBODY,
    answers: { 204: done() },
    handle: (_, exchange) => sendEmpty(exchange, 204),
  }
}
