/**
 * Estimates the memory that names and values of properties take in a JavaScript heap. The length of the JSON says
 * little about it: `[[],[]]` has 7 bytes as text and takes more than 100 in memory. The figures are for V8 on a 64-bit
 * machine and tend to be too large rather than too small.
 */

/** The bytes of a string in addition to its characters. */
const STRING_BYTES = 24
/**
 * The bytes of a character. V8 stores each text with either one or two bytes per character. JavaScript code cannot find
 * out which, so two are counted.
 */
const UNIT_BYTES = 2
const NUMBER_BYTES = 16
const ARRAY_BYTES = 48
const ELEMENT_BYTES = 8
const OBJECT_BYTES = 56
/** The bytes of an object member in addition to its name and value. */
const MEMBER_BYTES = 24
/** The bytes of a map entry in addition to its name and value. */
const ENTRY_BYTES = 48

/** Returns the memory of a name in a table of properties, in bytes. */
export function nameMemoryBytes(name: string): number {
  return ENTRY_BYTES + STRING_BYTES + name.length * UNIT_BYTES
}

/**
 * Returns the memory of a JSON value in bytes. It is 0 for undefined. The cost is linear in the number of members and
 * elements of the value.
 */
export function valueMemoryBytes(value: unknown): number {
  if (typeof value === 'string') return STRING_BYTES + value.length * UNIT_BYTES
  if (typeof value === 'number') return NUMBER_BYTES
  return typeof value === 'object' && value !== null ? nestedMemoryBytes(value) : 0
}

function nestedMemoryBytes(value: object): number {
  let bytes = 0
  // A loop is used instead of recursion, because values may be nested deeper than the call stack allows.
  const waiting: object[] = [value]
  const add = (member: unknown): void => {
    if (typeof member === 'object' && member !== null) waiting.push(member)
    else bytes += valueMemoryBytes(member)
  }
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (Array.isArray(next)) {
      bytes += ARRAY_BYTES + next.length * ELEMENT_BYTES
      for (const element of next) add(element)
      continue
    }
    bytes += OBJECT_BYTES
    const members = next as Readonly<Record<string, unknown>>
    for (const name in members) {
      bytes += MEMBER_BYTES + name.length * UNIT_BYTES
      add(members[name])
    }
  }
  return bytes
}
