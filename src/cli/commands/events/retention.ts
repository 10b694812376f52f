/** `tenrec retention ...`: rules for how long the running daemon keeps the events of a project. */
import { UsageError } from '../../../base/errors.ts'
import { given, type JsonObject, objectsOf } from '../../../base/json.ts'
import { parseBytes } from '../../../config/value-kinds.ts'
import {
  type CommandInput,
  type Commands,
  type OptionTexts,
  PROJECT_OPTION,
  parseId,
} from '../../lib/command.ts'
import { ANSWER_OPTIONS, DaemonClient } from '../../lib/daemon-client.ts'
import { DRY_RUN_OPTION } from './erasure.ts'

const EVENT_OPTION: OptionTexts = {
  '--event NAME': 'The rule for events with this name, instead of the rule for all other events.',
}

/** The rules in a request. */
interface Rules {
  readonly days: unknown
  readonly bytes_max: unknown
  readonly events: readonly JsonObject[]
}

/** `tenrec retention ...`. */
export const COMMANDS: Commands = [
  {
    name: 'retention show',
    sentence: 'Print the retention rules of a project, and the size of its stored events.',
    options: { ...PROJECT_OPTION, ...ANSWER_OPTIONS },
    run: (input) => askRules(input, 'GET'),
  },
  {
    name: 'retention set',
    sentence: 'Change the retention rules. Rules that are not given stay as they are.',
    options: {
      ...PROJECT_OPTION,
      ...EVENT_OPTION,
      '--days DAYS':
        'Number of whole days to keep events, counted from their timestamps, or forever.',
      '--bytes SIZE':
        'Maximum size of all stored events, such as 20GiB, or unlimited. The events that arrived first are removed first.',
      ...DRY_RUN_OPTION,
      ...ANSWER_OPTIONS,
    },
    run(input) {
      const event = input.text('event')
      if (!input.has('days') && !input.has('bytes')) throw new UsageError('Give --days or --bytes.')
      if (event === undefined) {
        const changed = given({ days: daysOf(input), bytes_max: bytesOf(input) })
        return changeRules(input, (rules) => ({ ...rules, ...changed }))
      }
      if (input.has('bytes'))
        throw new UsageError(
          '--bytes applies to the whole project and cannot be combined with --event.',
        )
      const rule = { event, days: daysOf(input) }
      return changeRules(input, (rules) => ({
        ...rules,
        events: [...rules.events.filter((other) => other['event'] !== event), rule],
      }))
    },
  },
  {
    name: 'retention clear',
    sentence:
      'Remove all retention rules, or only the rule of --event. Without a rule, events are kept forever.',
    options: { ...PROJECT_OPTION, ...EVENT_OPTION, ...ANSWER_OPTIONS },
    run(input) {
      const event = input.text('event')
      return changeRules(input, (rules) =>
        event === undefined
          ? { days: null, bytes_max: null, events: [] }
          : { ...rules, events: rules.events.filter((other) => other['event'] !== event) },
      )
    },
  },
  {
    name: 'retention run',
    sentence: 'Apply the retention rules now, instead of within the next hour.',
    options: { ...PROJECT_OPTION, ...DRY_RUN_OPTION, ...ANSWER_OPTIONS },
    run: (input) => askRules(input, 'POST', 'run/', { dry_run: input.has('dry-run') }),
  },
]

function askRules(
  input: CommandInput,
  method: string,
  rest = '',
  body?: JsonObject,
): Promise<JsonObject> {
  const client = new DaemonClient(input)
  return client.ask(method, `${client.projectPath}retention/${rest}`, body)
}

async function changeRules(
  input: CommandInput,
  change: (rules: Rules) => Rules,
): Promise<JsonObject> {
  const { days = null, bytes_max = null, events } = await askRules(input, 'GET')
  const rules = change({ days, bytes_max, events: objectsOf(events) })
  const body = input.has('dry-run') ? { ...rules, dry_run: true } : { ...rules }
  return askRules(input, 'PUT', '', body)
}

function daysOf(input: CommandInput): number | null | undefined {
  const text = input.text('days')
  if (text === undefined) return undefined
  return text === 'forever' ? null : parseId('--days', text)
}

function bytesOf(input: CommandInput): number | null | undefined {
  const text = input.text('bytes')
  if (text === undefined) return undefined
  if (text === 'unlimited') return null
  const bytes = parseBytes(text)
  if (bytes !== undefined) return bytes
  throw new UsageError(`--bytes: ${JSON.stringify(text)} is not a size such as 20GiB.`)
}
