/**
 * Turns the elements of an autocapture event into the one text that is stored. Source: docs/compatibility/events.md,
 * "elements_chain".
 */

import { isObject, type JsonObject } from '../../base/json.ts'
import { cutUnits } from './fields.ts'
import {
  CLASSES_KEPT_MAX,
  CLASSES_KEPT_UNITS_MAX,
  ELEMENT_HREF_UNITS_MAX,
  ELEMENT_TEXT_UNITS_MAX,
} from './limits.ts'

const ATTRIBUTE_PREFIX = 'attr__'

/**
 * The number of attributes up to which an insertion sort is used. An insertion sort is faster than `sort` for a few
 * attributes. It takes quadratic time, so without this limit a client could make a request slow by sending many
 * attributes.
 */
const FEW_ATTRIBUTES = 32

/**
 * A cache that maps the text of a `class` attribute to the part of the elements chain that is made from it. A page has
 * few different class texts, but sends many clicks.
 */
const classesOfText = new Map<string, string>()

/**
 * The names of the attributes of the current element, and their values in `texts`. The arrays are reused for every
 * element, because much of the traffic is autocapture.
 */
const names: string[] = []
const texts: string[] = []
/**
 * The indexes of `names` and `texts` in the order of the names. Attributes with the same name stay in the order in
 * which they were sent.
 */
const order: number[] = []

/**
 * Returns the text for a list of elements, which begins with the clicked one and continues with the elements around it.
 * Entries that are not objects are skipped. An element takes about 1 us.
 */
export function elementsChain(elements: readonly unknown[]): string {
  let chain = ''
  let isFirst = true
  for (const element of elements) {
    if (!isObject(element)) continue
    if (!isFirst) chain += ';'
    isFirst = false
    chain += elementText(element)
  }
  return chain
}

function elementText(element: JsonObject): string {
  let text = `${plainText(element['tag_name'])}${classesText(element)}:`
  gatherAttributes(element)
  sortAttributes()
  for (let index = 0; index < order.length; index++) {
    const place = order[index] ?? 0
    // If several attributes have the same name, the last one counts.
    if (names[place] === names[order[index + 1] ?? -1]) continue
    const value = texts[place] ?? ''
    text += `${names[place]}="${value.includes('"') ? value.replaceAll('"', '\\"') : value}"`
  }
  return text
}

/**
 * Returns `.name` for each class, sorted and without quotes. The classes come from `attr__class`, or from `classes` if
 * there is no `attr__class`.
 */
function classesText(element: JsonObject): string {
  const given = element['attr__class'] ?? element['classes']
  if (Array.isArray(given)) return joinedClasses(given)
  const text = plainText(given)
  if (text === '') return ''
  const known = classesOfText.get(text)
  if (known !== undefined) return known
  const joined = joinedClasses(text.split(/\s/))
  if (text.length <= CLASSES_KEPT_UNITS_MAX) {
    if (classesOfText.size >= CLASSES_KEPT_MAX) classesOfText.clear()
    classesOfText.set(text, joined)
  }
  return joined
}

function joinedClasses(found: readonly unknown[]): string {
  const clean: string[] = []
  for (const name of found) {
    const text = withoutQuotes(plainText(name))
    if (text !== '') clean.push(text)
  }
  if (clean.length > 1) clean.sort()
  let all = ''
  for (const name of clean) all += `.${name}`
  return all
}

function gatherAttributes(element: JsonObject): void {
  order.length = 0
  const text = plainText(element['$el_text'])
  if (text !== '') setAttribute('text', cutUnits(text, ELEMENT_TEXT_UNITS_MAX))
  setAttribute('nth-child', plainText(element['nth_child']) || '0')
  setAttribute('nth-of-type', plainText(element['nth_of_type']) || '0')
  const href = plainText(element['attr__href'])
  if (href !== '') setAttribute('href', cutUnits(href, ELEMENT_HREF_UNITS_MAX))
  const id = plainText(element['attr__id'])
  if (id !== '') setAttribute('attr_id', id)
  for (const key in element) {
    if (!key.startsWith(ATTRIBUTE_PREFIX)) continue
    setAttribute(withoutQuotes(key), attributeText(element[key]))
  }
}

function setAttribute(name: string, text: string): void {
  const place = order.length
  names[place] = name
  texts[place] = text
  order.push(place)
}

function sortAttributes(): void {
  if (order.length > FEW_ATTRIBUTES) {
    order.sort((a, b) => (isBefore(a, b) ? -1 : 1))
    return
  }
  for (let next = 1; next < order.length; next++) {
    const place = order[next] ?? 0
    let to = next
    for (; to > 0 && isBefore(place, order[to - 1] ?? 0); to--) order[to] = order[to - 1] ?? 0
    order[to] = place
  }
}

function isBefore(place: number, other: number): boolean {
  const name = names[place] ?? ''
  const otherName = names[other] ?? ''
  return name < otherName || (name === otherName && place < other)
}

function withoutQuotes(text: string): string {
  return text.includes('"') ? text.replaceAll('"', '') : text
}

/** Returns the value of an attribute as text. An object or array becomes JSON, and null becomes ''. */
function attributeText(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : plainText(value)
}

function plainText(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}
