/**
 * The routes of the API description: OpenAPI for programs, a page for people. Both are made at the first
 * request and kept. No key is needed: it tells nothing about customers.
 * Source: docs/COMPATIBILITY.md, "API description".
 */
import { createHash } from 'node:crypto'
import { ServiceError } from '../../base/errors.ts'
import { isSameEtag } from '../../rules/flags/definitions.ts'
import type { Answer, Header } from '../server/respond.ts'
import type { ApiRequest, Route } from '../server/router.ts'
import { buildDocument } from './document.ts'
import { PAGE_POLICY, renderPage } from './page.ts'

/** An answer as it is kept. */
interface KeptAnswer {
  readonly contentType: string
  readonly body: Buffer
  readonly etag: string
  readonly headers: readonly Header[]
}

const PAGE_HEADERS: readonly Header[] = [
  ['Content-Security-Policy', PAGE_POLICY],
  ['X-Content-Type-Options', 'nosniff'],
]

/** The routes `/api/schema/`, `/openapi.json`, where tools look for it, and `/api/docs/`. */
export function schemaRoutes(): readonly Route[] {
  let document: KeptAnswer | undefined
  let page: KeptAnswer | undefined
  const answerDocument = (request: ApiRequest): Answer => {
    document ??= keep('application/json', JSON.stringify(buildDocument()), [])
    return answerKept(request, document)
  }
  const answerPage = (request: ApiRequest): Answer => {
    page ??= keep('text/html; charset=utf-8', renderPage(buildDocument()), PAGE_HEADERS)
    return answerKept(request, page)
  }
  return [
    {
      method: 'GET',
      path: '/api/schema/',
      handler: (request) => {
        const format = request.query.get('format') ?? 'json'
        if (format === 'html') return answerPage(request)
        if (format === 'json' || format === '') return answerDocument(request)
        throw new ServiceError('not_found', 'there is no such format; use format=json or html')
      },
    },
    { method: 'GET', path: '/openapi.json/', handler: answerDocument },
    { method: 'GET', path: '/api/docs/', handler: answerPage },
  ]
}

function keep(contentType: string, text: string, headers: readonly Header[]): KeptAnswer {
  const etag = `"${createHash('sha256').update(text).digest('hex').slice(0, 16)}"`
  return { contentType, body: Buffer.from(text), etag, headers }
}

function answerKept({ ifNoneMatch }: ApiRequest, kept: KeptAnswer): Answer {
  const headers: readonly Header[] = [
    ['ETag', kept.etag],
    ['Cache-Control', 'no-cache'],
    ...kept.headers,
  ]
  if (ifNoneMatch !== '' && isSameEtag(ifNoneMatch, kept.etag)) {
    return { status: 304, contentType: '', body: '', headers }
  }
  return { status: 200, contentType: kept.contentType, body: kept.body, isShared: true, headers }
}
