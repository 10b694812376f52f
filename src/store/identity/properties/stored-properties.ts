/**
 * The properties of one person or group, which decisions look up by name. Properties that are stored in one record are
 * all parsed when the first one is read. If the properties are paged, only the page that may contain the name is read,
 * so the cost of a lookup does not depend on the number of other properties.
 */
import type { JsonObject } from '../../../base/json.ts'
import { UNREAD_VALUE } from '../../../rules/flags/property-lookup.ts'
import type { PropertyLookup } from '../../../rules/flags/types.ts'
import {
  type ParsedDelta,
  parseDelta,
  propertyAfter,
} from '../../../rules/persons/property-deltas.ts'
import { COMPARED_BYTES_MAX, DECISION_VALUES_UNITS_MAX } from '../limits.ts'
import { findInPage, isAlone, pageOfName } from './property-pages.ts'

/** Properties that can be looked up by name. */
export interface StoredProperties extends PropertyLookup {
  /**
   * Returns all properties. Only commands use it, because the cost grows with their number. Throws
   * `DamagedRecordError`.
   */
  all(): JsonObject
  /** Must be called after a decision. If the cached values take too much memory, they are evicted. */
  settle(): void
}

/** Properties that are stored in one record. All of them are parsed at the first lookup. */
export class WholeProperties implements StoredProperties {
  #parse: (() => JsonObject) | null
  #members: JsonObject = NOTHING

  /** `parse` returns the properties. It is called at most once. */
  constructor(parse: () => JsonObject) {
    this.#parse = parse
  }

  get(name: string): unknown {
    const members = this.all()
    return Object.hasOwn(members, name) ? members[name] : undefined
  }

  all(): JsonObject {
    if (this.#parse !== null) {
      this.#members = this.#parse()
      this.#parse = null
    }
    return this.#members
  }

  settle(): void {}
}

/** What paged properties are read from. */
export interface PagedSource {
  readonly directory: Buffer
  /** The JSON of the properties that changed after the pages were written, or null. */
  readonly changesJson: string | null
  /** The deltas (identity/person-changes.ts) that later events appended, or ''. */
  readonly deltas: string
  /** Returns the page with a number. It is valid until the next read. Throws `DamagedRecordError`. */
  readonly readPage: (page: number) => Buffer
  /** Reads all properties from the store, without the cached values. */
  readonly readAll: () => JsonObject
}

/** Properties in pages, together with the changes that came after the pages were written. */
export class PagedProperties implements StoredProperties {
  readonly #source: PagedSource
  /** The values of earlier lookups, by name. */
  readonly #values = new Map<string, unknown>()
  #units = 0
  #changes: JsonObject | null = null
  #deltas: readonly ParsedDelta[] | null = null

  constructor(source: PagedSource) {
    this.#source = source
  }

  /** Returns the value of a property. Throws `DamagedRecordError`. */
  get(name: string): unknown {
    const known = this.#values.get(name)
    if (known !== undefined || this.#values.has(name)) return known
    const value = this.#read(name)
    this.#values.set(name, value)
    return value
  }

  all(): JsonObject {
    return this.#source.readAll()
  }

  settle(): void {
    if (this.#units <= DECISION_VALUES_UNITS_MAX) return
    this.#values.clear()
    this.#units = 0
  }

  #read(name: string): unknown {
    const { changesJson, deltas } = this.#source
    this.#changes ??= changesJson === null ? NOTHING : parseObject(changesJson)
    this.#deltas ??= deltas === '' ? [] : deltas.split('\n').map(parseDelta)
    const isChanged = Object.hasOwn(this.#changes, name)
    let value = isChanged ? this.#changes[name] : this.#paged(name)
    for (const delta of this.#deltas) value = propertyAfter(delta, name, value)
    this.#units += name.length
    return value
  }

  #paged(name: string): unknown {
    const { directory, readPage } = this.#source
    const page = pageOfName(directory, name)
    if (page < 0) return undefined
    const bytes = readPage(page)
    const found = findInPage(bytes, name, isAlone(directory, page))
    if (found === null) return undefined
    const { start, end } = found
    const isContainer = bytes[start] === OPEN_BRACE || bytes[start] === OPEN_BRACKET
    if (isContainer && end - start > COMPARED_BYTES_MAX) return UNREAD_VALUE
    this.#units += end - start
    return JSON.parse(bytes.toString('utf8', start, end)) as unknown
  }
}

/** Parses a text. The cast is right: the store wrote the text, and its checksum matches. */
function parseObject(json: string): JsonObject {
  return JSON.parse(json) as JsonObject
}

const NOTHING: JsonObject = Object.freeze({})
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
