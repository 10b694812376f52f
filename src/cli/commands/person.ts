/**
 * `tenrec person ...`: persons are read from the data directory, with or without a running daemon, or
 * from another daemon with --base-url. Changes go to the running daemon, which puts them in order with
 * the events.
 */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { given, isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import type { PersonReference } from '../../rules/persons/person-queries.ts'
import { openEvents } from '../../store/open-store.ts'
import { type CommandInput, type Commands, PROJECT_OPTION } from '../lib/command.ts'
import { ANSWER_OPTIONS, DAEMON_OPTIONS, DaemonClient } from '../lib/daemon-client.ts'
import { printable, printableJson } from '../lib/output.ts'
import { LIST_PERSONS_MAX } from '../limits.ts'

const LIST_PERSONS_DEFAULT = 100
const NOBODY = 'there is no such person'

/** `tenrec person ...`. */
export const COMMANDS: Commands = [
  {
    name: 'person list',
    sentence: 'List persons, newest first.',
    options: {
      ...PROJECT_OPTION,
      '--distinct-id ID': 'Only the person with this distinct_id.',
      '--email EMAIL': 'Only persons with exactly this e-mail.',
      '--search TEXT': 'Only persons whose e-mail contains it, or whose distinct_id or uuid it is.',
      '--limit N': `At most so many; without it ${LIST_PERSONS_DEFAULT}, ${LIST_PERSONS_MAX} at most.`,
      ...ANSWER_OPTIONS,
    },
    async run(input) {
      const limit = Math.min(input.id('limit', LIST_PERSONS_DEFAULT), LIST_PERSONS_MAX)
      const filters = given({
        distinctId: input.text('distinct-id'),
        email: input.text('email'),
        search: input.text('search'),
      })
      const persons = await peopleOf(input).list(filters, limit)
      return input.isJson ? persons : persons.map(shortRow)
    },
  },
  {
    name: 'person show',
    sentence: 'Print one person by number, uuid or distinct_id.',
    operands: ['PERSON'],
    options: { ...PROJECT_OPTION, ...ANSWER_OPTIONS },
    async run(input) {
      return printPerson(input, await findPerson(peopleOf(input), input.operand, NOBODY))
    },
  },
  {
    name: 'person merge',
    sentence:
      'Merge the person FROM into the person INTO, whose properties win, after asking. It cannot be undone.',
    operands: ['INTO', 'FROM'],
    options: {
      '--yes': 'Do not ask; needed without a terminal.',
      '--dry-run': 'Change nothing: print the person who would come of it.',
      ...PROJECT_OPTION,
      ...ANSWER_OPTIONS,
    },
    run: merge,
  },
  {
    name: 'person split',
    sentence: 'Give each distinct_id but one to a new person.',
    operands: ['PERSON'],
    options: {
      ...PROJECT_OPTION,
      '--keep DISTINCT_ID':
        'Stays, with the properties; without it the oldest stays and properties are lost.',
      ...ANSWER_OPTIONS,
    },
    async run(input) {
      const kept = input.text('keep')
      if (kept === '') throw new UsageError('--keep needs a distinct_id')
      const client = new DaemonClient(input)
      const { uuid } = await findPerson(servedPeople(client), input.operand, NOBODY)
      const body = given({ main_distinct_id: kept })
      return printPerson(input, await client.ask('POST', `${personPath(client, uuid)}split/`, body))
    },
  },
  {
    name: 'person delete',
    sentence: 'Delete a person; events stay and belong to nobody.',
    operands: ['PERSON'],
    options: {
      ...PROJECT_OPTION,
      '--events': 'Delete the events of the person, too.',
      ...DAEMON_OPTIONS,
    },
    async run(input) {
      const client = new DaemonClient(input)
      const { uuid } = await findPerson(servedPeople(client), input.operand, NOBODY)
      const query = `?delete_events=${String(input.has('events'))}`
      await client.ask('DELETE', `${personPath(client, uuid)}${query}`)
      input.io.err(`deleted ${String(uuid)}\n`)
      return 0
    },
  },
]

/** Which persons are listed. */
interface Filters {
  readonly distinctId?: string
  readonly email?: string
  readonly search?: string
}

/** The persons of a project, wherever they are read. */
interface People {
  list(filters: Filters, limit: number): Promise<readonly JsonObject[]>
  /** Null when there is none. */
  find(reference: PersonReference): Promise<JsonObject | null>
}

function peopleOf(input: CommandInput): People {
  return input.has('base-url') ? servedPeople(new DaemonClient(input)) : storedPeople(input)
}

function servedPeople(client: DaemonClient): People {
  return {
    async list({ distinctId, ...filters }, limit) {
      const parameters = { ...given({ distinct_id: distinctId }), ...filters, limit: String(limit) }
      const query = new URLSearchParams(parameters).toString()
      return objectsOf(
        (await client.ask('GET', `${client.projectPath}persons/?${query}`))['results'],
      )
    },
    find: (reference) => client.find(personPath(client, reference)),
  }
}

function storedPeople({ dataDir, projectId, io }: CommandInput): People {
  return {
    list: (filters, limit) =>
      openEvents(dataDir, (reader) => {
        const page = { projectId, limit, offset: 0, nowMs: io.clock.now() }
        const { results } = reader.persons().list({ ...page, ...filters })
        return results.map((person) => ({ ...person }))
      }),
    find: (reference) =>
      openEvents(dataDir, (reader) => {
        const person = reader.persons().person(projectId, reference)
        return person === null ? null : { ...person }
      }),
  }
}

function personPath({ projectPath }: DaemonClient, person: unknown): string {
  return `${projectPath}persons/${String(person)}/`
}

/**
 * The person whom a number, uuid or distinct_id names; a number that nobody has is a distinct_id, too. Throws
 * `OperatorError` with this message when there is none.
 */
async function findPerson(people: People, name: string, message: string): Promise<JsonObject> {
  const uuid = parseUuid(name)
  const number = /^[1-9]\d{0,9}$/.test(name) ? Number(name) : null
  const reference = uuid === null ? number : formatUuid(uuid, 0)
  const named = reference === null ? null : await people.find(reference)
  const person = named ?? (await people.list({ distinctId: name }, 1))[0]
  if (person === undefined) throw new OperatorError(message)
  return person
}

/**
 * Merges two persons after having shown what that means. Nothing takes a merge back: a split gives new
 * persons, without the properties of before.
 */
async function merge(input: CommandInput): Promise<number> {
  const { io, operands } = input
  const isDryRun = input.has('dry-run')
  if (!isDryRun && !input.has('yes') && io.ask === undefined) {
    throw new UsageError('a merge cannot be undone: look at it with --dry-run, then say --yes')
  }
  const client = new DaemonClient(input)
  const find = (operand: string, name = ''): Promise<JsonObject> =>
    findPerson(servedPeople(client), name, `there is no person ${operand}: ${printable(name)}`)
  const into = await find('INTO', operands[0])
  const from = await find('FROM', operands[1])
  if (into['uuid'] === from['uuid']) {
    throw new OperatorError('INTO and FROM are the same person: nobody is merged into itself')
  }
  if (isDryRun) {
    printPerson(input, mergedOf(into, from))
    io.err('nothing was changed: this is what would come of it\n')
    return 0
  }
  if (!input.has('yes')) {
    const question = `${described(into)}\ntakes over\n${described(from)}\nMerge them for good? [y/N] `
    const answer = (await io.ask?.(question)) ?? ''
    if (!/^y(es)?$/i.test(answer.trim())) {
      io.err('nothing was changed\n')
      return 1
    }
  }
  const path = `${personPath(client, into['uuid'])}merge/`
  return printPerson(input, await client.ask('POST', path, { ids: [from['uuid']] }))
}

/** What the daemon would make of both. */
function mergedOf(into: JsonObject, from: JsonObject): JsonObject {
  const properties = { ...fieldsOf(from['properties']), ...fieldsOf(into['properties']) }
  const [created_at] = [String(into['created_at']), String(from['created_at'])].sort()
  const distinct_ids = [...idsOf(into), ...idsOf(from)]
  return { ...into, distinct_ids, properties, created_at }
}

function described(person: JsonObject): string {
  const ids = idsOf(person)
  const count = Object.keys(fieldsOf(person['properties'])).length
  const named = `  ${String(person['name'])} (${String(person['uuid'])})`
  return printable(
    `${named}: ${count} properties, ${ids.length} ids: ${ids.slice(0, 5).join(', ')}`,
  )
}

function idsOf({ distinct_ids: ids }: JsonObject): readonly string[] {
  return Array.isArray(ids) ? ids.map(String) : []
}

function fieldsOf(value: unknown): JsonObject {
  return isObject(value) ? value : {}
}

function shortRow({ id, uuid, name, created_at, distinct_ids }: JsonObject) {
  return { id, uuid, name, created_at, distinct_ids }
}

/** Prints a person, without the mark that a change succeeded; answers the exit code 0. */
function printPerson({ io, isJson }: CommandInput, answer: JsonObject): number {
  const { success: _, ...person } = answer
  io.out(`${isJson ? JSON.stringify(person) : printableJson(person)}\n`)
  return 0
}
