/**
 * Filters on the chain of elements of an autocaptured event: tag names, texts, links and CSS selectors. Any element of
 * the chain may match. Source: docs/compatibility/analytics.md, "Actions".
 */
import type { PropertyFilter } from './filter-group.ts'
import { ELEMENTS_MAX, SELECTOR_UNITS_MAX } from './limits.ts'
import { propertyTest } from './property-filter.ts'

/** The keys that a filter on the element of an autocaptured event may have. */
export const ELEMENT_KEYS: readonly string[] = ['tag_name', 'text', 'href', 'selector']

/** Returns whether a chain of elements passes. The chain of an event without elements is ''. */
export type ElementTest = (chain: string) => boolean

const ATTRIBUTES_START = /^[\w-]*="/

/** One element of a chain. */
export interface ChainElement {
  readonly tagName: string
  readonly classes: readonly string[]
  readonly attributes: ReadonlyMap<string, string>
}

/** One part of a selector: the conditions on one element. */
interface SelectorPart {
  readonly tagName: string | null
  readonly classes: readonly string[]
  readonly attributes: readonly (readonly [name: string, value: string | null])[]
  /** True if the element must be the parent of the element of the next part. False if it may be any ancestor. */
  readonly isParent: boolean
}

/**
 * Returns the test of a filter of type `element`, or null if it cannot be built. A negative operator passes if no
 * element of the chain matches. A selector that cannot be parsed matches nothing.
 */
export function elementTest(filter: PropertyFilter): ElementTest | null {
  const { operator = 'exact', negation = false, key, value } = filter
  if (!ELEMENT_KEYS.includes(key)) return null
  const isNegative = (operator.startsWith('is_not') || operator.startsWith('not_')) !== negation
  const test = propertyTest(isNegative ? { ...filter, negation: !negation } : filter)
  if (test === null) return null
  const fits = key === 'selector' ? selectorsTest(value) : textsTest(key, test)
  return (chain) => fits(parsedChain(chain)) !== isNegative
}

/** Returns whether a text is a selector that can be parsed. */
export function isSelector(text: string): boolean {
  return parseSelector(text) !== null
}

type ChainTest = (elements: readonly ChainElement[]) => boolean

function textsTest(key: string, test: (value: unknown) => boolean): ChainTest {
  return (elements) =>
    elements.some((element) => {
      const value = key === 'tag_name' ? element.tagName : element.attributes.get(key)
      return value !== undefined && test(value)
    })
}

function selectorsTest(value: unknown): ChainTest {
  const texts: readonly unknown[] = Array.isArray(value) ? value : [value]
  const selectors = texts.flatMap((text) =>
    typeof text === 'string' ? (parseSelector(text) ?? []) : [],
  )
  return (elements) => selectors.some((parts) => isSelected(elements, parts))
}

/**
 * Returns whether any element matches the last part of a selector, and its ancestors match the other parts. The element
 * need not be the one that was clicked.
 */
function isSelected(elements: readonly ChainElement[], parts: readonly SelectorPart[]): boolean {
  const failed = new Set<number>()
  // Returns whether the elements from index `start` on match the parts from `part` down to 0. A chain begins with the
  // innermost element, and a selector with the outermost part.
  const fits = (part: number, start: number, isNext: boolean): boolean => {
    const wanted = parts[part]
    if (wanted === undefined) return true
    const place = part * (ELEMENTS_MAX + 1) + start
    if (!isNext && failed.has(place)) return false
    const end = isNext ? Math.min(start + 1, elements.length) : elements.length
    for (let index = start; index < end; index++) {
      const element = elements[index]
      if (element === undefined || !isPart(element, wanted)) continue
      if (fits(part - 1, index + 1, parts[part - 1]?.isParent === true)) return true
    }
    if (!isNext) failed.add(place)
    return false
  }
  return fits(parts.length - 1, 0, false)
}

function isPart(element: ChainElement, part: SelectorPart): boolean {
  if (part.tagName !== null && part.tagName !== element.tagName) return false
  if (!part.classes.every((name) => element.classes.includes(name))) return false
  return part.attributes.every(([name, value]) => {
    const own = element.attributes.get(name) ?? element.attributes.get(`attr__${name}`)
    return own !== undefined && (value === null || own === value)
  })
}

const SIMPLE =
  /\*|([\w-]+)|\.((?:\\.|[^\s.#:[\]>,\\])+)|#((?:\\.|[^\s.#:[\]>,\\])+)|\[\s*([\w:@.-]+)\s*(?:=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\]"']*)))?\s*\]|:(nth-child|nth-of-type)\(\s*(\d+)\s*\)/y
const COMBINATOR = /\s*([>,])\s*|\s+/y

/**
 * Returns the alternatives of a selector, which commas separate. Each is a list of parts, the outermost one first.
 * Returns null if the selector cannot be parsed.
 */
function parseSelector(selector: string): readonly (readonly SelectorPart[])[] | null {
  const text = selector.trim()
  if (text === '' || selector.length > SELECTOR_UNITS_MAX) return null
  const alternatives: SelectorPart[][] = []
  let parts: SelectorPart[] = []
  for (let offset = 0; offset < text.length; ) {
    const { part, end } = readPart(text, offset)
    if (part === null) return null
    const combinator = matchAt(COMBINATOR, text, end)
    offset = end + (combinator?.[0].length ?? 0)
    const isEnd = offset >= text.length
    // There is a combinator between two parts and none after the last part.
    if ((combinator === null) !== isEnd) return null
    parts.push({ ...part, isParent: combinator?.[1] === '>' })
    if (combinator?.[1] !== ',' && !isEnd) continue
    alternatives.push(parts)
    parts = []
  }
  return alternatives
}

/**
 * Reads one part of a selector. Returns the part and the offset at which it ends. `part` is null if the selector cannot
 * be parsed.
 */
function readPart(text: string, start: number) {
  let tagName: string | null = null
  const classes: string[] = []
  const attributes: (readonly [string, string | null])[] = []
  let end = start
  for (let match = matchAt(SIMPLE, text, end); match !== null; match = matchAt(SIMPLE, text, end)) {
    const [whole, name, className, id, attribute, double, single, bare, position, number] = match
    const isFirst = end === start
    end += whole.length
    if (name !== undefined || whole === '*') {
      if (!isFirst) return { part: null, end }
      tagName = name?.toLowerCase() ?? null
    } else if (className !== undefined) classes.push(unescaped(className))
    else if (id !== undefined) attributes.push(['attr_id', unescaped(id)])
    else if (position !== undefined) attributes.push([position, String(Number(number))])
    else if (attribute !== undefined) {
      const value = double ?? single ?? bare
      const key = attribute === 'id' ? 'attr_id' : attribute
      attributes.push([key, value === undefined ? null : unescaped(value.trim())])
    }
  }
  return { part: end === start ? null : { tagName, classes, attributes }, end }
}

/** Returns the match of a sticky pattern at an offset. */
function matchAt(pattern: RegExp, text: string, offset: number): RegExpExecArray | null {
  pattern.lastIndex = offset
  return pattern.exec(text)
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, '$1')
}

let lastChain = ''
let lastElements: readonly ChainElement[] = []

/**
 * Returns the parsed chain. The last result is cached, because several filters read the same chain one after the other.
 */
function parsedChain(chain: string): readonly ChainElement[] {
  if (chain !== lastChain) {
    lastElements = chainElements(chain)
    lastChain = chain
  }
  return lastElements
}

/** Parses a chain as ingestion writes it: `tag.class.class:name="value"name="value";tag...`. */
export function chainElements(chain: string): readonly ChainElement[] {
  const elements: ChainElement[] = []
  let offset = 0
  while (offset < chain.length && elements.length < ELEMENTS_MAX) {
    const headEnd = endOfHead(chain, offset)
    const [tagName = '', ...classes] = chain.slice(offset, headEnd).split('.')
    const attributes = new Map<string, string>()
    offset = headEnd + (chain[headEnd] === ':' ? 1 : 0)
    while (offset < chain.length && chain[offset] !== ';') {
      const nameEnd = chain.indexOf('="', offset)
      if (nameEnd < 0) break
      const end = endOfValue(chain, nameEnd + 2)
      const value = chain.slice(nameEnd + 2, end).replaceAll('\\"', '"')
      attributes.set(chain.slice(offset, nameEnd), value)
      offset = end + 1
    }
    elements.push({ tagName, classes, attributes })
    const next = chain.indexOf(';', offset)
    offset = next < 0 ? chain.length : next + 1
  }
  return elements
}

/** Returns the offset at which the tag and the classes of an element end. Class names may contain colons. */
function endOfHead(chain: string, start: number): number {
  const first = chain.indexOf('="', start)
  const semicolon = chain.indexOf(';', start)
  if (first < 0 || (semicolon >= 0 && semicolon < first)) {
    const end = semicolon < 0 ? chain.length : semicolon
    return chain[end - 1] === ':' ? end - 1 : end
  }
  for (let colon = chain.indexOf(':', start); colon >= 0 && colon < first; ) {
    if (ATTRIBUTES_START.test(chain.slice(colon + 1, first + 2))) return colon
    colon = chain.indexOf(':', colon + 1)
  }
  const last = chain.lastIndexOf(':', first)
  return last < start ? start : last
}

function endOfValue(chain: string, start: number): number {
  let end = chain.indexOf('"', start)
  while (end > 0 && chain[end - 1] === '\\') end = chain.indexOf('"', end + 1)
  return end < 0 ? chain.length : end
}
