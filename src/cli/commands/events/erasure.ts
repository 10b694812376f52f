/**
 * `tenrec erasure ...`: events are removed for good by the running daemon, in the background, and every
 * erasure has a receipt.
 */
import { UsageError } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import { idOption, parseId, timeOption } from '../../lib/arguments.ts'
import {
  type Command,
  type CommandInput,
  JSON_OPTION,
  type OptionDefinition,
} from '../../lib/command.ts'
import { DAEMON_OPTIONS, DaemonClient } from '../../lib/daemon-client.ts'
import { printRecord, printRows, type Row } from '../../lib/output.ts'
import { LIST_ERASURES_MAX } from '../../limits.ts'
import { PROJECT_OPTION } from './event.ts'

const LIST_DEFAULT = 100

/** The option of commands that can say first what they would do. */
export const DRY_RUN_OPTION: OptionDefinition = {
  name: 'dry-run',
  placeholder: null,
  sentence: 'Only say how many events would go.',
}

/** `tenrec erasure create`. */
export const ERASURE_CREATE: Command = {
  name: 'erasure create',
  sentence: 'Remove events for good; all that is named must fit.',
  operands: [],
  options: [
    PROJECT_OPTION,
    { name: 'event', placeholder: 'NAME', sentence: 'Events of this name.' },
    { name: 'after', placeholder: 'TIME', sentence: 'Events from then on: 2026-01-31T12:00Z.' },
    { name: 'before', placeholder: 'TIME', sentence: 'Events before then.' },
    { name: 'distinct-id', placeholder: 'ID', sentence: 'Events that were sent with this id.' },
    { name: 'person', placeholder: 'UUID', sentence: 'Events of this person; the person stays.' },
    DRY_RUN_OPTION,
    { name: 'yes', placeholder: null, sentence: 'Do it; without it nothing is removed.' },
    ...DAEMON_OPTIONS,
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const isReal = input.options.has('yes') && !input.options.has(DRY_RUN_OPTION.name)
    const criteria = criteriaOf(input)
    const answer = await new DaemonClient(input).ask('POST', erasuresPath(input), {
      ...criteria,
      ...(isReal ? {} : { dry_run: true }),
    })
    printAnswer(input, answer)
    if (!isReal) input.io.err('nothing was removed: --yes removes these events for good\n')
    return 0
  },
}

/** `tenrec erasure list`. */
export const ERASURE_LIST: Command = {
  name: 'erasure list',
  sentence: 'List the receipts of erasures, newest first.',
  operands: [],
  options: [
    PROJECT_OPTION,
    {
      name: 'limit',
      placeholder: 'N',
      sentence: `At most so many; without it ${LIST_DEFAULT}, ${LIST_ERASURES_MAX} at most.`,
    },
    ...DAEMON_OPTIONS,
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const limit = Math.min(idOption(input, 'limit', LIST_DEFAULT), LIST_ERASURES_MAX)
    const path = `${erasuresPath(input)}?limit=${limit}`
    const page = await new DaemonClient(input).ask('GET', path)
    const results: unknown = isObject(page) ? page['results'] : null
    const rows: readonly Row[] = Array.isArray(results) ? results.filter(isObject) : []
    const isJson = input.options.has('json')
    printRows(input.io, isJson ? rows : rows.map(shortRow), isJson)
    return 0
  },
}

/** `tenrec erasure show`. */
export const ERASURE_SHOW: Command = {
  name: 'erasure show',
  sentence: 'Print one receipt by its number.',
  operands: ['ID'],
  options: [PROJECT_OPTION, ...DAEMON_OPTIONS, JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const id = parseId('ID', input.operands[0] ?? '')
    const receipt = await new DaemonClient(input).find(`${erasuresPath(input)}${id}/`)
    if (receipt === null) {
      input.io.err('tenrec: there is no such erasure\n')
      return 1
    }
    printAnswer(input, receipt)
    return 0
  },
}

/** Prints an object that the daemon has answered. */
export function printAnswer(input: CommandInput, answer: unknown): void {
  if (isObject(answer)) printRecord(input.io, answer, input.options.has('json'))
}

function erasuresPath(input: CommandInput): string {
  return `/api/projects/${idOption(input, 'project', 1)}/erasures/`
}

function criteriaOf(input: CommandInput): Readonly<Record<string, string>> {
  const criteria = new Map<string, string>()
  for (const [option, field] of [
    ['event', 'event'],
    ['distinct-id', 'distinct_id'],
    ['person', 'person_id'],
  ] as const) {
    const text = input.options.get(option)
    if (text === '') throw new UsageError(`--${option} must not be empty`)
    if (text !== undefined) criteria.set(field, text)
  }
  for (const name of ['after', 'before']) {
    const timeMs = timeOption(input, name)
    if (timeMs !== undefined) criteria.set(name, new Date(timeMs).toISOString())
  }
  if (criteria.size > 0) return Object.fromEntries(criteria)
  throw new UsageError('say which events: --event, --after, --before, --distinct-id or --person')
}

function shortRow(receipt: Row): Row {
  const { id, origin, status, requested_by, requested_at, finished_at, events_removed } = receipt
  return { id, origin, status, requested_by, requested_at, finished_at, events_removed }
}
