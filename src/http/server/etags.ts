/** ETags of answers that clients cache and ask for again. Source: RFC 9110, section 13.1.2. */
import { createHash } from 'node:crypto'
import { isSameEtag } from '../../rules/flags/flag-definitions.ts'
import type { RequestHead } from './framing.ts'
import type { Answer } from './respond.ts'

const CHARACTERS = 16

/** Returns the ETag of a body, in quotes. Equal bodies have equal ETags. The time is linear in the size of the body. */
export function etagOf(body: string | Uint8Array): string {
  return `"${createHash('sha256').update(body).digest('hex').slice(0, CHARACTERS)}"`
}

/** Returns an answer with its ETag, or 304 without a body if the client has already cached it. */
export function answerUnlessCached(
  head: Pick<RequestHead, 'ifNoneMatch'>,
  etag: string,
  answer: Answer,
): Answer {
  const headers = [['ETag', etag] as const, ...(answer.headers ?? [])]
  const isKept = head.ifNoneMatch !== '' && isSameEtag(head.ifNoneMatch, etag)
  return isKept ? { status: 304, contentType: '', body: '', headers } : { ...answer, headers }
}
