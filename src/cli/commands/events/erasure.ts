/**
 * `tenrec erasure ...`: permanent removal of events. The running daemon removes them in the background, and every
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

/** The option `--dry-run`, for commands that remove events. */
export const DRY_RUN_OPTION: OptionTexts = {
  '--dry-run': 'Only print how many events would be removed.',
}

/** `tenrec erasure ...`. */
export const COMMANDS: Commands = [
  {
    name: 'erasure create',
    sentence:
      'Remove events permanently. An event is removed only if it matches all given options.',
    options: {
      ...PROJECT_OPTION,
      '--event NAME': 'Events with this name.',
      '--after TIME': 'Events at or after this time, such as 2026-01-31T12:00Z.',
      '--before TIME': 'Events before this time.',
      '--distinct-id ID': 'Events that were sent with this distinct ID.',
      '--person UUID': 'Events of this person. The person is not deleted.',
      ...DRY_RUN_OPTION,
      '--yes': 'Remove the events. Without this option, nothing is removed.',
      ...ANSWER_OPTIONS,
    },
    async run(input) {
      const isReal = input.has('yes') && !input.has('dry-run')
      const body = { ...criteriaOf(input), ...(isReal ? {} : { dry_run: true }) }
      const client = new DaemonClient(input)
      print(input.io, await client.ask('POST', erasures(client), body), input.isJson)
      if (!isReal)
        input.io.err('Nothing was removed. Use --yes to remove these events permanently.\n')
      return 0
    },
  },
  {
    name: 'erasure list',
    sentence: 'List the receipts of erasures, newest first.',
    options: {
      ...PROJECT_OPTION,
      '--limit N': `Maximum number of receipts to list, at most ${LIST_ERASURES_MAX}. Default: ${LIST_DEFAULT}.`,
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
    sentence: 'Print the receipt of one erasure.',
    operands: ['ID'],
    options: { ...PROJECT_OPTION, ...ANSWER_OPTIONS },
    async run(input) {
      const id = input.operandId
      const client = new DaemonClient(input)
      const receipt = await client.find(`${erasures(client)}${id}/`)
      if (receipt === null) {
        throw new OperatorError(
          `There is no erasure ${id} in this project. Run 'tenrec erasure list' to see all erasures.`,
        )
      }
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
    if (text === '') throw new UsageError(`--${option} must not be empty.`)
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
  throw new UsageError(
    'Choose the events with --event, --after, --before, --distinct-id or --person.',
  )
}

function shortRow(receipt: JsonObject) {
  const { id, origin, status, requested_by, requested_at, finished_at, events_removed } = receipt
  return { id, origin, status, requested_by, requested_at, finished_at, events_removed }
}
