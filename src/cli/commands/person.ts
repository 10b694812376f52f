/**
 * `tenrec person ...`: persons are read from the data directory, with or without a running daemon, or
 * from another daemon with --base-url. Changes go to the running daemon, which puts them in order with
 * the events.
 */
import { UsageError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { isObject } from '../../base/json.ts'
import type { PersonReference } from '../../rules/persons/person-queries.ts'
import { openEvents } from '../../store/open-store.ts'
import { idOption } from '../lib/arguments.ts'
import {
  type Command,
  type CommandInput,
  JSON_OPTION,
  type OptionDefinition,
} from '../lib/command.ts'
import { DAEMON_OPTIONS, DaemonClient } from '../lib/daemon-client.ts'
import { printRows, type Row } from '../lib/output.ts'
import { LIST_PERSONS_MAX } from '../limits.ts'
import { PROJECT_OPTION, printableJson } from './events/event.ts'

const LIST_PERSONS_DEFAULT = 100

/** Filters of lists, by the name of the option and of the parameter. */
const FILTERS: readonly (readonly [option: string, parameter: string])[] = [
  ['distinct-id', 'distinct_id'],
  ['email', 'email'],
  ['search', 'search'],
]

const FILTER_OPTIONS: readonly OptionDefinition[] = [
  { name: 'distinct-id', placeholder: 'ID', sentence: 'Only the person with this distinct_id.' },
  { name: 'email', placeholder: 'EMAIL', sentence: 'Only persons with exactly this e-mail.' },
  {
    name: 'search',
    placeholder: 'TEXT',
    sentence: 'Only persons whose e-mail contains it, or whose distinct_id or uuid it is.',
  },
]

/** `tenrec person list`. */
export const PERSON_LIST: Command = {
  name: 'person list',
  sentence: 'List persons, newest first.',
  operands: [],
  options: [
    PROJECT_OPTION,
    ...FILTER_OPTIONS,
    {
      name: 'limit',
      placeholder: 'N',
      sentence: `At most so many; without it ${LIST_PERSONS_DEFAULT}, ${LIST_PERSONS_MAX} at most.`,
    },
    ...DAEMON_OPTIONS,
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const limit = Math.min(idOption(input, 'limit', LIST_PERSONS_DEFAULT), LIST_PERSONS_MAX)
    const persons = await listPersons(input, new Map(filtersOf(input)), limit)
    const isJson = input.options.has('json')
    printRows(input.io, isJson ? persons : persons.map(shortRow), isJson)
    return 0
  },
}

/** `tenrec person show`. */
export const PERSON_SHOW: Command = {
  name: 'person show',
  sentence: 'Print one person by number, uuid or distinct_id.',
  operands: ['PERSON'],
  options: [PROJECT_OPTION, ...DAEMON_OPTIONS, JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const [name = ''] = input.operands
    const person = await findPerson(input, name)
    if (person === null) {
      input.io.err(`tenrec: there is no such person\n`)
      return 1
    }
    printPerson(input, person)
    return 0
  },
}

/** `tenrec person split`. */
export const PERSON_SPLIT: Command = {
  name: 'person split',
  sentence: 'Give each distinct_id but one to a new person.',
  operands: ['PERSON'],
  options: [
    PROJECT_OPTION,
    {
      name: 'keep',
      placeholder: 'DISTINCT_ID',
      sentence: 'Stays, with the properties; without it the oldest stays and properties are lost.',
    },
    ...DAEMON_OPTIONS,
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const [person = ''] = input.operands
    const kept = input.options.get('keep')
    if (kept === '') throw new UsageError('--keep needs a distinct_id')
    return changePerson(input, person, (client, path) =>
      client.ask('POST', `${path}split/`, kept === undefined ? {} : { main_distinct_id: kept }),
    )
  },
}

/** `tenrec person delete`. */
export const PERSON_DELETE: Command = {
  name: 'person delete',
  sentence: 'Delete a person; events stay and belong to nobody.',
  operands: ['PERSON'],
  options: [
    PROJECT_OPTION,
    { name: 'events', placeholder: null, sentence: 'Delete the events of the person, too.' },
    ...DAEMON_OPTIONS,
  ],
  settings: ['dataDir'],
  async run(input) {
    const [person = ''] = input.operands
    const deletesEvents = input.options.has('events')
    return changePerson(input, person, async (client, path) => {
      await client.ask('DELETE', `${path}?delete_events=${String(deletesEvents)}`)
      return null
    })
  },
}

/** Finds the person whom an operand names, changes it and prints what came of it. */
async function changePerson(
  input: CommandInput,
  name: string,
  change: (client: DaemonClient, path: string) => Promise<unknown>,
): Promise<number> {
  const client = new DaemonClient(input)
  const found = await findByHttp(client, projectPath(input), name)
  if (found === null) {
    input.io.err(`tenrec: there is no such person\n`)
    return 1
  }
  const changed = await change(client, `${projectPath(input)}persons/${String(found['uuid'])}/`)
  if (isObject(changed)) {
    const { success: _, ...person } = changed
    printPerson(input, person)
  } else input.io.err(`deleted ${String(found['uuid'])}\n`)
  return 0
}

/** The path of the routes of the project. Throws `UsageError`. */
export function projectPath(input: CommandInput): string {
  return `/api/projects/${idOption(input, 'project', 1)}/`
}

function* filtersOf(input: CommandInput): Generator<readonly [string, string]> {
  for (const [option, parameter] of FILTERS) {
    const text = input.options.get(option)
    if (text !== undefined) yield [parameter, text]
  }
}

async function listPersons(
  input: CommandInput,
  filters: ReadonlyMap<string, string>,
  limit: number,
): Promise<readonly Row[]> {
  if (input.options.has('base-url')) {
    return listByHttp(new DaemonClient(input), projectPath(input), filters, limit)
  }
  const distinctId = filters.get('distinct_id')
  const email = filters.get('email')
  const search = filters.get('search')
  const query = {
    projectId: idOption(input, 'project', 1),
    limit,
    offset: 0,
    nowMs: input.io.clock.now(),
    ...(distinctId === undefined ? {} : { distinctId }),
    ...(email === undefined ? {} : { email }),
    ...(search === undefined ? {} : { search }),
  }
  return openEvents(input.settings().dataDir, (reader) =>
    reader.persons().list(query).results.map(asRow),
  )
}

/** A number or uuid names a person, any other text is a distinct_id; so is a number that nobody has. */
async function findPerson(input: CommandInput, name: string): Promise<Row | null> {
  if (input.options.has('base-url')) {
    return findByHttp(new DaemonClient(input), projectPath(input), name)
  }
  const reference = referenceOf(name)
  if (reference !== null) {
    const projectId = idOption(input, 'project', 1)
    const found = await openEvents(input.settings().dataDir, (reader) =>
      reader.persons().person(projectId, reference),
    )
    if (found !== null) return asRow(found)
  }
  const [person] = await listPersons(input, new Map([['distinct_id', name]]), 1)
  return person ?? null
}

/** The person whom a number, uuid or distinct_id names, asked of a daemon; null when there is none. */
export async function findByHttp(
  client: DaemonClient,
  path: string,
  name: string,
): Promise<Row | null> {
  const reference = referenceOf(name)
  if (reference !== null) {
    const found = await client.find(`${path}persons/${reference}/`)
    if (isObject(found)) return found
  }
  const [person] = await listByHttp(client, path, new Map([['distinct_id', name]]), 1)
  return person ?? null
}

async function listByHttp(
  client: DaemonClient,
  path: string,
  filters: ReadonlyMap<string, string>,
  limit: number,
): Promise<readonly Row[]> {
  const query = new URLSearchParams([...filters, ['limit', String(limit)]])
  const page = await client.ask('GET', `${path}persons/?${query.toString()}`)
  const results = isObject(page) ? page['results'] : null
  return Array.isArray(results) ? results.filter(isObject) : []
}

function referenceOf(name: string): PersonReference | null {
  const uuid = parseUuid(name)
  if (uuid !== null) return formatUuid(uuid, 0)
  return /^[1-9]\d{0,9}$/.test(name) ? Number(name) : null
}

function asRow(person: object): Row {
  return { ...person }
}

function shortRow(person: Row): Row {
  const { id, uuid, name, created_at, distinct_ids } = person
  return { id, uuid, name, created_at, distinct_ids }
}

/** Prints a person as the options say. */
export function printPerson(input: CommandInput, person: Row): void {
  const isJson = input.options.has('json')
  input.io.out(`${isJson ? JSON.stringify(person) : printableJson(person)}\n`)
}
