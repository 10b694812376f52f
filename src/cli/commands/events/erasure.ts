/**
 * `tenrec erasure ...`: events are removed for good by the running daemon, in the background, and every
 * erasure has a receipt.
 */
import { OperatorError, UsageError } from '../../../base/errors.ts'
import { given, type JsonObject, objectsOf } from '../../../base/json.ts'
import {
  type CommandInput,
  type Commands,
  type OptionTexts,
  PROJECT_OPTION,
} from '../../lib/command.ts'
import { ANSWER_OPTIONS, DaemonClient } from '../../lib/daemon-client.ts'
import { print } from '../../lib/output.ts'
import { LIST_ERASURES_MAX } from '../../limits.ts'

const LIST_DEFAULT = 100

/** The option of commands that can say first what they would do. */
export const DRY_RUN_OPTION: OptionTexts = { '--dry-run': 'Only say how many events would go.' }

/** `tenrec erasure ...`. */
export const COMMANDS: Commands = [
  {
    name: 'erasure create',
    sentence: 'Remove events for good; all that is named must fit.',
    options: {
      ...PROJECT_OPTION,
      '--event NAME': 'Events of this name.',
      '--after TIME': 'Events from then on: 2026-01-31T12:00Z.',
      '--before TIME': 'Events before then.',
      '--distinct-id ID': 'Events that were sent with this id.',
      '--person UUID': 'Events of this person; the person stays.',
      ...DRY_RUN_OPTION,
      '--yes': 'Do it; without it nothing is removed.',
      ...ANSWER_OPTIONS,
    },
    async run(input) {
      const isReal = input.has('yes') && !input.has('dry-run')
      const body = { ...criteriaOf(input), ...(isReal ? {} : { dry_run: true }) }
      const client = new DaemonClient(input)
      print(input.io, await client.ask('POST', erasures(client), body), input.isJson)
      if (!isReal) input.io.err('nothing was removed: --yes removes these events for good\n')
      return 0
    },
  },
  {
    name: 'erasure list',
    sentence: 'List the receipts of erasures, newest first.',
    options: {
      ...PROJECT_OPTION,
      '--limit N': `At most so many; without it ${LIST_DEFAULT}, ${LIST_ERASURES_MAX} at most.`,
      ...ANSWER_OPTIONS,
    },
    async run(input) {
      const limit = Math.min(input.id('limit', LIST_DEFAULT), LIST_ERASURES_MAX)
      const client = new DaemonClient(input)
      const rows = objectsOf(
        (await client.ask('GET', `${erasures(client)}?limit=${limit}`))['results'],
      )
      return input.isJson ? rows : rows.map(shortRow)
    },
  },
  {
    name: 'erasure show',
    sentence: 'Print one receipt by its number.',
    operands: ['ID'],
    options: { ...PROJECT_OPTION, ...ANSWER_OPTIONS },
    async run(input) {
      const id = input.operandId
      const client = new DaemonClient(input)
      const receipt = await client.find(`${erasures(client)}${id}/`)
      if (receipt === null) throw new OperatorError('there is no such erasure')
      return receipt
    },
  },
]

function erasures({ projectPath }: DaemonClient): string {
  return `${projectPath}erasures/`
}

function criteriaOf(input: CommandInput): JsonObject {
  const filled = (option: string): string | undefined => {
    const text = input.text(option)
    if (text === '') throw new UsageError(`--${option} must not be empty`)
    return text
  }
  const isoOption = (name: string): string | undefined => {
    const timeMs = input.time(name)
    return timeMs === undefined ? undefined : new Date(timeMs).toISOString()
  }
  const criteria = given({
    event: filled('event'),
    distinct_id: filled('distinct-id'),
    person_id: filled('person'),
    after: isoOption('after'),
    before: isoOption('before'),
  })
  if (Object.keys(criteria).length > 0) return criteria
  throw new UsageError('say which events: --event, --after, --before, --distinct-id or --person')
}

function shortRow(receipt: JsonObject) {
  const { id, origin, status, requested_by, requested_at, finished_at, events_removed } = receipt
  return { id, origin, status, requested_by, requested_at, finished_at, events_removed }
}
