/**
 * `tenrec person merge`: asks a running daemon to merge two persons, after having shown what that means.
 * Nothing takes a merge back: a split gives new persons, without the properties of before.
 */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { type Command, type CommandInput, JSON_OPTION } from '../lib/command.ts'
import { DAEMON_OPTIONS, DaemonClient } from '../lib/daemon-client.ts'
import { printable, type Row } from '../lib/output.ts'
import { PROJECT_OPTION } from './events/event.ts'
import { findByHttp, printPerson, projectPath } from './person.ts'

/** `tenrec person merge`. */
export const PERSON_MERGE: Command = {
  name: 'person merge',
  sentence:
    'Merge the person FROM into the person INTO, whose properties win, after asking. It cannot be undone.',
  operands: ['INTO', 'FROM'],
  options: [
    { name: 'yes', placeholder: null, sentence: 'Do not ask; needed without a terminal.' },
    {
      name: 'dry-run',
      placeholder: null,
      sentence: 'Change nothing: print the person who would come of it.',
    },
    PROJECT_OPTION,
    ...DAEMON_OPTIONS,
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const { io, options } = input
    const isDryRun = options.has('dry-run')
    if (!isDryRun && !options.has('yes') && io.ask === undefined) {
      throw new UsageError('a merge cannot be undone: look at it with --dry-run, then say --yes')
    }
    const client = new DaemonClient(input)
    const [into, from] = await both(input, client)
    if (isDryRun) {
      printPerson(input, mergedOf(into, from))
      io.err('nothing was changed: this is what would come of it\n')
      return 0
    }
    if (!options.has('yes')) {
      const question = `${described(into)}\ntakes over\n${described(from)}\nMerge them for good? [y/N] `
      const answer = (await io.ask?.(question)) ?? ''
      if (!/^y(es)?$/i.test(answer.trim())) {
        io.err('nothing was changed\n')
        return 1
      }
    }
    const path = `${projectPath(input)}persons/${String(into['uuid'])}/merge/`
    const merged = await client.ask('POST', path, { ids: [from['uuid']] })
    if (!isObject(merged)) return 0
    const { success: _, ...person } = merged
    printPerson(input, person)
    return 0
  },
}

async function both(
  input: CommandInput,
  client: DaemonClient,
): Promise<readonly [into: Row, from: Row]> {
  const [into = '', from = ''] = input.operands
  const found: Row[] = []
  for (const [operand, name] of [
    ['INTO', into],
    ['FROM', from],
  ] as const) {
    const person = await findByHttp(client, projectPath(input), name)
    if (person === null)
      throw new OperatorError(`there is no person ${operand}: ${printable(name)}`)
    found.push(person)
  }
  const [first = {}, second = {}] = found
  if (first['uuid'] === second['uuid']) {
    throw new OperatorError('INTO and FROM are the same person: nobody is merged into itself')
  }
  return [first, second]
}

/** What the daemon would make of both. */
function mergedOf(into: Row, from: Row): Row {
  const properties = { ...fieldsOf(from['properties']), ...fieldsOf(into['properties']) }
  const [created_at] = [String(into['created_at']), String(from['created_at'])].sort()
  const distinct_ids = [...idsOf(into), ...idsOf(from)]
  return { ...into, distinct_ids, properties, created_at }
}

function described(person: Row): string {
  const ids = idsOf(person)
  const count = Object.keys(fieldsOf(person['properties'])).length
  const named = `  ${String(person['name'])} (${String(person['uuid'])})`
  return printable(
    `${named}: ${count} properties, ${ids.length} ids: ${ids.slice(0, 5).join(', ')}`,
  )
}

function idsOf({ distinct_ids: ids }: Row): readonly string[] {
  return Array.isArray(ids) ? ids.map(String) : []
}

function fieldsOf(value: unknown): Row {
  return isObject(value) ? value : {}
}
