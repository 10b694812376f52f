/** What public paths that are only read answer to other methods than GET and HEAD. */
import type { Exchange } from '../../server/exchange.ts'
import { sendEmpty, sendMethodNotAllowed } from '../../server/respond.ts'

const READ_METHODS = 'GET, HEAD, OPTIONS'

/** Answers what is no GET or HEAD; true when it was one of those. */
export function isAnsweredByMethod(exchange: Exchange): boolean {
  const { method } = exchange
  if (method === 'GET' || method === 'HEAD') return false
  if (method === 'OPTIONS') sendEmpty(exchange, 204)
  else sendMethodNotAllowed(exchange, READ_METHODS)
  return true
}
