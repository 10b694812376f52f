/**
 * The properties of one person or group. Names come from clients, so they are never keys of an object: automatic
 * properties have a slot in an array, and all others are in a map. Values are JSON. They may be shared with events and
 * are never changed, only replaced.
 *
 * The table knows an upper bound for the size of its JSON. Far from the limit, the bound is a cheap over-estimate. Near
 * the limit, changes are recorded, measured exactly and rolled back if they are too large.
 *
 * The properties of a large person or group stay in the store (`UnreadProperties`). The table then holds only what
 * differs from them, so that a small change costs the same however large the other properties are.
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
 * If the size of a table is known exactly and is larger than this fraction of the limit, every change is measured
 * exactly. A rough bound would soon reach the limit, and then the whole large table would have to be measured again,
 * which costs more.
 */
const EXACT_PART = 1 / 8
const SLOT_PREFIXES: readonly string[] = SLOT_NAMES.map((name) => `${JSON.stringify(name)}:`)

const CHANGE_WORDS = 3
/** The estimated bytes of a table without properties. `SLOTS_MEMORY_BYTES` is the size of its slots. */
const TABLE_MEMORY_BYTES = 400
const SLOTS_MEMORY_BYTES = SLOT_NAMES.length * 8

/** Properties that stay in the store and are read one by one. They do not change while a table uses them. */
export interface UnreadProperties {
  /** The exact bytes of their compact JSON. */
  readonly jsonBytes: number
  /** The estimated bytes of memory that these properties take, including everything that they may cache. */
  readonly memoryBytes: number
  has(name: string): boolean
  /** Returns the value of a name, or undefined. */
  get(name: string): unknown
  /** Returns whether a name has this value. If the stored value has another size, it is not read. */
  isSame(name: string, value: unknown): boolean
  /** Returns the bytes of `"name":value,` in the JSON, or 0. */
  memberBytes(name: string): number
  /** Reads all properties. */
  all(): JsonObject
}

/** Stands for a value that is not read, because only its size is needed. */
const UNREAD = Symbol('unread')

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
  /** The estimated bytes of memory of all names and values. */
  #memoryBytes = 0
  #changes: Change[] | null = null
  /** The slots that were written since `forgetChanges`, as bits. Each number of the list has the bits of 31 slots. */
  readonly #changedSlots: number[] = [0, 0, 0]
  #changedOthers: Set<string> | null = null
  #hasRemoved = false
  /**
   * The unread properties. A value in the table takes precedence over an unread value. Null if the table holds all
   * properties.
   */
  #unread: UnreadProperties | null = null
  /** The names of unread properties that were removed. */
  #removed: Set<string> | null = null

  /**
   * Creates the table of the properties in `members`. A caller that knows the number of bytes of their compact JSON, as
   * `toJson` returns it, passes it as `jsonBytes`, so that the table need not measure it.
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

  /** Creates a table whose properties are all still in the store. */
  static over(unread: UnreadProperties): PropertyTable {
    const table = new PropertyTable()
    table.layOver(unread)
    return table
  }

  /** Replaces the contents of the table by properties that are all still in the store. */
  layOver(unread: UnreadProperties): void {
    this.#slots = null
    this.#others.clear()
    this.#memoryBytes = 0
    this.#removed = null
    this.#unread = unread
    this.setJsonBytes(unread.jsonBytes)
    this.forgetChanges()
  }

  /** The properties that are still in the store and were not read. Null if the table holds all properties. */
  get unread(): UnreadProperties | null {
    return this.#unread
  }

  /** Reads all properties from the store. Call it before the store writes other properties under the same key. */
  readAll(): void {
    const unread = this.#unread
    if (unread === null) return
    const members = unread.all()
    for (const name in members) {
      if (!Object.hasOwn(members, name)) continue
      if (this.#isUnchanged(name)) this.#load(name, members[name])
    }
    this.#unread = null
    this.#removed = null
  }

  /**
   * Returns what differs from the unread properties: the JSON of the value for each name, or null for a name that was
   * removed.
   */
  differences(): ReadonlyMap<string, string | null> {
    const found = new Map<string, string | null>()
    for (const name of this.#removed ?? []) found.set(name, null)
    for (const [name, value] of this.#ownEntries()) found.set(name, jsonOf(value))
    return found
  }

  /** Returns the value of a name, or undefined if the table does not have it. */
  get(name: string): unknown {
    const own = this.#own(name, SLOT_OF.get(name))
    return own === undefined && this.#isBelow(name) ? this.#unread?.get(name) : own
  }

  /** Returns whether the table has a name. */
  has(name: string): boolean {
    if (this.#own(name, SLOT_OF.get(name)) !== undefined) return true
    return this.#isBelow(name) && this.#unread?.has(name) === true
  }

  #own(name: string, slot: number | undefined): unknown {
    return slot === undefined ? this.#others.get(name) : this.#slots?.[slot]
  }

  /**
   * Returns whether a name may be among the unread properties. Call it only for a name that the table itself does not
   * have.
   */
  #isBelow(name: string): boolean {
    return this.#unread !== null && this.#removed?.has(name) !== true
  }

  /**
   * Returns `UNREAD` if a name is among the unread properties. Call it only for a name that the table itself does not
   * have.
   */
  #below(name: string): symbol | undefined {
    return this.#isBelow(name) && this.#unread?.has(name) === true ? UNREAD : undefined
  }

  /** Sets a name, unless it already has the same value by deep comparison. Returns true if that changed something. */
  set(name: string, value: unknown): boolean {
    const slot = SLOT_OF.get(name)
    let before = this.#own(name, slot)
    if (before === undefined && this.#isBelow(name)) {
      if (this.#unread?.isSame(name, value) === true) return false
      before = this.#below(name)
    } else if (before === value || (typeof value === 'object' && isSameJson(before, value))) {
      return false
    }
    this.#record(name, before, value)
    this.#write(name, slot, value)
    return true
  }

  /**
   * Sets a property that the table does not have. A value of null, false, 0 or "" counts as having it. Returns true if
   * it was set.
   */
  setOnce(name: string, value: unknown): boolean {
    const slot = SLOT_OF.get(name)
    if (this.#own(name, slot) !== undefined || this.#below(name) !== undefined) return false
    this.#record(name, undefined, value)
    this.#write(name, slot, value)
    return true
  }

  /**
   * Removes a property. Returns true if the table had it. While changes are recorded, make all other changes first, and
   * remove each property at most once.
   */
  remove(name: string): boolean {
    const own = this.#own(name, SLOT_OF.get(name))
    const before = own === undefined ? this.#below(name) : own
    if (before === undefined) return false
    if (this.#changes === null) this.#erase(name)
    else this.#record(name, before, undefined)
    return true
  }

  /**
   * Sets the values that are copied automatically from the properties of an event. Names that the `set` or `setOnce` of
   * the same event contains are left out. Returns true if something changed. It runs for every event, allocates
   * nothing, and takes about 0.5 us for 20 automatic properties.
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
      // `Object.prototype` has none of these names, so `set` and `setOnce` inherit no value for them.
      const isLatest = set === undefined || set[SLOT_NAMES[slot] ?? ''] === undefined
      if (isLatest && this.#setLatest(slots, slot, value)) isChanged = true
      const isFirst = setOnce === undefined || setOnce[SLOT_NAMES[slot + 1] ?? ''] === undefined
      if (isFirst && this.#setFirst(slots, slot + 1, value)) isChanged = true
    }
    return isChanged
  }

  #setLatest(slots: unknown[], slot: number, value: unknown): boolean {
    const before = slots[slot]
    if (before === undefined && this.#unread !== null)
      return this.set(SLOT_NAMES[slot] ?? '', value)
    if (before === value || (typeof value === 'object' && isSameJson(before, value))) return false
    if (this.#changes !== null) this.#record(SLOT_NAMES[slot] ?? '', before, value)
    this.#memoryBytes += valueMemoryBytes(value) - valueMemoryBytes(before)
    slots[slot] = value
    this.#noteSlot(slot)
    return true
  }

  #setFirst(slots: unknown[], slot: number, value: unknown): boolean {
    if (slots[slot] !== undefined) return false
    if (this.#unread !== null) return this.setOnce(SLOT_NAMES[slot] ?? '', value)
    if (this.#changes !== null) this.#record(SLOT_NAMES[slot] ?? '', undefined, value)
    this.#memoryBytes += valueMemoryBytes(value)
    slots[slot] = value
    this.#noteSlot(slot)
    return true
  }

  /**
   * Returns the values that `setAutomatic` would set, as a list in which slots and values alternate. It takes about 0.5
   * us for 20 automatic properties.
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

  /** Sets automatic values like `setAutomatic`, but from a list of slots and values. */
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

  /**
   * Returns true if this table has every name of another table. Returns false if either table has unread properties,
   * because their names would have to be read. The cost grows only with the smaller of the two tables.
   */
  hasNamesOf(other: PropertyTable): boolean {
    if (this.#unread !== null || other.#unread !== null) return false
    if (other.#others.size > this.#others.size) return false
    const [ours, theirs] = [this.#slots, other.#slots]
    if (theirs !== null) {
      for (let slot = 0; slot < theirs.length; slot++) {
        if (theirs[slot] !== undefined && ours?.[slot] === undefined) return false
      }
    }
    for (const name of other.#others.keys()) if (!this.#others.has(name)) return false
    return true
  }

  /** Adds the properties of `weaker` that this table does not have. */
  addMissing(weaker: PropertyTable): void {
    weaker.readAll()
    const theirs = weaker.#slots
    if (theirs !== null) {
      const ours = this.#slots ?? this.#makeSlots()
      for (let slot = 0; slot < theirs.length; slot++) {
        const value = theirs[slot]
        if (value !== undefined) this.#setFirst(ours, slot, value)
      }
    }
    for (const [name, value] of weaker.#others) this.setOnce(name, value)
  }

  /**
   * Sets all properties of `stronger` in this table. The result has the same properties as `stronger.addMissing(this)`,
   * so a caller can choose the call that changes fewer properties.
   */
  overlay(stronger: PropertyTable): void {
    stronger.readAll()
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

  /**
   * Yields every name with its value: first the properties in the store, which are read but not added to the table,
   * then the automatic properties, then the others in the order of their insertion.
   */
  *entries(): Generator<[string, unknown]> {
    const members = this.#unread?.all() ?? {}
    for (const name in members) {
      if (Object.hasOwn(members, name) && this.#isUnchanged(name)) yield [name, members[name]]
    }
    yield* this.#ownEntries()
  }

  /**
   * Returns whether the value of a name in the store is still valid: it was neither replaced in the table nor removed.
   */
  #isUnchanged(name: string): boolean {
    const isOwn = this.#own(name, SLOT_OF.get(name)) !== undefined
    return !isOwn && this.#removed?.has(name) !== true
  }

  *#ownEntries(): Generator<[string, unknown]> {
    const slots = this.#slots
    if (slots !== null) {
      for (const [slot, name] of SLOT_NAMES.entries()) {
        const value = slots[slot]
        if (value !== undefined) yield [name, value]
      }
    }
    yield* this.#others
  }

  /**
   * Returns a new object. It has no prototype, so that a name such as `__proto__`, which a client may send, is
   * harmless.
   */
  toObject(): Record<string, unknown> {
    const members = Object.create(null) as Record<string, unknown>
    for (const [name, value] of this.entries()) members[name] = value
    return members
  }

  /**
   * Returns the compact JSON text. It takes about 3 us for 40 properties. The order of the names is not significant,
   * because `JSON.parse` moves names that are integers to the front.
   */
  toJson(): string {
    this.readAll()
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

  /** True if nothing was written since `forgetChanges`. */
  get isUnchanged(): boolean {
    if (this.#hasRemoved || this.#changedOthers !== null) return false
    return this.#changedSlots.every((word) => word === 0)
  }

  /**
   * Applies changes that a store keeps separately from the properties that they change. `isUnchanged` and `changesJson`
   * treat them like changes made since `forgetChanges`. `jsonBytes` is the number of bytes of their JSON.
   */
  addChanges(members: JsonObject, jsonBytes: number): void {
    for (const name in members) {
      if (Object.hasOwn(members, name)) this.#write(name, SLOT_OF.get(name), members[name])
    }
    this.addBytes(jsonBytes)
  }

  /** The estimated bytes of memory that the table takes. Reading this member is cheap. */
  get memoryBytes(): number {
    const slots = this.#slots === null ? 0 : SLOTS_MEMORY_BYTES
    const unread = this.#unread === null ? 0 : this.#unread.memoryBytes
    return TABLE_MEMORY_BYTES + slots + unread + this.#memoryBytes
  }

  /** An upper bound for the bytes of the table's JSON. */
  get jsonBytesBound(): number {
    return this.#bytes
  }

  /** Sets the exact number of bytes of the JSON, for a caller that has just written the JSON. */
  setJsonBytes(bytes: number): void {
    this.#bytes = bytes
    this.#isExact = true
  }

  /**
   * Returns whether the JSON is certain to stay within the limit if it grows by `bytes`. If so, the caller need not
   * measure the change. A limit of 0 means no limit.
   */
  hasRoom(bytes: number, bytesMax: number): boolean {
    if (bytesMax === 0) return true
    if (this.#isExact && this.#bytes > bytesMax * EXACT_PART) return false
    return this.#bytes + bytes <= bytesMax
  }

  /** Adds `bytes` to the upper bound. Call it after `hasRoom` was true and the changes were made. */
  addBytes(bytes: number): void {
    this.#bytes += bytes
    this.#isExact = false
  }

  /**
   * Starts recording changes, until `finishChanges` is called. Properties may be removed only while changes are
   * recorded.
   */
  recordChanges(): void {
    if (!this.#isExact) this.#measure()
    this.#changes = []
  }

  /**
   * Ends the recording. If the changes made the JSON larger than `bytesMax` bytes, they are rolled back and the result
   * is false. Changes that make a table smaller are always kept. The cost is linear in the JSON of the changes.
   */
  finishChanges(bytesMax: number): boolean {
    const changes = this.#changes ?? []
    this.#changes = null
    let growth = 0
    for (const { name, before, after } of changes) {
      const bytesBefore =
        before === UNREAD ? (this.#unread?.memberBytes(name) ?? 0) : memberBytes(name, before)
      growth += memberBytes(name, after) - bytesBefore
    }
    // `memberBytes` counts a comma for each member, but the first member of an object has none. If the table is empty,
    // its size is therefore taken as one byte less.
    const base = this.#bytes === EMPTY_JSON_BYTES ? EMPTY_JSON_BYTES - 1 : this.#bytes
    const sum = base + growth
    const bytes = sum < EMPTY_JSON_BYTES ? EMPTY_JSON_BYTES : sum
    if (bytes > bytesMax && growth > 0) {
      // Removed names are erased only below, after this check, so they still have their position in the order of names.
      // Undoing the changes in reverse order therefore restores the previous order.
      for (const { name, before } of changes.reverse()) {
        if (before === undefined) this.#erase(name)
        else if (before === UNREAD) this.#discard(name)
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

  /** Sets a property that the table does not have yet, without noting it as a change. */
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
    this.#removed?.delete(name)
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
    if (this.#below(name) !== undefined) {
      this.#removed ??= new Set()
      this.#removed.add(name)
    }
    this.#forget(name, SLOT_OF.get(name))
  }

  /** Removes the table's own value of a name. The unread value of the name is then valid again. */
  #discard(name: string): void {
    const slot = SLOT_OF.get(name)
    this.#forget(name, slot)
    if (slot === undefined) this.#changedOthers?.delete(name)
    else {
      const word = Math.floor(slot / 31)
      this.#changedSlots[word] = (this.#changedSlots[word] ?? 0) & ~(1 << (slot % 31))
    }
  }

  #forget(name: string, slot: number | undefined): void {
    const before = this.#own(name, slot)
    if (before === undefined) return
    this.#memoryBytes -= valueMemoryBytes(before)
    if (slot === undefined) {
      this.#memoryBytes -= nameMemoryBytes(name)
      this.#others.delete(name)
    } else if (this.#slots !== null) this.#slots[slot] = undefined
  }

  #makeSlots(): unknown[] {
    // The array is filled, because V8 is slower with arrays that have holes.
    const slots = new Array<unknown>(SLOT_NAMES.length).fill(undefined)
    this.#slots = slots
    return slots
  }

  #measure(): void {
    const unread = this.#unread
    if (unread === null) {
      this.setJsonBytes(Buffer.byteLength(this.toJson()))
      return
    }
    let bytes = unread.jsonBytes
    for (const name of this.#removed ?? []) bytes -= unread.memberBytes(name)
    for (const [name, value] of this.#ownEntries()) {
      bytes += memberBytes(name, value) - unread.memberBytes(name)
    }
    this.setJsonBytes(bytes)
  }
}

/**
 * Returns the slot of an event's property, or -1 if it has none. The slot is cached by the position of the property,
 * because events mostly have their keys in the same order, and comparing a key is faster than looking it up.
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

/**
 * Returns the number of bytes that a member adds to the JSON, including a comma. It is 0 if the property does not
 * exist.
 */
function memberBytes(name: string, value: unknown): number {
  if (value === undefined) return 0
  return Buffer.byteLength(JSON.stringify(name)) + Buffer.byteLength(JSON.stringify(value)) + 2
}

/**
 * Returns whether a property of the event is not copied to the person. Such a property describes the system of a
 * server, or is the older name of `$os` while the newer name is present.
 */
function isHidden(key: string, event: JsonObject): boolean {
  return event['$is_server'] === true || (key === '$os_name' && event['$os'] !== undefined)
}
