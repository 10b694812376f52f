/**
 * `tenrec person ...`: reads persons from the data directory, whether or not a daemon runs, or from another daemon with
 * --base-url. Changes go to the running daemon, which orders them with the events.
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
const NOBODY = 'There is no such person.'

/** `tenrec person ...`. */
export const COMMANDS: Commands = [
  {
    name: 'person list',
    sentence: 'List persons, newest first.',
    options: {
      ...PROJECT_OPTION,
      '--distinct-id ID': 'Only the person with this distinct ID.',
      '--email EMAIL': 'Only persons with exactly this e-mail address.',
      '--search TEXT':
        'Only persons whose e-mail address contains the text, or whose distinct ID or UUID is the text.',
      '--limit N': `Maximum number of persons to list, at most ${LIST_PERSONS_MAX}. Default: ${LIST_PERSONS_DEFAULT}.`,
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
    sentence: 'Print one person, named by number, UUID or distinct ID.',
    operands: ['PERSON'],
    options: { ...PROJECT_OPTION, ...ANSWER_OPTIONS },
    async run(input) {
      return printPerson(input, await findPerson(peopleOf(input), input.operand, NOBODY))
    },
  },
  {
    name: 'person merge',
    sentence:
      'Merge the person FROM into the person INTO, after a confirmation. Where both have a property, the value of INTO is kept. A merge cannot be undone.',
    operands: ['INTO', 'FROM'],
    options: {
      '--yes': 'Do not ask for confirmation. Required without a terminal.',
      '--dry-run': 'Change nothing, and print the person as it would be after the merge.',
      ...PROJECT_OPTION,
      ...ANSWER_OPTIONS,
    },
    run: merge,
  },
  {
    name: 'person split',
    sentence: 'Give each distinct ID of a person, except one, a new person of its own.',
    operands: ['PERSON'],
    options: {
      ...PROJECT_OPTION,
      '--keep DISTINCT_ID':
        'Distinct ID that stays with the person, who keeps the properties. Default: the oldest distinct ID stays, and the properties are lost.',
      ...ANSWER_OPTIONS,
    },
    async run(input) {
      const kept = input.text('keep')
      if (kept === '') throw new UsageError('--keep needs a distinct ID.')
      const client = new DaemonClient(input)
      const { uuid } = await findPerson(servedPeople(client), input.operand, NOBODY)
      const body = given({ main_distinct_id: kept })
      return printPerson(input, await client.ask('POST', `${personPath(client, uuid)}split/`, body))
    },
  },
  {
    name: 'person delete',
    sentence: 'Delete a person. The events of the person stay and belong to nobody.',
    operands: ['PERSON'],
    options: {
      ...PROJECT_OPTION,
      '--events': 'Also delete the events of the person.',
      ...DAEMON_OPTIONS,
    },
    async run(input) {
      const client = new DaemonClient(input)
      const { uuid } = await findPerson(servedPeople(client), input.operand, NOBODY)
      const query = `?delete_events=${String(input.has('events'))}`
      await client.ask('DELETE', `${personPath(client, uuid)}${query}`)
      input.io.err(`Deleted person ${String(uuid)}.\n`)
      return 0
    },
  },
]

/** The options that filter the list of persons. */
interface Filters {
  readonly distinctId?: string
  readonly email?: string
  readonly search?: string
}

/** Reads the persons of a project, from the data directory or from a daemon. */
interface People {
  list(filters: Filters, limit: number): Promise<readonly JsonObject[]>
  /** Returns a person, or null if there is no such person. */
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
 * Finds a person by its number, its UUID or one of its distinct IDs. A number that is not the number of a person is
 * looked up as a distinct ID. Throws `OperatorError` with `message` if no person is found.
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
 * Merges two persons after a confirmation. A merge cannot be undone, because a split creates new persons and does not
 * restore their properties.
 */
async function merge(input: CommandInput): Promise<number> {
  const { io, operands } = input
  const isDryRun = input.has('dry-run')
  if (!isDryRun && !input.has('yes') && io.ask === undefined) {
    throw new UsageError(
      'A merge cannot be undone. Look at the result with --dry-run, and then merge with --yes.',
    )
  }
  const client = new DaemonClient(input)
  const find = (operand: string, name = ''): Promise<JsonObject> =>
    findPerson(servedPeople(client), name, `There is no person ${operand}: ${printable(name)}.`)
  const into = await find('INTO', operands[0])
  const from = await find('FROM', operands[1])
  if (into['uuid'] === from['uuid']) {
    throw new OperatorError(
      'INTO and FROM are the same person. A person cannot be merged into itself.',
    )
  }
  if (isDryRun) {
    printPerson(input, mergedOf(into, from))
    io.err('Nothing was changed. This would be the person after the merge.\n')
    return 0
  }
  if (!input.has('yes')) {
    const question = `${described(into)}\nreceives everything of\n${described(from)}\nMerge them? This cannot be undone. [y/N] `
    const answer = (await io.ask?.(question)) ?? ''
    if (!/^y(es)?$/i.test(answer.trim())) {
      io.err('Nothing was changed.\n')
      return 1
    }
  }
  const path = `${personPath(client, into['uuid'])}merge/`
  return printPerson(input, await client.ask('POST', path, { ids: [from['uuid']] }))
}

/** Returns the person that the merge of two persons would result in. */
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

/** Prints a person, without the field `success` of a change. Returns the exit code 0. */
function printPerson({ io, isJson }: CommandInput, answer: JsonObject): number {
  const { success: _, ...person } = answer
  io.out(`${isJson ? JSON.stringify(person) : printableJson(person)}\n`)
  return 0
}
