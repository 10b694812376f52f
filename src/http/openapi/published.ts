/**
 * Prepares the schemas in the records of routes for the OpenAPI document. Keywords that only our own input validation
 * knows are removed. A schema with a name is published once, under `components`.
 */
import { INPUT_KEYWORDS } from '../../base/validator.ts'
import { definitionOf, type Members, ref, type Schema } from '../server/schema.ts'

/** Publishes schemas, and collects the schemas that have a name. */
export class Schemas {
  readonly #found = new Map<string, Schema>()

  /** Returns the named schemas found so far, as the content of `components.schemas`. */
  published(): Members {
    return Object.fromEntries(this.#found)
  }

  /**
   * Returns a schema without our own keywords and without keywords of older JSON Schema dialects. A named schema
   * becomes a reference. The time is linear in the size of the schema.
   */
  publish(schema: Schema): Schema {
    const definition = definitionOf(schema)
    if (definition === null) return this.#plain(schema)
    const { name, schema: own } = definition
    if (!this.#found.has(name)) {
      this.#found.set(name, own)
      this.#found.set(name, this.#plain(own))
    }
    const { description } = schema
    return description === own['description'] ? ref(name) : { ...ref(name), description }
  }

  #plain(schema: Schema): Schema {
    const result: Record<string, unknown> = {}
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword === 'nullable' || INPUT_KEYWORDS.includes(keyword)) continue
      if (keyword === 'clientUuid') {
        result['type'] = ['string', 'null']
        result['description'] =
          'A UUID in any usual form. Null and the empty text mean that no UUID was given.'
      } else if (keyword === 'type' && schema['nullable'] === true) result['type'] = [value, 'null']
      else if (keyword === 'properties') {
        const members = Object.entries(value as Members)
        result['properties'] = Object.fromEntries(
          members.map(([name, member]) => [name, this.publish(member)]),
        )
      } else if (keyword === 'anyOf') {
        result['anyOf'] = (value as readonly Schema[]).map((one) => this.publish(one))
      } else if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
        result[keyword] = this.publish(value as Schema)
      } else result[keyword] = value
    }
    return result
  }
}
