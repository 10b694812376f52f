/** Questions of `tenrec query` to the analytic routes of a daemon. */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { PAGE_EVENTS_MAX } from '../../base/limits.ts'
import { closestWord } from '../../config/suggestion.ts'
import { PROJECT_OPTION } from '../commands/events/event.ts'
import { QUERY_NAMES_SHOWN_MAX, QUERY_ROWS_MAX } from '../limits.ts'
import { idOption } from './arguments.ts'
import { type CommandInput, JSON_OPTION, type OptionDefinition } from './command.ts'
import { DAEMON_OPTIONS, DaemonClient } from './daemon-client.ts'
import { printable, printRows, type Row } from './output.ts'

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

/** Options of all questions. */
export const QUESTION_OPTIONS: readonly OptionDefinition[] = [
  PROJECT_OPTION,
  {
    name: 'where',
    placeholder: 'CONDITION',
    sentence: 'Only events with such a property: plan=pro, also !=, ~ (contains), >, >=, <, <=.',
  },
  {
    name: 'properties',
    placeholder: 'JSON',
    sentence: 'Property filters as the API takes them, instead of --where.',
  },
  { name: 'persons', placeholder: null, sentence: 'Print the persons behind the numbers.' },
  {
    name: 'limit',
    placeholder: 'N',
    sentence: `At most so many persons; without it ${LIMIT_DEFAULT}.`,
  },
  ...DAEMON_OPTIONS,
  JSON_OPTION,
]

/** Parameters of a route; lists and objects go as JSON. */
export type QuestionParameters = Readonly<Record<string, unknown>>

/** The routes of one project, with the filters of one command line. */
export class QueryClient {
  readonly #input: CommandInput
  readonly #client: DaemonClient
  readonly #filters: QuestionParameters
  /** Somebody was behind one of the numbers. */
  #hasFound = false

  /** Throws `UsageError` for options that cannot be used, and as `DaemonClient`. */
  constructor(input: CommandInput) {
    this.#input = input
    this.#filters = filtersOf(input)
    this.#client = new DaemonClient(input)
  }

  /** How many persons an answer has on all its pages. Throws `OperatorError`. */
  async total(route: string, parameters: QuestionParameters): Promise<number> {
    const { total } = await this.page(route, { ...parameters, limit: 1 })
    return Number(total ?? 0)
  }

  /** One page, with totals. Throws `OperatorError`. */
  async page(route: string, parameters: QuestionParameters): Promise<Row> {
    const query = new URLSearchParams()
    const all = { ...this.#filters, ...parameters, include_total: true }
    for (const [name, value] of Object.entries(all)) {
      query.set(name, typeof value === 'object' ? JSON.stringify(value) : String(value))
    }
    const page = await this.#client.ask('GET', `${this.#path}persons/${route}/?${query.toString()}`)
    if (!isObject(page)) throw new OperatorError('the daemon gave no answer that can be read')
    if (page['total'] !== 0) this.#hasFound = true
    return page
  }

  /** Prints the persons of an answer with their values; answers 0, as `finish`. Throws `OperatorError`. */
  async printPersons(route: string, parameters: QuestionParameters): Promise<number> {
    const limit = Math.min(idOption(this.#input, 'limit', LIMIT_DEFAULT), QUERY_ROWS_MAX)
    const page = await this.page(route, { ...parameters, limit })
    const isJson = this.#input.options.has('json')
    const persons = personsOf(page)
    printRows(this.#input.io, isJson ? persons : persons.map(shortRow), isJson)
    const total = Number(page['total'] ?? persons.length)
    if (!isJson) this.#input.io.err(`${persons.length} of ${total} persons\n`)
    return this.finish()
  }

  /**
   * Says of the events that nobody had whether they were ever seen; a name that is mistyped looks like a
   * quiet week otherwise. `names`: those that nobody had; without it all operands, if nobody was found.
   * Answers the exit code, 0.
   */
  async finish(names?: readonly string[]): Promise<number> {
    const asked = [...this.#input.operands, this.#input.options.get('returning') ?? '*']
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
      const page = await this.#client.ask('GET', `${this.#path}events/?${query}`)
      const results = isObject(page) ? page['results'] : null
      const events = Array.isArray(results) ? results.filter(isObject) : []
      return [...new Set(events.map(({ event }) => String(event)))]
    } catch (error) {
      if (error instanceof OperatorError) return null
      throw error
    }
  }

  get #path(): string {
    return `/api/projects/${idOption(this.#input, 'project', 1)}/`
  }
}

/** A series of events of one name; `*` is every event. */
export function seriesOf(name: string, order = 0): Row {
  return { id: name === '*' ? null : name, type: 'events', order }
}

function filtersOf({ options }: CommandInput): QuestionParameters {
  const json = options.get('properties')
  const where = options.get('where')
  if (json !== undefined && where !== undefined) {
    throw new UsageError('--where and --properties exclude each other')
  }
  if (json !== undefined) {
    try {
      return { properties: JSON.parse(json) }
    } catch {
      throw new UsageError('--properties must be JSON')
    }
  }
  return where === undefined ? {} : { properties: [condition(where)] }
}

function condition(text: string): Row {
  let found: { readonly at: number; readonly sign: string; readonly operator: string } | null = null
  for (const [sign, operator] of OPERATORS) {
    const at = text.indexOf(sign)
    if (at > 0 && (found === null || at < found.at)) found = { at, sign, operator }
  }
  if (found === null) throw new UsageError('--where must be a condition such as plan=pro')
  const { at, sign, operator } = found
  return { key: text.slice(0, at), operator, value: text.slice(at + sign.length), type: 'event' }
}

function personsOf(page: Row): readonly Row[] {
  const { result, results } = page
  if (Array.isArray(result)) {
    return result.filter(isObject).map(({ person, appearances }) => {
      return { ...(isObject(person) ? person : {}), appearances }
    })
  }
  const first: unknown = Array.isArray(results) ? results[0] : null
  const people = isObject(first) ? first['people'] : null
  return Array.isArray(people) ? people.filter(isObject) : []
}

function shortRow(person: Row): Row {
  const { name, id, value_at_data_point: value, appearances, created_at } = person
  const shown = { name: name ?? id, uuid: id, created_at }
  if (Array.isArray(appearances)) return { ...shown, appearances: appearances.join(' ') }
  return value === null || value === undefined ? shown : { ...shown, value }
}
