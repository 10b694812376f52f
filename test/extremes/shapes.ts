/**
 * Valid bodies at the extremes. A *shape* is a list of parameters, such as the number of events and the number of
 * unique event names. The same shape and seed give the same bytes on the same day, because times count from the
 * beginning of the day.
 */
import { Dice } from '../fixtures/dice.ts'
import { BODY_BYTES_MAX, type Body, packBody } from './bodies.ts'

/** How much of something differs: nothing, a part in each body, a few, or every event from the others. */
const VARIETIES = ['one', 'few', 'body', 'each'] as const
type Variety = (typeof VARIETIES)[number]

const CHOICES = {
  kind: [
    'custom',
    '$pageview',
    '$set',
    '$unset',
    '$identify',
    '$create_alias',
    '$merge_dangerously',
    '$groupidentify',
    '$exception',
    '$autocapture',
    'personless',
    'mixed',
  ],
  names: VARIETIES,
  ids: VARIETIES,
  /** The distinct_ids that merge events combine. */
  merge: ['none', 'hub', 'reverse hub', 'chain', 'reverse chain', 'pairs', 'tree', 'moving hub'],
  propertyNames: VARIETIES,
  value: [
    'number',
    'extreme number',
    'text',
    'unicode',
    'escaped',
    'random text',
    'boolean',
    'null',
    'list',
    'object',
    'empty objects',
    'time',
    'url',
    'mixed',
  ],
  values: VARIETIES,
  where: ['properties', '$set', '$set_once', '$unset', 'all'],
  groupKeys: VARIETIES,
  times: ['none', 'month', 'years', 'minutes', 'one', 'year 1', 'future', 'backwards', 'mixed'],
  sessions: ['none', 'one', 'few', 'each'],
  uuids: ['none', 'each', 'repeated'],
} as const

/** Numeric parameters with their minimum and maximum. Each power of two is drawn with equal chance. */
const RANGES = {
  bodies: [1, 24],
  events: [1, 200_000],
  nameLength: [1, 300],
  idLength: [1, 300],
  properties: [0, 32_000],
  propertyNameLength: [1, 2000],
  valueLength: [0, 500_000],
  depth: [0, 100],
  groups: [0, 7],
} as const

type Chosen = { readonly [Name in keyof typeof CHOICES]: (typeof CHOICES)[Name][number] }
type Ranged = { readonly [Name in keyof typeof RANGES]: number }

export interface Shape extends Chosen, Ranged {
  /** The share of events with the large value. The others have a small one. */
  readonly ownShare: number
}

/** Limits of a shape that must stay small, such as in a test. */
export interface ShapeBounds {
  readonly bodiesMax: number
  readonly eventsMax: number
  readonly propertiesMax: number
  readonly valueLengthMax: number
}

const FULL_BOUNDS: ShapeBounds = {
  bodiesMax: RANGES.bodies[1],
  eventsMax: RANGES.events[1],
  propertiesMax: RANGES.properties[1],
  valueLengthMax: RANGES.valueLength[1],
}

/** The daemon drops an event with more than 1 MiB of properties. */
const EVENT_BYTES_MAX = 1024 ** 2 - 4096
const FEW = 5
const DAY_MS = 86_400_000
const SHARES = [0.01, 0.1, 0.5, 1, 1]
const EXTREME_NUMBERS = [
  '0',
  '-0',
  '1e308',
  '-1e308',
  '5e-324',
  '9007199254740993',
  '-9007199254740993',
  '123456789012345678901234567890',
  '0.1000000000000000055511151231257827',
  '1E-7',
  '1e400',
]
const UNICODE = ['💥', '\u202e', 'ß', 'é', '\\ud800', '\\u0000', 'ﷺ', '人', '\\"', '\u2028']
const STRANGE_NAMES = ['__proto__', 'constructor', '', ' ', 'toString', '$set', '0', '-1', '💥']
const MERGES = ['$identify', '$create_alias', '$merge_dangerously']
const LETTERS = 'abcdefghijklmnopqrstuvwxyz'

/** Draws a shape. */
export function drawShape(dice: Dice, bounds: ShapeBounds = FULL_BOUNDS): Shape {
  const choice = Object.fromEntries(
    Object.entries(CHOICES).map(([name, list]) => [name, dice.pick<string>(list)]),
  )
  const range = Object.fromEntries(
    Object.entries(RANGES).map(([name, [least, most]]) => [name, drawNumber(dice, least, most)]),
  )
  const drawn = { ownShare: dice.pick(SHARES), ...choice, ...range } as unknown as Shape
  return within(drawn, bounds)
}

/** Changes one to three parameters of a shape. */
export function mutateShape(dice: Dice, shape: Shape, bounds: ShapeBounds = FULL_BOUNDS): Shape {
  const other = drawShape(dice, bounds)
  const names = Object.keys(shape) as (keyof Shape)[]
  const changed = new Set(dice.list(dice.between(1, 3), () => dice.pick(names)))
  const entries = names.map((name) => {
    if (!changed.has(name)) return [name, shape[name]]
    const old = shape[name]
    if (typeof old !== 'number' || name === 'ownShare' || dice.chance(0.3))
      return [name, other[name]]
    const [least, most] = RANGES[name as keyof Ranged]
    const next = Math.round(old * dice.pick([0.25, 0.5, 2, 4]))
    return [name, Math.min(most, Math.max(least, next))]
  })
  return within(Object.fromEntries(entries) as unknown as Shape, bounds)
}

/** Takes each parameter from one of two shapes. */
export function crossShapes(dice: Dice, first: Shape, second: Shape): Shape {
  const names = Object.keys(first) as (keyof Shape)[]
  const entries = names.map((name) => [name, dice.chance(0.5) ? first[name] : second[name]])
  return Object.fromEntries(entries) as unknown as Shape
}

/** Reads a shape from text, such as from a report of a violation. Throws if it is invalid. */
export function parseShape(value: unknown): Shape {
  const shape = value as Shape
  for (const [name, list] of Object.entries(CHOICES)) {
    if (!(list as readonly string[]).includes(String(shape[name as keyof Shape]))) {
      throw new Error(`${name} of a shape must be one of ${list.join(', ')}`)
    }
  }
  for (const name of [...Object.keys(RANGES), 'ownShare']) {
    if (typeof shape[name as keyof Shape] !== 'number') {
      throw new Error(`${name} of a shape must be a number`)
    }
  }
  return shape
}

/** The maximum total size of the bodies of a shape. The first one is created in any case. */
export interface BodyBounds {
  readonly wireBytesMax?: number
  /** Before compression. */
  readonly bytesMax?: number
  /** The time around which events are. Defaults to the beginning of this day. */
  readonly now?: number
}

/** Creates the bodies of a shape, as many as fit. */
export function shapeBodies(
  shape: Shape,
  seed: number,
  {
    wireBytesMax = Number.POSITIVE_INFINITY,
    bytesMax = Number.POSITIVE_INFINITY,
    now = today(),
  }: BodyBounds = {},
): readonly Body[] {
  const bodies: Body[] = []
  let wireBytes = 0
  let bytes = 0
  let events = shape.events
  for (let index = 0; index < shape.bodies && bytes < bytesMax; ) {
    const body = packBody(new EventMaker(shape, seed, index, now).events(events))
    if (wireBytes + body.packed.length > wireBytesMax) {
      if (bodies.length > 0 || events <= 1) break
      // Even the first body is too large, so it gets fewer events.
      events = Math.max(1, Math.floor((body.events * wireBytesMax) / body.packed.length / 1.1))
      continue
    }
    wireBytes += body.packed.length
    bytes += body.bytes
    bodies.push(body)
    index++
  }
  return bodies
}

function today(): number {
  return Math.floor(Date.now() / DAY_MS) * DAY_MS
}

function drawNumber(dice: Dice, least: number, most: number): number {
  // A third of the values are the ends of the range, where faults are common.
  if (dice.chance(0.15)) return most
  if (dice.chance(0.15)) return least
  const power = dice.below(1_000_000) / 1_000_000
  return Math.floor(Math.max(1, least) * (most / Math.max(1, least)) ** power)
}

function within(shape: Shape, bounds: ShapeBounds): Shape {
  return {
    ...shape,
    bodies: Math.min(shape.bodies, bounds.bodiesMax),
    events: Math.min(shape.events, bounds.eventsMax),
    properties: Math.min(shape.properties, bounds.propertiesMax),
    valueLength: Math.min(shape.valueLength, bounds.valueLengthMax),
  }
}

/** Creates the events of one body. */
class EventMaker {
  readonly #shape: Shape
  readonly #body: number
  readonly #dice: Dice
  readonly #now: number
  /** Texts that do not differ between events are created once. */
  readonly #texts = new Map<string, string>()

  constructor(shape: Shape, seed: number, body: number, now: number) {
    this.#shape = shape
    this.#now = now
    this.#body = body
    this.#dice = new Dice(seed * 1000 + body + 1)
  }

  /** As many events as fit into a body. */
  events(count: number): readonly string[] {
    const texts: string[] = []
    let bytes = 0
    for (let index = 0; index < count; index++) {
      const text = this.#event(index)
      const size = Buffer.byteLength(text) + 1
      if (bytes + size > BODY_BYTES_MAX) break
      bytes += size
      texts.push(text)
    }
    return texts
  }

  #event(index: number): string {
    const { kind, names, nameLength, ids, idLength, uuids } = this.#shape
    const number = this.#number('each', index)
    const drawn = kind === 'mixed' ? this.#dice.pick(CHOICES.kind.slice(0, -1)) : kind
    const isCustom = drawn === 'custom' || drawn === 'personless' || drawn === '$unset'
    const name = isCustom ? this.#name('event', names, index, nameLength) : drawn
    const [id, other] = MERGES.includes(drawn)
      ? this.#merged(index)
      : [this.#name('id', ids, index, idLength), null]
    const members = [`"event":${quoted(name)}`, `"distinct_id":${quoted(id)}`]
    if (uuids !== 'none') members.push(`"uuid":"${uuidOf(uuids === 'each' ? number : number % 7)}"`)
    const time = this.#time(index)
    if (time !== null) members.push(`"timestamp":"${time}"`)
    members.push(`"properties":{${this.#properties(drawn, index, other).join(',')}}`)
    return `{${members.join(',')}}`
  }

  #properties(kind: string, index: number, other: string | null): readonly string[] {
    const { where, groups, groupKeys, sessions, idLength } = this.#shape
    const members: string[] = []
    if (other !== null) {
      members.push(`"${kind === '$identify' ? '$anon_distinct_id' : 'alias'}":${quoted(other)}`)
    }
    if (kind === 'personless') members.push('"$process_person_profile":false')
    if (sessions !== 'none') {
      const variety = sessions === 'one' ? 'one' : sessions === 'few' ? 'few' : 'each'
      members.push(`"$session_id":"${sessionOf(this.#now, this.#number(variety, index))}"`)
    }
    if (groups > 0) {
      const keys = Array.from({ length: groups }, (_, group) => {
        return `"type${group}":${quoted(this.#name('group', groupKeys, index, idLength))}`
      })
      members.push(`"$groups":{${keys.join(',')}}`)
    }
    const bag = this.#bag(index)
    if (kind === '$groupidentify') {
      const key = quoted(this.#name('group', groupKeys, index, idLength))
      members.push(`"$group_type":"type0","$group_key":${key},"$group_set":{${bag.join(',')}}`)
      return members
    }
    const unset = (): string => bag.map((member) => member.slice(0, nameEnd(member))).join(',')
    if (where === 'properties') members.push(...bag)
    else if (where === '$unset' || kind === '$unset') members.push(`"$unset":[${unset()}]`)
    else if (where === 'all') {
      const half = bag.slice(0, Math.ceil(bag.length / 3))
      members.push(...half, `"$set":{${half.join(',')}}`, `"$set_once":{${half.join(',')}}`)
    } else members.push(`"${where}":{${bag.join(',')}}`)
    return members
  }

  /** Members of an object, as many as fit into one event. */
  #bag(index: number): readonly string[] {
    const { properties, propertyNames, propertyNameLength, ownShare } = this.#shape
    const isLarge = this.#dice.below(1000) < ownShare * 1000
    const members: string[] = []
    const base = this.#number(propertyNames, index)
    const sizeMax = this.#shape.where === 'properties' ? EVENT_BYTES_MAX : EVENT_BYTES_MAX / 2
    let bytes = 0
    for (let position = 0; position < properties; position++) {
      const name = this.#propertyName(base * properties + position, propertyNameLength)
      const member = `${quoted(name)}:${isLarge ? this.#value(index, position) : position}`
      bytes += member.length * (this.#isWide() ? 3 : 1) + 1
      if (bytes > sizeMax && members.length > 0) break
      members.push(member)
    }
    return members
  }

  #isWide(): boolean {
    return this.#shape.value === 'unicode' || this.#shape.value === 'mixed'
  }

  #propertyName(number: number, length: number): string {
    if (length === 1) return STRANGE_NAMES[number] ?? `p${number.toString(36)}`
    return `${this.#padding('p', length - 6)}${number.toString(36)}`
  }

  #value(index: number, position: number): string {
    const { value, depth, values, valueLength } = this.#shape
    const own = this.#number(values, index) * 31 + (values === 'one' ? 0 : position)
    const kind =
      value === 'mixed' ? (CHOICES.value[own % (CHOICES.value.length - 1)] ?? value) : value
    const text = this.#plainValue(kind, own, this.#fitting(valueLength))
    if (depth === 0) return text
    return `${'{"a":['.repeat(Math.floor(depth / 2))}${text}${']}'.repeat(Math.floor(depth / 2))}`
  }

  /** Values of many properties must fit into one event together. */
  #fitting(length: number): number {
    return Math.min(length, Math.floor(400_000 / Math.max(1, Math.min(this.#shape.properties, 64))))
  }

  #plainValue(kind: string, own: number, length: number): string {
    switch (kind) {
      case 'number':
        return String(own)
      case 'extreme number':
        return EXTREME_NUMBERS[own % EXTREME_NUMBERS.length] ?? '0'
      case 'boolean':
        return own % 2 === 0 ? 'true' : 'false'
      case 'null':
        return 'null'
      case 'unicode':
        return `"${own}${this.#repeated(UNICODE[own % UNICODE.length] ?? '', length / 3)}"`
      case 'escaped':
        return `"${own}${this.#repeated('\\n', length / 2)}"`
      case 'random text':
        return `"${own}${this.#noise(Math.min(length, 20_000))}"`
      case 'list':
        return `[${own}${this.#repeated(',1', Math.min(length, 100_000) / 2)}]`
      case 'object':
        return `{"own":${own},"text":"${this.#repeated('o', length)}"}`
      case 'empty objects':
        return `[${own}${this.#repeated(',{}', Math.min(length, 100_000) / 3)}]`
      case 'time':
        return `"${new Date(this.#now - (own % 1_000_000) * 1000).toISOString()}"`
      case 'url':
        return `"https://shop.example/${own}?${this.#repeated('a=1&', length / 4)}"`
      default:
        return `"${own}${this.#repeated(LETTERS[own % LETTERS.length] ?? '', length)}"`
    }
  }

  #repeated(part: string, count: number): string {
    const key = `${part} ${Math.floor(count)}`
    let text = this.#texts.get(key)
    if (text === undefined) {
      text = part.repeat(Math.floor(count))
      if (this.#texts.size < 256) this.#texts.set(key, text)
    }
    return text
  }

  #padding(letter: string, length: number): string {
    return this.#repeated(letter, Math.max(0, length))
  }

  #noise(length: number): string {
    let text = ''
    while (text.length < length) text += this.#dice.below(2 ** 31).toString(36)
    return text.slice(0, length)
  }

  /** Returns a number. Events with the same number share a value. */
  #number(variety: Variety, index: number): number {
    if (variety === 'one') return 0
    if (variety === 'few') return index % FEW
    if (variety === 'body') return this.#body
    return this.#body * this.#shape.events + index
  }

  #name(prefix: string, variety: Variety, index: number, length: number): string {
    const text = `${prefix[0] ?? ''}${this.#number(variety, index).toString(36)}`
    return `${text}${this.#padding('x', length - text.length)}`
  }

  /** Returns the distinct_id of a merge event, and the other one. */
  #merged(index: number): readonly [string, string | null] {
    const { merge, idLength } = this.#shape
    const name = (number: number): string => {
      const text = `i${number.toString(36)}`
      return `${text}${this.#padding('x', idLength - text.length)}`
    }
    const number = this.#number('each', index)
    switch (merge) {
      case 'hub':
        return ['hub', name(number)]
      case 'reverse hub':
        return [name(number), 'hub']
      case 'chain':
        return [name(number + 1), name(number)]
      case 'reverse chain':
        return [name(number), name(number + 1)]
      case 'pairs':
        return [name(number * 2), name(number * 2 + 1)]
      case 'tree':
        return [name(number), name(Math.floor(number / 2))]
      case 'moving hub':
        // Distinct_ids gather at a hub, which changes with every tenth event.
        return number % 10 === 0
          ? [`hub${number}`, `hub${number - 10}`]
          : [`hub${number - (number % 10)}`, name(number)]
      case 'none':
        return [name(number), null]
    }
  }

  #time(index: number): string | null {
    const { times } = this.#shape
    const number = this.#number('each', index)
    const drawn = times === 'mixed' ? this.#dice.pick(CHOICES.times.slice(0, -1)) : times
    switch (drawn) {
      case 'month':
        return new Date(this.#now - (number % 30) * DAY_MS).toISOString()
      case 'years':
        return new Date(this.#now - (number % 20_000) * DAY_MS).toISOString()
      case 'minutes':
        return new Date(this.#now - (number % 1_000_000) * 60_000).toISOString()
      case 'one':
        return '2024-05-06T07:08:09.010Z'
      case 'year 1':
        return '0001-01-01T00:00:00Z'
      case 'future':
        return new Date(this.#now + (number % 1000) * 60_000).toISOString()
      case 'backwards':
        return new Date(this.#now - number * 1000).toISOString()
      case 'none':
      case 'mixed':
        return null
    }
  }
}

/** The end of the quoted name at the beginning of a member. */
function nameEnd(member: string): number {
  return /^"(?:[^"\\]|\\.)*"/.exec(member)?.[0].length ?? 0
}

function quoted(text: string): string {
  return JSON.stringify(text)
}

function uuidOf(number: number): string {
  return `01900000-0000-7000-8000-${number.toString(16).padStart(12, '0')}`
}

/** Sessions begin at different times, as their ids show. */
function sessionOf(nowMs: number, number: number): string {
  const time = (nowMs - (number % 100_000) * 60_000).toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${number.toString(16).padStart(12, '0')}`
}
