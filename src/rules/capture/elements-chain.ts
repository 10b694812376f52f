/**
 * The elements of an autocapture event as the one text that is stored. Source: docs/compatibility/events.md,
 * "elements_chain".
 */

import { isObject, type JsonObject } from '../../base/json.ts'
import { cutUnits } from './fields.ts'
import { ELEMENT_HREF_UNITS_MAX, ELEMENT_TEXT_UNITS_MAX } from './limits.ts'

const ATTRIBUTE_PREFIX = 'attr__'

/** The chain of the elements, from the clicked one outwards; entries that are no objects are skipped. */
export function elementsChain(elements: readonly unknown[]): string {
  const parts: string[] = []
  for (const element of elements) {
    if (isObject(element)) parts.push(elementText(element))
  }
  return parts.join(';')
}

function elementText(element: JsonObject): string {
  let text = plainText(element['tag_name'])
  for (const name of classNames(element)) text += `.${name}`
  text += ':'
  const attributes = attributesOf(element)
  for (const key of [...attributes.keys()].sort()) {
    text += `${key}="${(attributes.get(key) ?? '').replaceAll('"', '\\"')}"`
  }
  return text
}

/** Sorted, without quotes, from `attr__class` or else `classes`. */
function classNames(element: JsonObject): readonly string[] {
  const given = element['attr__class'] ?? element['classes']
  const names: readonly unknown[] = Array.isArray(given) ? given : plainText(given).split(/\s/)
  const clean: string[] = []
  for (const name of names) {
    const text = plainText(name).replaceAll('"', '')
    if (text !== '') clean.push(text)
  }
  return clean.sort()
}

function attributesOf(element: JsonObject): ReadonlyMap<string, string> {
  const attributes = new Map<string, string>()
  const text = plainText(element['$el_text'])
  if (text !== '') attributes.set('text', cutUnits(text, ELEMENT_TEXT_UNITS_MAX))
  attributes.set('nth-child', plainText(element['nth_child']) || '0')
  attributes.set('nth-of-type', plainText(element['nth_of_type']) || '0')
  const href = plainText(element['attr__href'])
  if (href !== '') attributes.set('href', cutUnits(href, ELEMENT_HREF_UNITS_MAX))
  const id = plainText(element['attr__id'])
  if (id !== '') attributes.set('attr_id', id)
  for (const key of Object.keys(element)) {
    if (!key.startsWith(ATTRIBUTE_PREFIX)) continue
    attributes.set(key.replaceAll('"', ''), attributeText(element[key]))
  }
  return attributes
}

/** Attributes may hold anything; what is no text is shown as JSON. */
function attributeText(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : plainText(value)
}

function plainText(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}
