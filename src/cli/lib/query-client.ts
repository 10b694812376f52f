/** Questions of `tenrec query` to the analytic routes of a daemon. */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject, type JsonObject, objectsOf, parseJson } from '../../base/json.ts'
import { PAGE_EVENTS_MAX } from '../../base/limits.ts'
import { closestWord } from '../../config/suggestion.ts'
import { QUERY_NAMES_SHOWN_MAX, QUERY_ROWS_MAX } from '../limits.ts'
import { type CommandInput, type OptionTexts, PROJECT_OPTION } from './command.ts'
import { ANSWER_OPTIONS, DaemonClient } from './daemon-client.ts'
import { print, printable } from './output.ts'

const LIMIT_DEFAULT = 20
/** Sign of a condition -> operator of a filter; the longer ones first. */
const OPERATORS: readonly (readonly [sign: string, operator: string])[] = [
  ['!=', 'is_not'],
  ['>=', 'gte'],
  ['<=', 'lte'],
  ['=', 'exact'],
  ['~', 'icontains'],
  ['>', 'gt'],
  ['<', 'lt'],
]

const PERSONS_OPTION: OptionTexts = { '--persons': 'Print the persons behind the numbers.' }

/** Options of questions that `persons`, or numbers and persons, answer. */
export function questionOptions(hasNumbers: boolean): OptionTexts {
  return {
    ...PROJECT_OPTION,
    '--where CONDITION':
      'Only events with such a property: plan=pro, also !=, ~ (contains), >, >=, <, <=.',
    '--properties JSON': 'Property filters as the API takes them, instead of --where.',
    ...(hasNumbers ? PERSONS_OPTION : {}),
    '--limit N': `At most so many persons; without it ${LIMIT_DEFAULT}.`,
    ...ANSWER_OPTIONS,
  }
}

/** One of the analytic routes for a project, with the filters of one command line. */
export class QueryClient {
  readonly #input: CommandInput
  readonly #route: string
  readonly #client: DaemonClient
  readonly #filters: JsonObject
  /** Somebody was behind one of the numbers. */
  #hasFound = false

  /** `route`: `funnel`, `path`, ... Throws `UsageError` for options that cannot be used, and as `DaemonClient`. */
  constructor(input: CommandInput, route: string) {
    this.#input = input
    this.#route = route
    this.#filters = filtersOf(input)
    this.#client = new DaemonClient(input)
  }

  /** How many persons an answer has on all its pages. Throws `OperatorError`. */
  async total(parameters: JsonObject): Promise<number> {
    const { total } = await this.page({ ...parameters, limit: 1 })
    return Number(total ?? 0)
  }

  /** One page, with totals; lists and objects of the parameters go as JSON. Throws `OperatorError`. */
  async page(parameters: JsonObject): Promise<JsonObject> {
    const query = new URLSearchParams()
    const all = { ...this.#filters, ...parameters, include_total: true }
    for (const [name, value] of Object.entries(all)) {
      query.set(name, typeof value === 'object' ? JSON.stringify(value) : String(value))
    }
    const path = `${this.#client.projectPath}persons/${this.#route}/?${query.toString()}`
    const page = await this.#client.ask('GET', path)
    if (page['total'] !== 0) this.#hasFound = true
    return page
  }

  /** Prints the persons of an answer with their values; answers 0, as `finish`. Throws `OperatorError`. */
  async printPersons(parameters: JsonObject): Promise<number> {
    const { io, isJson } = this.#input
    const limit = Math.min(this.#input.id('limit', LIMIT_DEFAULT), QUERY_ROWS_MAX)
    const page = await this.page({ ...parameters, limit })
    const persons = personsOf(page)
    print(io, isJson ? persons : persons.map(shortRow), isJson)
    const total = Number(page['total'] ?? persons.length)
    if (!isJson) io.err(`${persons.length} of ${total} persons\n`)
    return this.finish()
  }

  /**
   * Says of the events that nobody had whether they were ever seen; a name that is mistyped looks like a
   * quiet week otherwise. `names`: those that nobody had; without it all operands, if nobody was found.
   * Answers the exit code, 0.
   */
  async finish(names?: readonly string[]): Promise<number> {
    const asked = [...this.#input.operands, this.#input.text('returning') ?? '*']
    const missed = names ?? (this.#hasFound ? [] : asked)
    const seen = new Set<string>(['*'])
    for (const name of missed) {
      if (seen.has(name)) continue
      seen.add(name)
      const note = await this.#unseen(name)
      if (note !== null) this.#input.io.err(note)
    }
    return 0
  }

  /** What to say of an event that was never seen; null for one that was, or when the key may not read events. */
  async #unseen(name: string): Promise<string | null> {
    if ((await this.#newestNames(`event=${encodeURIComponent(name)}&limit=1`))?.length !== 0)
      return null
    const known = (await this.#newestNames(`limit=${PAGE_EVENTS_MAX}`)) ?? []
    const near = closestWord(name, known)
    const others = known.slice(0, QUERY_NAMES_SHOWN_MAX).join(', ')
    const hint = near === undefined ? `the newest ones are ${others}` : `did you mean ${near}?`
    const told = known.length === 0 ? 'the project has no events' : hint
    return `tenrec: no event ${printable(JSON.stringify(name))} was ever seen; ${printable(told)}\n`
  }

  /** The different names of the events of a page, newest first; null when it cannot be read. */
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

/** A series of events of one name; `*` is every event. */
export function seriesOf(name: string, order = 0): JsonObject {
  return { id: name === '*' ? null : name, type: 'events', order }
}

function filtersOf(input: CommandInput): JsonObject {
  const json = input.text('properties')
  const where = input.text('where')
  if (json !== undefined && where !== undefined) {
    throw new UsageError('--where and --properties exclude each other')
  }
  if (where !== undefined) return { properties: [condition(where)] }
  if (json === undefined) return {}
  const properties = parseJson(json)
  if (properties === undefined) throw new UsageError('--properties must be JSON')
  return { properties }
}

function condition(text: string): JsonObject {
  let found: { readonly at: number; readonly sign: string; readonly operator: string } | null = null
  for (const [sign, operator] of OPERATORS) {
    const at = text.indexOf(sign)
    if (at > 0 && (found === null || at < found.at)) found = { at, sign, operator }
  }
  if (found === null) throw new UsageError('--where must be a condition such as plan=pro')
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
