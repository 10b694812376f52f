/**
 * How much memory names and values of properties take in a JavaScript heap, estimated. JSON says little about it:
 * `[[],[]]` has 7 bytes as a text and more than 100 in memory. The figures are for V8 on a 64-bit machine, and rather
 * too large than too small.
 */

/** A string beside its characters. */
const STRING_BYTES = 24
/** A character may take two bytes; which strings do is not known. */
const UNIT_BYTES = 2
const NUMBER_BYTES = 16
const ARRAY_BYTES = 48
const ELEMENT_BYTES = 8
const OBJECT_BYTES = 56
/** A member of an object beside its name and value. */
const MEMBER_BYTES = 24
/** An entry of a map beside its name and value. */
const ENTRY_BYTES = 48

/** Memory of a name in a table of properties. */
export function nameMemoryBytes(name: string): number {
  return ENTRY_BYTES + STRING_BYTES + name.length * UNIT_BYTES
}

/** Memory of a JSON value; none for undefined. Cost: linear in the members and elements of the value. */
export function valueMemoryBytes(value: unknown): number {
  if (typeof value === 'string') return STRING_BYTES + value.length * UNIT_BYTES
  if (typeof value === 'number') return NUMBER_BYTES
  return typeof value === 'object' && value !== null ? nestedMemoryBytes(value) : 0
}

function nestedMemoryBytes(value: object): number {
  let bytes = 0
  // A loop, because values may be nested deeper than calls may be.
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
