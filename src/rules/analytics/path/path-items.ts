/**
 * Names the events of a path (its items): the URL of a page, the name of a screen, or the name of the event, cleaned
 * and grouped. Each different value is processed once. Source: docs/compatibility/analytics.md, "Paths".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { PatternReplacement } from '../../../base/pattern/pattern-replacement.ts'
import { propertyText } from '../../filters/property-text.ts'
import type { EventColumns, ValueColumn, ValueRequest } from '../event-columns.ts'
import { PATH_CLEANING_UNITS_MAX } from '../limits.ts'
import type { CleaningRule } from './path-shapes.ts'

/** The item of an event that is not part of a path. */
export const NO_ITEM = -1

/** The event whose item is the URL of its page. */
export const PAGEVIEW = '$pageview'
/** The event whose item is the name of its screen. */
export const SCREEN = '$screen'

/** The rules that turn events into items. */
export interface ItemRules {
  /** Returns whether an event of this name takes part. */
  readonly isTaken: (eventName: string) => boolean
  readonly hasPageAddresses: boolean
  readonly hasScreenNames: boolean
  readonly cleaning: readonly PatternReplacement[]
  readonly groupings: readonly string[]
  /** Items whose events are not part of a path. */
  readonly excluded: ReadonlySet<string>
}

/** The values to read from each event, in the order in which `ItemTable` expects the columns. */
export const ITEM_VALUES: readonly ValueRequest[] = [
  { kind: 'event_name' },
  { kind: 'event_property', key: '$current_url' },
  { kind: 'event_property', key: '$screen_name' },
]

/** Compiles the cleaning rules in order. Throws 400 `invalid_input` for an invalid pattern. */
export function compileCleaning(rules: readonly CleaningRule[]): readonly PatternReplacement[] {
  return rules.map(({ regex, alias }) => {
    const replacement = PatternReplacement.compile(regex, alias)
    if (replacement !== null) return replacement
    throw invalidInput(
      'local_path_cleaning_filters',
      'has a regular expression that RE2 does not accept. Correct it, or remove the rule',
    )
  })
}

/** A table that assigns a number to each item. */
export class ItemTable {
  /** The items by number. */
  readonly texts: string[] = []
  readonly #numbers = new Map<string, number>()
  readonly #rules: ItemRules
  #unitsLeft = PATH_CLEANING_UNITS_MAX

  constructor(rules: ItemRules) {
    this.#rules = rules
  }

  /** Returns the number of an item. An item that is not in the table yet is added. */
  numberOf(item: string): number {
    let number = this.#numbers.get(item)
    if (number === undefined) {
      number = this.texts.push(item) - 1
      this.#numbers.set(item, number)
    }
    return number
  }

  /**
   * Returns the number of each event's item, or `NO_ITEM` for an event that is not part of a path. The cost is linear
   * in the events, and in the patterns for each different value. Throws 400 `query_too_large` if the patterns cost too
   * much.
   */
  itemsOf({ count, values }: EventColumns): Int32Array {
    const [names, addresses, screens] = values
    const kinds = names?.values.map((name) => this.#kindOf(String(name ?? ''))) ?? []
    const ofName = names?.values.map((name, id) =>
      kinds[id] === 'name' ? this.#itemOf(String(name ?? '')) : NO_ITEM,
    )
    const ofAddress = kinds.includes('address') ? this.#itemsOfColumn(addresses, pageItem) : []
    const ofScreen = kinds.includes('screen') ? this.#itemsOfColumn(screens, propertyText) : []
    const items = new Int32Array(count)
    for (let row = 0; row < count; row++) {
      const nameId = names?.ids[row] ?? 0
      const kind = kinds[nameId]
      if (kind === 'address') items[row] = ofAddress[addresses?.ids[row] ?? 0] ?? NO_ITEM
      else if (kind === 'screen') items[row] = ofScreen[screens?.ids[row] ?? 0] ?? NO_ITEM
      else items[row] = ofName?.[nameId] ?? NO_ITEM
    }
    return items
  }

  #kindOf(eventName: string): 'address' | 'screen' | 'name' | 'none' {
    if (!this.#rules.isTaken(eventName)) return 'none'
    if (eventName === PAGEVIEW && this.#rules.hasPageAddresses) return 'address'
    return eventName === SCREEN && this.#rules.hasScreenNames ? 'screen' : 'name'
  }

  #itemsOfColumn(
    column: ValueColumn | undefined,
    itemOf: (value: unknown) => string,
  ): readonly number[] {
    return column?.values.map((value) => this.#itemOf(itemOf(value))) ?? []
  }

  #itemOf(raw: string): number {
    let item = raw
    for (const rule of this.#rules.cleaning) {
      this.#unitsLeft -= (item.length + 1) * rule.programSize
      if (this.#unitsLeft < 0) {
        const detail =
          '`local_path_cleaning_filters` would take too long. Choose a shorter range or fewer rules.'
        throw new ServiceError('query_too_large', detail)
      }
      item = rule.replaceAll(item)
    }
    const grouping = this.#rules.groupings.find((pattern) => isGroupedBy(item, pattern))
    if (grouping !== undefined) item = grouping
    return this.#rules.excluded.has(item) ? NO_ITEM : this.numberOf(item)
  }
}

/** Returns a URL without the slash at its end. A URL that is only a slash stays. */
export function pageItem(value: unknown): string {
  const text = propertyText(value)
  return text.length > 1 && text.endsWith('/') ? text.slice(0, -1) : text
}

/**
 * Returns whether an item contains the texts between the `*` of a pattern, in the same order. The pattern `/shop*item`,
 * for example, needs `/shop` and after it `item`.
 */
function isGroupedBy(item: string, pattern: string): boolean {
  let from = 0
  for (const part of pattern.split('*')) {
    const found = item.indexOf(part, from)
    if (found < 0) return false
    from = found + part.length
  }
  return true
}
