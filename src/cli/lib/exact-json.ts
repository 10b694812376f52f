/** Parses JSON that operators write, without rounding the IDs in it. */
import { ServiceError } from '../../base/errors.ts'
import { parseJson } from '../../base/json.ts'
import { parseJsonText } from '../../rules/capture/json-text.ts'

/**
 * Parses a text as JSON. Integers beyond 2^53 become texts, so that they keep all their digits. Returns undefined if the
 * text is not JSON or is nested too deeply.
 */
export function parseExactJson(text: string): unknown {
  if (parseJson(text) === undefined) return undefined
  try {
    return parseJsonText(Buffer.from(text), Number.POSITIVE_INFINITY, 'all')
  } catch (error) {
    if (error instanceof ServiceError) return undefined
    throw error
  }
}
