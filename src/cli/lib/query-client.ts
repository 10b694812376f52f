/** Runs the queries of `tenrec query`: numbers from the query route of a daemon, persons from its analytic routes. */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { PAGE_EVENTS_MAX } from '../../base/limits.ts'
import { closestWord } from '../../config/suggestion.ts'
import { QUERY_NAMES_SHOWN_MAX, QUERY_ROWS_MAX } from '../limits.ts'
import { type CommandInput, type OptionTexts, PROJECT_OPTION } from './command.ts'
import { ANSWER_OPTIONS, DaemonClient } from './daemon-client.ts'
import { parseExactJson } from './exact-json.ts'
import { print, printable, printCsv } from './output.ts'
import { withBars } from './query-chart.ts'

const LIMIT_DEFAULT = 20
/**
 * For each sign in a condition, the operator of the filter. Longer signs come first, so that `!=` is not read as `=`.
 */
const OPERATORS: readonly (readonly [sign: string, operator: string])[] = [
  ['!=', 'is_not'],
  ['>=', 'gte'],
  ['<=', 'lte'],
  ['=', 'exact'],
  ['~', 'icontains'],
  ['>', 'gt'],
  ['<', 'lt'],
]

/** Returns the options of every query command. */
export function questionOptions(): OptionTexts {
  return {
    ...PROJECT_OPTION,
    '--where CONDITION':
      'Only events whose property meets a condition, such as plan=pro. Operators: =, !=, ~ (contains), >, >=, <, <=.',
    '--properties JSON': 'Property filters in the format of the API, instead of --where.',
    '--persons': 'List the persons behind the numbers.',
    '--limit N': `Maximum number of persons, or of steps between items of paths, to print. Default: ${LIMIT_DEFAULT}.`,
    ...ANSWER_OPTIONS,
    '--csv': 'Print comma-separated values with a header line.',
  }
}

/** Returns the number in `--limit`. Throws `UsageError`. */
export function limitOf(input: CommandInput): number {
  return Math.min(input.id('limit', LIMIT_DEFAULT), QUERY_ROWS_MAX)
}

/** Returns whether the output is a table for people. */
export function isTable(input: CommandInput): boolean {
  return !input.isJson && !input.has('csv')
}

/**
 * Prints rows in the format that the options ask for. On a terminal, it adds bars for `column` if the rows have this
 * column.
 */
export function printRows(
  input: CommandInput,
  rows: readonly JsonObject[],
  column: string | undefined,
): void {
  const { io, isJson } = input
  if (input.has('csv')) printCsv(io, rows)
  else print(io, column === undefined ? rows : withBars(input, rows, column), isJson)
}

/** Sends queries about a project to a daemon. Each contains the filters that the command line gives. */
export class QueryClient {
  readonly #input: CommandInput
  readonly #client: DaemonClient
  readonly #filters: JsonObject

  /** Throws `UsageError` for invalid options, and the errors of `DaemonClient`. */
  constructor(input: CommandInput) {
    this.#input = input
    this.#filters = filtersOf(input)
    this.#client = new DaemonClient(input)
  }

  /** Returns the results of a query. Requires a key with `query:read`. Throws `OperatorError`. */
  async results(query: JsonObject): Promise<readonly JsonObject[]> {
    const body = { query: { ...query, ...this.#filters } }
    const { results } = await this.#client.ask('POST', `${this.#client.projectPath}query/`, body)
    return objectsOf(results)
  }

  /**
   * Prints the persons that an analytic route (`funnel`, `path`, ...) returns, with their values. Parameters that are
   * lists or objects are sent as JSON. Returns the exit code, 0. Throws `OperatorError`.
   */
  async printPersons(route: string, parameters: JsonObject): Promise<number> {
    const query = new URLSearchParams()
    const all = { ...this.#filters, ...parameters, limit: limitOf(this.#input) }
    for (const [name, value] of Object.entries({ ...all, include_total: true })) {
      query.set(name, typeof value === 'object' ? JSON.stringify(value) : String(value))
    }
    const path = `${this.#client.projectPath}persons/${route}/?${query.toString()}`
    const page = await this.#client.ask('GET', path)
    const persons = personsOf(page)
    const isShort = isTable(this.#input)
    printRows(this.#input, isShort ? persons.map(shortRow) : persons, undefined)
    const total = Number(page['total'] ?? persons.length)
    if (isShort) this.#input.io.err(`${persons.length} of ${total} persons\n`)
    return this.finish(total === 0 ? undefined : [])
  }

  /**
   * Warns about event names that never occurred. Otherwise, a mistyped name would look like a week without events.
   * `missed` lists the events without any result, by default all events of the query. Only these are checked. Returns
   * the exit code, 0.
   */
  async finish(
    missed: readonly string[] = [...this.#input.operands, this.#input.text('returning') ?? '*'],
  ): Promise<number> {
    for (const name of new Set(missed)) {
      if (name === '*') continue
      const note = await this.#unseen(name)
      if (note !== null) this.#input.io.err(note)
    }
    return 0
  }

  /**
   * Returns a warning if an event with this name never occurred. Returns null if it did, or if the key may not read
   * events.
   */
  async #unseen(name: string): Promise<string | null> {
    if ((await this.#newestNames(`event=${encodeURIComponent(name)}&limit=1`))?.length !== 0)
      return null
    const known = (await this.#newestNames(`limit=${PAGE_EVENTS_MAX}`)) ?? []
    const near = closestWord(name, known)
    const others = known.slice(0, QUERY_NAMES_SHOWN_MAX).join(', ')
    const hint = near === undefined ? `The newest events are ${others}.` : `Did you mean ${near}?`
    const told = known.length === 0 ? 'The project has no events.' : hint
    return `tenrec: There was never an event ${printable(JSON.stringify(name))}. ${printable(told)}\n`
  }

  /** Returns the names of the newest events, without duplicates. Returns null if the events cannot be read. */
  async #newestNames(query: string): Promise<readonly string[] | null> {
    try {
      const path = `${this.#client.projectPath}events/?${query}`
      const { results } = await this.#client.ask('GET', path)
      return [...new Set(objectsOf(results).map(({ event }) => String(event)))]
    } catch (error) {
      if (error instanceof OperatorError) return null
      throw error
    }
  }
}

/** Returns a series of the events with a name. `*` stands for all events. */
export function seriesOf(name: string, order = 0): JsonObject {
  return { id: name === '*' ? null : name, type: 'events', order }
}

function filtersOf(input: CommandInput): JsonObject {
  const json = input.text('properties')
  const where = input.text('where')
  if (json !== undefined && where !== undefined) {
    throw new UsageError('--where and --properties cannot be combined.')
  }
  if (where !== undefined) return { properties: [condition(where)] }
  if (json === undefined) return {}
  const properties = parseExactJson(json)
  if (properties === undefined) throw new UsageError('--properties must be JSON.')
  return { properties }
}

function condition(text: string): JsonObject {
  let found: { readonly at: number; readonly sign: string; readonly operator: string } | null = null
  for (const [sign, operator] of OPERATORS) {
    const at = text.indexOf(sign)
    if (at > 0 && (found === null || at < found.at)) found = { at, sign, operator }
  }
  if (found === null) throw new UsageError('--where must be a condition such as plan=pro.')
  const { at, sign, operator } = found
  return { key: text.slice(0, at), operator, value: text.slice(at + sign.length), type: 'event' }
}

function personsOf({ result, results }: JsonObject): readonly JsonObject[] {
  if (!Array.isArray(result)) return objectsOf(objectsOf(results)[0]?.['people'])
  return objectsOf(result).map(({ person, appearances }) => {
    return { ...(isObject(person) ? person : {}), appearances }
  })
}

function shortRow(person: JsonObject) {
  const { name, id, value_at_data_point: value, appearances, created_at } = person
  const shown = { name: name ?? id, uuid: id, created_at }
  if (Array.isArray(appearances)) return { ...shown, appearances: appearances.join(' ') }
  return value === null || value === undefined ? shown : { ...shown, value }
}
