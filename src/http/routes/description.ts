/**
 * The routes of the API description: an OpenAPI document for programs, and a page for people. Both are built at the
 * first request and cached. They need no key, because the description contains no data of customers. Source:
 * docs/compatibility/api.md, "API description".
 */
import { ServiceError } from '../../base/errors.ts'
import { PAGE_POLICY, renderPage } from '../openapi/page.ts'
import { answerUnlessCached, etagOf } from '../server/etags.ts'
import type { Answer, Header } from '../server/respond.ts'
import { ANYBODY, type Described, type DescribedResource, done } from '../server/route.ts'
import type { ApiRequest, Route } from '../server/router.ts'
import type { Schema } from '../server/schema.ts'
import * as is from '../server/schema.ts'

/** A cached answer with its ETag. */
type KeptAnswer = Answer & { readonly etag: string }

/** The two forms of the description. Each is built when it is first requested. */
interface Forms {
  readonly document: () => KeptAnswer
  readonly page: () => KeptAnswer
}

type FormRecord = Described & {
  readonly form: (request: ApiRequest, forms: Forms) => KeptAnswer
}

const PAGE_HEADERS: readonly Header[] = [
  ['Content-Security-Policy', PAGE_POLICY],
  ['X-Content-Type-Options', 'nosniff'],
]
const UNCHANGED = { description: 'The entity tag in If-None-Match is current.' }
const DOCUMENT = { 200: done(is.JSON_OBJECT), 304: UNCHANGED }
const SHARED = { method: 'GET', who: ANYBODY } as const

const RECORDS: readonly FormRecord[] = [
  {
    ...SHARED,
    path: '/api/schema/',
    id: 'getSchema',
    summary: 'Describes every route as OpenAPI 3.1.',
    query: is.options({
      format: is.about(
        is.choice('json', 'html'),
        'With html, the answer is a page for people, the same as /api/docs/.',
      ),
    }),
    answers: DOCUMENT,
    errors: ['not_found'],
    form(request, { document, page }) {
      const format = request.query.get('format') ?? 'json'
      if (format === 'html') return page()
      if (format === 'json' || format === '') return document()
      throw new ServiceError(
        'not_found',
        'This format does not exist. Use `format=json` or `format=html`.',
      )
    },
  },
  {
    ...SHARED,
    // Tools look for the document at this path.
    path: '/openapi.json/',
    id: 'getOpenapi',
    summary: 'Same as /api/schema/.',
    answers: DOCUMENT,
    form: (_, { document }) => document(),
  },
  {
    ...SHARED,
    path: '/api/docs/',
    id: 'getDocs',
    summary: 'Describes every route as a page for people.',
    answers: { 200: { ...done(), type: 'text/html' }, 304: UNCHANGED },
    form: (_, { page }) => page(),
  },
]

/** The routes of the API description. */
export const DESCRIPTION: DescribedResource = {
  name: 'API description',
  sentence: 'This description. It needs no key.',
  routes: RECORDS,
}

/** Returns the routes of `DESCRIPTION`. `build` returns the OpenAPI document. */
export function descriptionRoutes(build: () => Schema): readonly Route[] {
  let document: KeptAnswer | undefined
  let page: KeptAnswer | undefined
  const forms: Forms = {
    document: () => (document ??= keep('application/json', JSON.stringify(build()), [])),
    page: () => (page ??= keep('text/html; charset=utf-8', renderPage(build()), PAGE_HEADERS)),
  }
  return RECORDS.map(({ path, form }) => ({
    method: 'GET',
    path,
    handler(request) {
      const { etag, ...answer } = form(request, forms)
      return answerUnlessCached(request.head, etag, answer)
    },
  }))
}

function keep(contentType: string, text: string, more: readonly Header[]): KeptAnswer {
  const headers: readonly Header[] = [['Cache-Control', 'no-cache'], ...more]
  const body = Buffer.from(text)
  return { status: 200, contentType, body, isShared: true, headers, etag: etagOf(body) }
}
