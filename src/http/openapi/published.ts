/**
 * Schemas that validate requests, as they are published: what only our validator knows becomes plain JSON
 * Schema.
 */
import type { Schema } from './types.ts'

/** The same schema without keywords of our own and of older dialects. Linear. */
export function published(schema: Schema): Schema {
  const result: Record<string, unknown> = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === 'nullable') continue
    if (keyword === 'clientUuid') {
      result['type'] = ['string', 'null']
      result['description'] = 'A UUID in any usual form; null and the empty text count as none.'
    } else if (keyword === 'type' && schema['nullable'] === true) result['type'] = [value, 'null']
    else if (keyword === 'items') result['items'] = published(value as Schema)
    else if (keyword === 'properties') {
      const members = Object.entries(value as Readonly<Record<string, Schema>>)
      result['properties'] = Object.fromEntries(
        members.map(([name, member]) => [name, published(member)]),
      )
    } else result[keyword] = value
  }
  return result
}
