/**
 * The paged properties of one group or large person in the processing thread. The pages are not all read when an event
 * changes a few properties: an event reads the pages of the names that it mentions, and a commit writes the pages of the
 * names that changed. The cost of a small change therefore does not depend on the size of the other properties.
 */
import { isSameJson, type JsonObject } from '../../../base/json.ts'
import type { PropertyTable, UnreadProperties } from '../../../rules/persons/property-table.ts'
import type { Table } from '../../lmdb/environment.ts'
import { UNREAD_CACHE_UNITS_MAX } from '../limits.ts'
import {
  changePages,
  decodePage,
  findInPage,
  isAlone,
  isPaged,
  joinPages,
  needPage,
  pageCount,
  pagedJsonBytes,
  pageOfName,
  storeChangedPages,
} from './property-pages.ts'

/** The number of bytes of memory of the object itself, and of each cached UTF-16 code unit. */
const OBJECT_BYTES = 500
const UNIT_BYTES = 2
/** The estimated size of a cached name in addition to its text and its value, in UTF-16 code units. */
const ENTRY_UNITS = 40
/**
 * The largest number of UTF-16 units in a value that is cached. For a longer value, only the fact that it exists is
 * cached.
 */
const VALUE_UNITS = 256
const ABSENT = Symbol('absent')
const LONG = Symbol('long')

/** Where the pages are stored: the table, and the keys in it. */
interface PagePlace {
  readonly table: Table
  /** Returns the key of a page. */
  readonly keyOf: (page: number) => Buffer
}

interface FoundValue {
  /** The bytes of the page. They are valid until the next read. */
  readonly page: Buffer
  readonly start: number
  readonly end: number
}

/** Paged properties of which only the requested ones are read. Changes since the last commit are not included. */
export class UnreadPages implements UnreadProperties {
  readonly #place: PagePlace
  readonly #directory: Buffer
  /**
   * The values of earlier lookups, by name. `ABSENT` stands for a name that has no value, and `LONG` for a value that
   * is too long to be cached.
   */
  readonly #known = new Map<string, unknown>()
  #units = 0
  readonly #read = (page: number): Buffer =>
    decodePage(needPage(this.#place.table, this.#place.keyOf(page)))

  constructor(place: PagePlace, directory: Buffer) {
    this.#place = place
    this.#directory = directory
  }

  get jsonBytes(): number {
    return pagedJsonBytes(this.#directory)
  }

  get memoryBytes(): number {
    return OBJECT_BYTES + this.#directory.length + UNREAD_CACHE_UNITS_MAX * UNIT_BYTES
  }

  /** Returns the value of a property. Throws `DamagedRecordError`. */
  get(name: string): unknown {
    const known = this.#known.get(name)
    if (known === ABSENT) return undefined
    if (known !== undefined && known !== LONG) return known
    const found = this.#find(name)
    if (found === null) {
      this.#keep(name, ABSENT, 0)
      return undefined
    }
    const value = parsedValue(found)
    const units = found.end - found.start
    this.#keep(name, units > VALUE_UNITS ? LONG : value, units)
    return value
  }

  has(name: string): boolean {
    const known = this.#known.get(name)
    if (known !== undefined) return known !== ABSENT
    const found = this.#find(name)
    this.#keepFound(name, found)
    return found !== null
  }

  isSame(name: string, value: unknown): boolean {
    const known = this.#known.get(name)
    if (known === ABSENT) return false
    if (known !== undefined && known !== LONG) return isSameJson(known, value)
    const found = this.#find(name)
    this.#keepFound(name, found)
    if (found === null) return false
    // First compare the lengths of the texts. Equal values have texts of the same length, because they can differ only
    // in the order of their members. So if the lengths differ, the values differ and need not be parsed.
    const isSameLength = found.end - found.start === Buffer.byteLength(JSON.stringify(value))
    return isSameLength && isSameJson(parsedValue(found), value)
  }

  memberBytes(name: string): number {
    if (this.#known.get(name) === ABSENT) return 0
    const found = this.#find(name)
    if (found === null) return 0
    return Buffer.byteLength(JSON.stringify(name)) + found.end - found.start + 2
  }

  all(): JsonObject {
    return JSON.parse(joinPages(this.#directory, this.#read)) as JsonObject
  }

  /**
   * Stores changes of these properties, and returns the new directory of the pages. If the properties have become too
   * small for pages, stores nothing and returns null. Call it only within a write transaction.
   */
  store(changes: ReturnType<PropertyTable['differences']>): Buffer | null {
    const changed = changePages(this.#directory, this.#read, changes)
    if (!isPaged(pagedJsonBytes(changed.directory))) return null
    const { table, keyOf } = this.#place
    storeChangedPages(table, keyOf, changed)
    for (let page = changed.pages.length; page < pageCount(this.#directory); page++) {
      void table.remove(keyOf(page))
    }
    return changed.directory
  }

  #find(name: string): FoundValue | null {
    const page = pageOfName(this.#directory, name)
    if (page < 0) return null
    const bytes = this.#read(page)
    const found = findInPage(bytes, name, isAlone(this.#directory, page))
    return found === null ? null : { page: bytes, start: found.start, end: found.end }
  }

  #keepFound(name: string, found: FoundValue | null): void {
    if (found === null) this.#keep(name, ABSENT, 0)
    else {
      const units = found.end - found.start
      this.#keep(name, units > VALUE_UNITS ? LONG : parsedValue(found), units)
    }
  }

  #keep(name: string, value: unknown, valueUnits: number): void {
    const units = ENTRY_UNITS + name.length + (value === LONG ? 0 : valueUnits)
    if (units > UNREAD_CACHE_UNITS_MAX) return
    if (this.#units + units > UNREAD_CACHE_UNITS_MAX) {
      this.#known.clear()
      this.#units = 0
    }
    this.#known.set(name, value)
    this.#units += units
  }
}

function parsedValue({ page, start, end }: FoundValue): unknown {
  return JSON.parse(page.toString('utf8', start, end)) as unknown
}
