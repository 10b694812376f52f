/**
 * The properties of one person or group. Names come from clients, so they are never keys of an object: automatic
 * properties have a slot in an array, and all others are in a map. Values are JSON. They may be shared with events and
 * are never changed, only replaced.
 *
 * The table knows an upper bound for the size of its JSON. Far from the limit, the bound is a cheap over-estimate. Near
 * the limit, changes are recorded, measured exactly and rolled back if they are too large.
 */
import { isSameJson, type JsonObject } from '../../base/json.ts'
import {
  type AutomaticValues,
  EVENT_SLOT_OF,
  isSystemSlot,
  SLOT_NAMES,
  SLOT_OF,
} from './automatic-properties.ts'
import { TABLE_NAME_UNITS_MAX, TABLE_NAMES_MAX, TABLE_SEEN_KEYS_MAX } from './limits.ts'
import { nameMemoryBytes, valueMemoryBytes } from './property-memory.ts'

const EMPTY_JSON_BYTES = 2
/**
 * Tables that are larger than this part of the limit are always measured exactly, because measuring them again would
 * cost more.
 */
const EXACT_PART = 1 / 8
const SLOT_PREFIXES: readonly string[] = SLOT_NAMES.map((name) => `${JSON.stringify(name)}:`)

const CHANGE_WORDS = 3
/** The memory of a table without properties, followed by the memory of its slots. */
const TABLE_MEMORY_BYTES = 400
const SLOTS_MEMORY_BYTES = SLOT_NAMES.length * 8

interface Change {
  readonly name: string
  /** The value before the change. Undefined if the name was new. */
  readonly before: unknown
  /** The value after the change. Undefined if the name was removed. */
  readonly after: unknown
}

/** The property names and values of one person or group. It takes about 0.8 KiB if it has automatic properties. */
export class PropertyTable {
  #slots: unknown[] | null = null
  readonly #others = new Map<string, unknown>()
  /** An upper bound for the bytes of the table's JSON. It is exact if `#isExact` is true. */
  #bytes = EMPTY_JSON_BYTES
  #isExact = true
  /** The estimated memory of the names and values. */
  #memoryBytes = 0
  #changes: Change[] | null = null
  /** The slots that were written since `forgetChanges`, 31 bits a word. */
  readonly #changedSlots: number[] = [0, 0, 0]
  #changedOthers: Set<string> | null = null
  #hasRemoved = false

  /**
   * Creates the table whose JSON object is `members`. `jsonBytes` is the number of bytes of its compact JSON, as
   * `toJson` returns it, if it is known. A store that has the text knows it without measuring.
   */
  static from(members: JsonObject, jsonBytes?: number): PropertyTable {
    const table = new PropertyTable()
    for (const name in members) {
      if (Object.hasOwn(members, name)) table.#load(name, members[name])
    }
    if (jsonBytes === undefined) table.#measure()
    else table.setJsonBytes(jsonBytes)
    return table
  }

  /** Returns the value of a name, or undefined if the table does not have it. */
  get(name: string): unknown {
    const slot = SLOT_OF.get(name)
    return slot === undefined ? this.#others.get(name) : this.#slots?.[slot]
  }

  /** Sets a name, unless it already has the same value by deep comparison. Returns true if that changed something. */
  set(name: string, value: unknown): boolean {
    const slot = SLOT_OF.get(name)
    const before = slot === undefined ? this.#others.get(name) : this.#slots?.[slot]
    if (before === value || (typeof value === 'object' && isSameJson(before, value))) return false
    this.#record(name, before, value)
    this.#write(name, slot, value)
    return true
  }

  /** Sets a name that the table does not have. null, false, 0 and "" count as values. Returns true if it was set. */
  setOnce(name: string, value: unknown): boolean {
    const slot = SLOT_OF.get(name)
    const before = slot === undefined ? this.#others.get(name) : this.#slots?.[slot]
    if (before !== undefined) return false
    this.#record(name, undefined, value)
    this.#write(name, slot, value)
    return true
  }

  /**
   * Removes a name. Returns true if the table had it. While changes are recorded, each name may be removed only once,
   * and only at the end.
   */
  remove(name: string): boolean {
    const before = this.get(name)
    if (before === undefined) return false
    if (this.#changes === null) this.#erase(name)
    else this.#record(name, before, undefined)
    return true
  }

  /**
   * Sets the values that follow from automatically copied event properties, except for names that `set` and `setOnce`
   * of the same event contain. Returns true if something changed. It runs for every event: about 0.5 us for 20
   * automatic properties, without allocation.
   */
  setAutomatic(
    event: JsonObject,
    set: JsonObject | undefined,
    setOnce: JsonObject | undefined,
  ): boolean {
    let isChanged = false
    let position = -1
    for (const key in event) {
      position++
      const slot = seenKeys[position] === key ? seenSlots[position] : eventSlotAt(position, key)
      if (slot === undefined || slot < 0 || (isSystemSlot(slot) && isHidden(key, event))) continue
      const value = event[key]
      if (value === undefined) continue
      const slots = this.#slots ?? this.#makeSlots()
      // None of these names is inherited, so reading a name tells whether the object has it.
      const isLatest = set === undefined || set[SLOT_NAMES[slot] ?? ''] === undefined
      if (isLatest && this.#setLatest(slots, slot, value)) isChanged = true
      const isFirst = setOnce === undefined || setOnce[SLOT_NAMES[slot + 1] ?? ''] === undefined
      if (isFirst && this.#setFirst(slots, slot + 1, value)) isChanged = true
    }
    return isChanged
  }

  #setLatest(slots: unknown[], slot: number, value: unknown): boolean {
    const before = slots[slot]
    if (before === value || (typeof value === 'object' && isSameJson(before, value))) return false
    if (this.#changes !== null) this.#record(SLOT_NAMES[slot] ?? '', before, value)
    this.#memoryBytes += valueMemoryBytes(value) - valueMemoryBytes(before)
    slots[slot] = value
    this.#noteSlot(slot)
    return true
  }

  #setFirst(slots: unknown[], slot: number, value: unknown): boolean {
    if (slots[slot] !== undefined) return false
    if (this.#changes !== null) this.#record(SLOT_NAMES[slot] ?? '', undefined, value)
    this.#memoryBytes += valueMemoryBytes(value)
    slots[slot] = value
    this.#noteSlot(slot)
    return true
  }

  /**
   * Returns the values that `setAutomatic` of a table would set, as alternating slots and values. 20 automatic
   * properties take about 0.5 us.
   */
  static automaticOf(event: JsonObject): unknown[] {
    const found: unknown[] = []
    let position = -1
    for (const key in event) {
      position++
      const slot = seenKeys[position] === key ? seenSlots[position] : eventSlotAt(position, key)
      if (slot === undefined || slot < 0 || (isSystemSlot(slot) && isHidden(key, event))) continue
      if (event[key] !== undefined) found.push(slot, event[key])
    }
    return found
  }

  /** Does the same as `setAutomatic`, by slots. */
  setSlots(
    { count, slots: given, values }: AutomaticValues,
    set: JsonObject | undefined,
    setOnce: JsonObject | undefined,
  ): boolean {
    if (count === 0) return false
    const slots = this.#slots ?? this.#makeSlots()
    let isChanged = false
    for (let index = 0; index < count; index++) {
      const slot = given[index] ?? 0
      const value = values[index]
      const isLatest = set === undefined || set[SLOT_NAMES[slot] ?? ''] === undefined
      if (isLatest && this.#setLatest(slots, slot, value)) isChanged = true
      const isFirst = setOnce === undefined || setOnce[SLOT_NAMES[slot + 1] ?? ''] === undefined
      if (isFirst && this.#setFirst(slots, slot + 1, value)) isChanged = true
    }
    return isChanged
  }

  /** Adds the properties of `weaker` that this table does not have. */
  addMissing(weaker: PropertyTable): void {
    const theirs = weaker.#slots
    if (theirs !== null) {
      const ours = this.#slots ?? this.#makeSlots()
      for (let slot = 0; slot < theirs.length; slot++) {
        const value = theirs[slot]
        if (value === undefined || ours[slot] !== undefined) continue
        if (this.#changes !== null) this.#record(SLOT_NAMES[slot] ?? '', undefined, value)
        this.#memoryBytes += valueMemoryBytes(value)
        ours[slot] = value
        this.#noteSlot(slot)
      }
    }
    for (const [name, value] of weaker.#others) this.setOnce(name, value)
  }

  /** Sets all properties of `stronger`. The result has the same properties as `stronger.addMissing(this)`. */
  overlay(stronger: PropertyTable): void {
    const theirs = stronger.#slots
    if (theirs !== null) {
      const ours = this.#slots ?? this.#makeSlots()
      for (let slot = 0; slot < theirs.length; slot++) {
        const value = theirs[slot]
        if (value !== undefined) this.#setLatest(ours, slot, value)
      }
    }
    for (const [name, value] of stronger.#others) this.set(name, value)
  }

  /** Yields every name with its value: first the automatic ones, then the others in the order of their insertion. */
  *entries(): Generator<[string, unknown]> {
    const slots = this.#slots
    if (slots !== null) {
      for (const [slot, name] of SLOT_NAMES.entries()) {
        const value = slots[slot]
        if (value !== undefined) yield [name, value]
      }
    }
    yield* this.#others
  }

  /** Returns a new object without a prototype, so that no name that a client chose can do harm. */
  toObject(): Record<string, unknown> {
    const members = Object.create(null) as Record<string, unknown>
    for (const [name, value] of this.entries()) members[name] = value
    return members
  }

  /**
   * Returns the compact JSON text. 40 properties take about 3 us. The order of the names is not part of the state:
   * names that are integers come first after the text is parsed.
   */
  toJson(): string {
    let text = ''
    const slots = this.#slots
    if (slots !== null) {
      for (let slot = 0; slot < slots.length; slot++) {
        const value = slots[slot]
        if (value !== undefined) text += `,${SLOT_PREFIXES[slot]}${jsonOf(value)}`
      }
    }
    for (const [name, value] of this.#others) {
      text += `,${namePrefix(name)}${jsonOf(value)}`
    }
    return `{${text.slice(1)}}`
  }

  /**
   * Returns the compact JSON of the values that were written since `forgetChanges`. Returns null if something was
   * removed, or if a name is unsafe as a key of a plain object.
   */
  changesJson(): string | null {
    if (this.#hasRemoved) return null
    let text = ''
    const slots = this.#slots
    if (slots !== null) {
      for (let word = 0; word < CHANGE_WORDS; word++) {
        let bits = this.#changedSlots[word] ?? 0
        while (bits !== 0) {
          const slot = word * 31 + 31 - Math.clz32(bits & -bits)
          bits &= bits - 1
          text += `,${SLOT_PREFIXES[slot]}${jsonOf(slots[slot])}`
        }
      }
    }
    const others = this.#changedOthers
    if (others !== null) {
      if (others.has('__proto__')) return null
      for (const name of others) {
        text += `,${namePrefix(name)}${jsonOf(this.#others.get(name))}`
      }
    }
    return `{${text.slice(1)}}`
  }

  /** Starts a new list of changes. */
  forgetChanges(): void {
    this.#changedSlots.fill(0)
    this.#changedOthers = null
    this.#hasRemoved = false
  }

  /** Whether nothing was written since `forgetChanges`. */
  get isUnchanged(): boolean {
    if (this.#hasRemoved || this.#changedOthers !== null) return false
    return this.#changedSlots.every((word) => word === 0)
  }

  /** Sets members that were written earlier and stored separately. They count as changes of `jsonBytes` bytes. */
  addChanges(members: JsonObject, jsonBytes: number): void {
    for (const name in members) {
      if (Object.hasOwn(members, name)) this.#write(name, SLOT_OF.get(name), members[name])
    }
    this.addBytes(jsonBytes)
  }

  /** The estimated bytes of memory that the table takes. Reading it costs nothing. */
  get memoryBytes(): number {
    const slots = this.#slots === null ? 0 : SLOTS_MEMORY_BYTES
    return TABLE_MEMORY_BYTES + slots + this.#memoryBytes
  }

  /** An upper bound for the bytes of the table's JSON. */
  get jsonBytesBound(): number {
    return this.#bytes
  }

  /** Sets the exact number of bytes of the JSON. A caller that has just written the JSON knows it. */
  setJsonBytes(bytes: number): void {
    this.#bytes = bytes
    this.#isExact = true
  }

  /**
   * Returns whether `bytes` more are certain to stay within the limit, so that nothing must be measured. A limit of 0
   * means no limit.
   */
  hasRoom(bytes: number, bytesMax: number): boolean {
    if (bytesMax === 0) return true
    if (this.#isExact && this.#bytes > bytesMax * EXACT_PART) return false
    return this.#bytes + bytes <= bytesMax
  }

  /** Counts the changes that were made since the call of `hasRoom`: at most `bytes` more. */
  addBytes(bytes: number): void {
    this.#bytes += bytes
    this.#isExact = false
  }

  /** Starts recording changes until `finishChanges`. Removals take effect only then. */
  recordChanges(): void {
    if (!this.#isExact) this.#measure()
    this.#changes = []
  }

  /**
   * Ends the recording. If the changes made the JSON larger than `bytesMax` bytes, they are rolled back and the result
   * is false. Changes that make a table smaller are always kept. The cost is that of the JSON of the changes.
   */
  finishChanges(bytesMax: number): boolean {
    const changes = this.#changes ?? []
    this.#changes = null
    let growth = 0
    for (const { name, before, after } of changes) {
      growth += memberBytes(name, after) - memberBytes(name, before)
    }
    // An empty object has no trailing comma to account for.
    const base = this.#bytes === EMPTY_JSON_BYTES ? EMPTY_JSON_BYTES - 1 : this.#bytes
    const sum = base + growth
    const bytes = sum < EMPTY_JSON_BYTES ? EMPTY_JSON_BYTES : sum
    if (bytes > bytesMax && growth > 0) {
      // Nothing was removed yet, so the names are in their old order after this loop.
      for (const { name, before } of changes.reverse()) {
        if (before === undefined) this.#erase(name)
        else this.#write(name, SLOT_OF.get(name), before)
      }
      return false
    }
    for (const { name, after } of changes) if (after === undefined) this.#erase(name)
    this.#bytes = bytes
    return true
  }

  #record(name: string, before: unknown, after: unknown): void {
    this.#changes?.push({ name, before, after })
  }

  #noteSlot(slot: number): void {
    const word = Math.floor(slot / 31)
    this.#changedSlots[word] = (this.#changedSlots[word] ?? 0) | (1 << (slot % 31))
  }

  #noteChange(name: string, slot: number | undefined): void {
    if (slot === undefined) {
      this.#changedOthers ??= new Set()
      this.#changedOthers.add(name)
    } else this.#noteSlot(slot)
  }

  /** Sets a name that the table does not have, without counting it as a change. */
  #load(name: string, value: unknown): void {
    this.#memoryBytes += valueMemoryBytes(value)
    const slot = SLOT_OF.get(name)
    if (slot === undefined) {
      this.#memoryBytes += nameMemoryBytes(name)
      this.#others.set(name, value)
    } else (this.#slots ?? this.#makeSlots())[slot] = value
  }

  #write(name: string, slot: number | undefined, value: unknown): void {
    this.#noteChange(name, slot)
    if (slot === undefined) {
      const before = this.#others.get(name)
      if (before === undefined) this.#memoryBytes += nameMemoryBytes(name)
      this.#memoryBytes += valueMemoryBytes(value) - valueMemoryBytes(before)
      this.#others.set(name, value)
      return
    }
    const slots = this.#slots ?? this.#makeSlots()
    this.#memoryBytes += valueMemoryBytes(value) - valueMemoryBytes(slots[slot])
    slots[slot] = value
  }

  #erase(name: string): void {
    this.#hasRemoved = true
    const before = this.get(name)
    if (before === undefined) return
    this.#memoryBytes -= valueMemoryBytes(before)
    const slot = SLOT_OF.get(name)
    if (slot === undefined) {
      this.#memoryBytes -= nameMemoryBytes(name)
      this.#others.delete(name)
    } else if (this.#slots !== null) this.#slots[slot] = undefined
  }

  #makeSlots(): unknown[] {
    // The array is filled, because arrays with holes are slower.
    const slots = new Array<unknown>(SLOT_NAMES.length).fill(undefined)
    this.#slots = slots
    return slots
  }

  #measure(): void {
    this.setJsonBytes(Buffer.byteLength(this.toJson()))
  }
}

/**
 * Returns the slot of an event's property, or -1 if it has none, and caches it by position. Events usually repeat the
 * order of their keys, and comparing a key is cheaper than looking it up.
 */
function eventSlotAt(position: number, key: string): number {
  const slot = EVENT_SLOT_OF.get(key) ?? -1
  if (position < TABLE_SEEN_KEYS_MAX && key.length <= TABLE_NAME_UNITS_MAX) {
    seenKeys[position] = key
    seenSlots[position] = slot
  }
  return slot
}

const seenKeys: string[] = new Array<string>(TABLE_SEEN_KEYS_MAX).fill('')
const seenSlots: number[] = new Array<number>(TABLE_SEEN_KEYS_MAX).fill(-1)

const namePrefixes = new Map<string, string>()

/** Returns `"name":`, and caches it for names that may occur again. */
function namePrefix(name: string): string {
  const known = namePrefixes.get(name)
  if (known !== undefined) return known
  const prefix = `${JSON.stringify(name)}:`
  if (name.length <= TABLE_NAME_UNITS_MAX) {
    if (namePrefixes.size >= TABLE_NAMES_MAX) namePrefixes.clear()
    namePrefixes.set(name, prefix)
  }
  return prefix
}

/** Returns the compact JSON of a value. Calling JSON.stringify costs more than writing a number directly. */
function jsonOf(value: unknown): string {
  if (typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value))) {
    return String(value)
  }
  return JSON.stringify(value)
}

/** Returns the number of bytes of `"name":value,`. It is 0 if the name does not exist. */
function memberBytes(name: string, value: unknown): number {
  if (value === undefined) return 0
  return Buffer.byteLength(JSON.stringify(name)) + Buffer.byteLength(JSON.stringify(value)) + 2
}

/**
 * Returns whether a property is ignored: the system of a server, or the older name of `$os` if the newer name is
 * present.
 */
function isHidden(key: string, event: JsonObject): boolean {
  return event['$is_server'] === true || (key === '$os_name' && event['$os'] !== undefined)
}
