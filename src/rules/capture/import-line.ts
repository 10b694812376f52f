/**
 * Reads one line of an import: an event as this program exports it, as SDKs send it, as the events API of
 * PostHog lists it (also a whole page of them), or as its batch exports write it (properties as JSON
 * text, times without a zone). What comes out is an event for `/batch/`, always with a uuid, so that the
 * same line sent twice is stored once. Source: docs/OPERATIONS.md, "Export and import".
 */
import { uuidV5 } from '../../base/ids.ts'
import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'

/** Name space of the uuids of events that came without one. */
const NAMESPACE = '6e1b6d0e-58a0-5b0e-9b7f-2f6f3c1a7d44'
/** `2026-01-31 12:00:00.123456`, as column databases print times in UTC. */
const TIME_WITHOUT_ZONE = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?)$/

/** What a line is. */
export interface ImportedLine {
  /** Events for `/batch/`. */
  readonly events: readonly JsonObject[]
  /** Why some of the line was left out; empty when nothing was. */
  readonly faults: readonly string[]
}

/**
 * Reads a line (without its newline). `lineNumber` counts from 1 and goes into the uuid of an event that
 * has none. An empty line has no events and no faults.
 */
export function readImportLine(line: string, lineNumber: number): ImportedLine {
  if (line.trim() === '') return { events: [], faults: [] }
  const value = parse(line)
  if (!isObject(value)) return { events: [], faults: ['it is no JSON object'] }
  const list = listOf(value)
  const events: JsonObject[] = []
  const faults: string[] = []
  for (const [index, item] of list.entries()) {
    const event = isObject(item) ? eventOf(item, `${lineNumber}.${index}.${line}`) : null
    if (event === null) faults.push('it has an event without name or distinct_id')
    else events.push(event)
  }
  return { events, faults }
}

/** The events of a page or a batch; else the line itself. */
function listOf(value: JsonObject): readonly unknown[] {
  for (const field of ['results', 'batch'] as const) {
    const list = value[field]
    if (Array.isArray(list) && value['event'] === undefined) return list
  }
  return [value]
}

function eventOf(item: JsonObject, seed: string): JsonObject | null {
  const name = item['event']
  const properties = { ...objectOf(item['properties']) }
  const distinctId = item['distinct_id'] ?? properties['distinct_id']
  if (typeof name !== 'string' || name === '') return null
  const isId = typeof distinctId === 'string' || typeof distinctId === 'number'
  if (!isId || distinctId === '') return null
  addMissing(properties, '$elements_chain', textOf(item['elements_chain']))
  addMissing(properties, '$ip', textOf(item['ip']))
  addMissing(properties, '$set', filledObject(item['$set'] ?? item['set']))
  addMissing(properties, '$set_once', filledObject(item['$set_once'] ?? item['set_once']))
  const uuid = item['uuid']
  const timestamp = item['timestamp']
  return {
    uuid: typeof uuid === 'string' && uuid !== '' ? uuid : uuidV5(NAMESPACE, seed),
    event: name,
    distinct_id: distinctId,
    ...(typeof timestamp === 'string' ? { timestamp: withZone(timestamp) } : {}),
    properties,
  }
}

function addMissing(properties: OwnObject, key: string, value: unknown): void {
  if (value !== null && !Object.hasOwn(properties, key)) properties[key] = value
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** An object, also one that is written as JSON text; empty for anything else. */
function objectOf(value: unknown): JsonObject {
  const parsed = typeof value === 'string' ? parse(value) : value
  return isObject(parsed) ? parsed : {}
}

function filledObject(value: unknown): JsonObject | null {
  const object = objectOf(value)
  return Object.keys(object).length === 0 ? null : object
}

function withZone(timestamp: string): string {
  return timestamp.replace(TIME_WITHOUT_ZONE, '$1T$2Z')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
