/**
 * The kinds of values that settings and options have. A kind reads a value from text or from the configuration file,
 * writes it back, and describes the allowed values.
 */

/** Reads and writes the values of one kind. */
export interface ValueKind<Value> {
  /** The name of the kind for tables: `bytes`, `integer`, ... */
  readonly name: string
  /** The allowed values in words for messages, such as `a whole number from 0 to 65535`. */
  readonly allowed: string
  /**
   * Returns the value that a text (from a flag or the environment) or a TOML value stands for. Returns undefined if it
   * is not allowed.
   */
  parse(raw: unknown): Value | undefined
  /** Returns the shortest text that `parse` converts back to the value. */
  format(value: Value): string
}

const BINARY_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const
const DECIMAL_UNITS = ['B', 'KB', 'MB', 'GB', 'TB'] as const
const DURATION_UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}
const TRUE_WORDS = ['true', 'yes', 'on', '1']
const FALSE_WORDS = ['false', 'no', 'off', '0']

/**
 * Parses a size in bytes: `20MiB` (20 × 2^20), `20MB` (20 × 10^6), `512`, or a whole number. Returns undefined for
 * anything else.
 */
export function parseBytes(raw: unknown): number | undefined {
  if (typeof raw === 'number') return Number.isSafeInteger(raw) && raw >= 0 ? raw : undefined
  if (typeof raw !== 'string') return undefined
  const match = /^(\d+(?:\.\d+)?) ?([a-z]*)$/i.exec(raw.trim())
  if (match === null) return undefined
  const unit = (match[2] ?? '').toLowerCase() || 'b'
  const binary = BINARY_UNITS.findIndex((name) => name.toLowerCase() === unit)
  const decimal = DECIMAL_UNITS.findIndex((name) => name.toLowerCase() === unit)
  if (binary < 0 && decimal < 0) return undefined
  const factor = binary >= 0 ? 1024 ** binary : 1000 ** decimal
  const bytes = Math.round(Number(match[1]) * factor)
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** Writes a size in the largest unit that divides it exactly: 20971520 becomes `20MiB`, and 1500 becomes `1500`. */
export function formatBytes(bytes: number): string {
  for (let power = BINARY_UNITS.length - 1; power > 0; power--) {
    if (bytes > 0 && bytes % 1024 ** power === 0)
      return `${bytes / 1024 ** power}${BINARY_UNITS[power]}`
  }
  for (let power = DECIMAL_UNITS.length - 1; power > 0; power--) {
    if (bytes > 0 && bytes % 1000 ** power === 0)
      return `${bytes / 1000 ** power}${DECIMAL_UNITS[power]}`
  }
  return String(bytes)
}

/**
 * Parses a duration such as `500ms`, `30s`, `5m`, `12h` or `90d` to milliseconds. Returns undefined for anything else.
 */
export function parseDuration(raw: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(raw.trim())
  if (match === null) return undefined
  const durationMs = Math.round(Number(match[1]) * (DURATION_UNITS[match[2] ?? ''] ?? Number.NaN))
  return Number.isSafeInteger(durationMs) ? durationMs : undefined
}

/** Returns the kind of texts for which `accepts` returns true. `allowed` says in words which texts these are. */
export function text(allowed: string, accepts: (value: string) => boolean): ValueKind<string> {
  return {
    name: 'string',
    allowed,
    parse: (raw) => (typeof raw === 'string' && accepts(raw) ? raw : undefined),
    format: (value) => value,
  }
}

/** Returns a kind whose value may also be null, which means that the setting is not set. Null is written as ''. */
export function optional<T>(kind: ValueKind<T>): ValueKind<T | null> {
  return { ...kind, format: (value) => (value === null ? '' : kind.format(value)) }
}

/** The number that is stored for `auto`. The daemon then chooses a value for the machine. */
const AUTOMATIC = 0

/** Returns a kind that also allows the word `auto`, which is stored as `AUTOMATIC`. */
export function automatic(kind: ValueKind<number>): ValueKind<number> {
  return {
    ...kind,
    allowed: `auto, or ${kind.allowed}`,
    parse: (raw) => (raw === 'auto' ? AUTOMATIC : kind.parse(raw)),
  }
}

/** Returns the kind of whole numbers from `least` to `most`. */
export function integer(least: number, most: number): ValueKind<number> {
  return {
    name: 'integer',
    allowed: `a whole number from ${least} to ${most}`,
    parse(raw) {
      const isDigits = typeof raw === 'string' && /^\d{1,15}$/.test(raw.trim())
      const value = isDigits ? Number(raw) : raw
      if (typeof value !== 'number' || !Number.isInteger(value)) return undefined
      return value >= least && value <= most ? value : undefined
    },
    format: String,
  }
}

/**
 * Returns the kind of lists of partition numbers, in the order in which they are written. The word `none` is an empty
 * list.
 */
export function partitions(most: number): ValueKind<readonly number[]> {
  const number = integer(0, most)
  const rangeOf = (part: string): readonly number[] => {
    const [, from = part, through = from] = /^(\d+)-(\d+)$/.exec(part) ?? []
    const [first, last] = [number.parse(from), number.parse(through)]
    if (first === undefined || last === undefined) return []
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at)
  }
  return {
    name: 'partitions',
    allowed: `none, or numbers from 0 to ${most} and ranges, each number once, such as 3, 0-7 or 0,3,5-7`,
    parse(raw) {
      if (raw === 'none') return []
      const ranges = String(raw)
        .split(',')
        .map((part) => rangeOf(part.trim()))
      const all = ranges.flat()
      const isWhole = ranges.every((range) => range.length > 0) && new Set(all).size === all.length
      return isWhole ? all : undefined
    },
    format: (value) => (value.length === 0 ? 'none' : value.join(',')),
  }
}

/** Returns the kind of sizes in bytes. With `isZeroAllowed`, 0 is allowed too and switches the limit off. */
export function bytes(
  least: number,
  most: number,
  options: { readonly isZeroAllowed?: boolean } = {},
): ValueKind<number> {
  const isZeroAllowed = options.isZeroAllowed === true
  const range = `from ${formatBytes(least)} to ${formatBytes(most)}`
  return {
    name: 'bytes',
    allowed: `bytes ${range}${isZeroAllowed ? ', or 0 for no limit' : ''}, such as 20MiB, 20MB or 20971520`,
    parse(raw) {
      const value = parseBytes(raw)
      if (value === undefined) return undefined
      return (value >= least && value <= most) || (isZeroAllowed && value === 0) ? value : undefined
    },
    format: formatBytes,
  }
}

/** Returns the kind of values that are one word of a fixed set. */
export function choice<const Word extends string>(words: readonly Word[]): ValueKind<Word> {
  return {
    name: 'enum',
    allowed: `one of ${words.join(', ')}`,
    parse: (raw) => words.find((word) => word === raw),
    format: (value) => value,
  }
}

/** Returns the kind of values that are true or false. */
export function boolean(): ValueKind<boolean> {
  return {
    name: 'boolean',
    allowed: 'true or false (also yes, no, on, off, 1, 0)',
    parse(raw) {
      if (typeof raw === 'boolean') return raw
      const word = typeof raw === 'string' ? raw.trim().toLowerCase() : ''
      if (TRUE_WORDS.includes(word)) return true
      return FALSE_WORDS.includes(word) ? false : undefined
    },
    format: String,
  }
}

/** Returns the kind of lists: texts separated by commas, or an array in the configuration file. */
export function list(
  allowed: string,
  accepts: (item: string) => boolean,
): ValueKind<readonly string[]> {
  return {
    name: 'list',
    allowed,
    parse(raw) {
      const items: unknown = typeof raw === 'string' ? splitList(raw) : raw
      if (!Array.isArray(items)) return undefined
      const texts = items.filter((item): item is string => typeof item === 'string')
      return texts.length === items.length && texts.every(accepts)
        ? Object.freeze(texts)
        : undefined
    },
    format: (value) => value.join(','),
  }
}

/** Splits a text at commas and returns the trimmed items. An empty text has no items. */
export function splitList(raw: string): readonly string[] {
  return raw.trim() === '' ? [] : raw.split(',').map((item) => item.trim())
}

/** Returns true for an http or https URL of a server. The URL must not contain credentials, a query or a fragment. */
export function isBaseUrl(value: string): boolean {
  if (!/^https?:\/\/[^\s?#@]+$/i.test(value)) return false
  return URL.canParse(value)
}
