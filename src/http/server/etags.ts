/** Tags of answers that clients keep and ask for again. Source: RFC 9110, section 13.1.2. */
import { createHash } from 'node:crypto'
import { isSameEtag } from '../../rules/flags/definitions.ts'
import type { RequestHead } from './framing.ts'
import type { Answer } from './respond.ts'

const CHARACTERS = 16

/** The tag of a body, in quotes: equal bodies have the same. Linear. */
export function etagOf(body: string | Uint8Array): string {
  return `"${createHash('sha256').update(body).digest('hex').slice(0, CHARACTERS)}"`
}

/** A 200 with its tag, or 304 without a body for a client that has it. */
export function unlessKept(
  head: Pick<RequestHead, 'ifNoneMatch'>,
  etag: string,
  answer: Answer,
): Answer {
  const headers = [['ETag', etag] as const, ...(answer.headers ?? [])]
  const isKept = head.ifNoneMatch !== '' && isSameEtag(head.ifNoneMatch, etag)
  return isKept ? { status: 304, contentType: '', body: '', headers } : { ...answer, headers }
}
