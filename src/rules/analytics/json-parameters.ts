/** The members of a JSON object as parameters: what stands in one parameter of a request. */

import { invalidInput } from '../../base/errors.ts'
import type { ParameterSource } from './question-shapes.ts'

/** An object within a request, read like a request. Errors name the member as `attr`. */
export class JsonParameters implements ParameterSource {
  readonly #members: ReadonlyMap<string, unknown>

  constructor(object: Readonly<Record<string, unknown>>) {
    this.#members = new Map(Object.entries(object))
  }

  value(name: string): unknown {
    return this.#members.get(name)
  }

  text(name: string): string | null {
    const value = this.value(name)
    if (value === undefined || value === null || value === '') return null
    if (typeof value === 'object') throw invalidInput(name, 'must be a text')
    return String(value)
  }

  wholeNumber(name: string): number | null {
    const text = this.text(name)
    if (text === null) return null
    if (!/^[0-9]{1,20}$/.test(text)) throw invalidInput(name, 'must be a whole number')
    return Number(text)
  }

  json(name: string): unknown {
    const value = this.value(name)
    if (typeof value !== 'string') return value ?? undefined
    if (value === '') return undefined
    try {
      return JSON.parse(value)
    } catch {
      throw invalidInput(name, 'must be JSON')
    }
  }

  properties(): unknown {
    return this.json('properties')
  }
}
