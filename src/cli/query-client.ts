/** Questions of `tenrec query` to the analytic routes of a daemon. */
import { OperatorError, UsageError } from '../base/errors.ts'
import { isJsonObject } from '../ingest/fields.ts'
import { idOption } from './arguments.ts'
import { type CommandInput, JSON_OPTION, type OptionDefinition } from './command.ts'
import { DAEMON_OPTIONS, DaemonClient } from './daemon-client.ts'
import { PROJECT_OPTION } from './event.ts'
import { printRows, type Row } from './output.ts'

const LIMIT_DEFAULT = 20
const LIMIT_MAX = 10_000
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
    const project = idOption(this.#input, 'project', 1)
    const path = `/api/projects/${project}/persons/${route}/?${query.toString()}`
    const page = await this.#client.ask('GET', path)
    if (!isJsonObject(page)) throw new OperatorError('the daemon gave no answer that can be read')
    return page
  }

  /** Prints the persons of an answer with their values. Throws `OperatorError`. */
  async printPersons(route: string, parameters: QuestionParameters): Promise<void> {
    const limit = Math.min(idOption(this.#input, 'limit', LIMIT_DEFAULT), LIMIT_MAX)
    const page = await this.page(route, { ...parameters, limit })
    const isJson = this.#input.options.has('json')
    const persons = personsOf(page)
    printRows(this.#input.io, isJson ? persons : persons.map(shortRow), isJson)
    const total = Number(page['total'] ?? persons.length)
    if (!isJson) this.#input.io.err(`${persons.length} of ${total} persons\n`)
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
    return result.filter(isJsonObject).map(({ person, appearances }) => {
      return { ...(isJsonObject(person) ? person : {}), appearances }
    })
  }
  const first: unknown = Array.isArray(results) ? results[0] : null
  const people = isJsonObject(first) ? first['people'] : null
  return Array.isArray(people) ? people.filter(isJsonObject) : []
}

function shortRow(person: Row): Row {
  const { name, id, value_at_data_point: value, appearances, created_at } = person
  const shown = { name: name ?? id, uuid: id, created_at }
  if (Array.isArray(appearances)) return { ...shown, appearances: appearances.join(' ') }
  return value === null || value === undefined ? shown : { ...shown, value }
}
