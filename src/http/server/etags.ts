/** Entity tags of answers that clients cache and revalidate. Source: RFC 9110, section 13.1.2. */
import { createHash } from 'node:crypto'
import { isSameEtag } from '../../rules/flags/flag-definitions.ts'
import type { RequestHead } from './framing.ts'
import type { Answer } from './respond.ts'

const CHARACTERS = 16

/** Returns the tag of a body, in quotes. Equal bodies have equal tags. Takes linear time. */
export function etagOf(body: string | Uint8Array): string {
  return `"${createHash('sha256').update(body).digest('hex').slice(0, CHARACTERS)}"`
}

/** Returns the answer with its tag, or 304 without a body if the client has it cached. */
export function answerUnlessCached(
  head: Pick<RequestHead, 'ifNoneMatch'>,
  etag: string,
  answer: Answer,
): Answer {
  const headers = [['ETag', etag] as const, ...(answer.headers ?? [])]
  const isKept = head.ifNoneMatch !== '' && isSameEtag(head.ifNoneMatch, etag)
  return isKept ? { status: 304, contentType: '', body: '', headers } : { ...answer, headers }
}
