/** `tenrec retention ...`: how long the running daemon keeps the events of a project. */
import { UsageError } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import { parseBytes } from '../../../config/value-kinds.ts'
import { idOption, parseId } from '../../lib/arguments.ts'
import {
  type Command,
  type CommandInput,
  JSON_OPTION,
  type OptionDefinition,
} from '../../lib/command.ts'
import { DAEMON_OPTIONS, DaemonClient } from '../../lib/daemon-client.ts'
import { DRY_RUN_OPTION, printAnswer } from './erasure.ts'
import { PROJECT_OPTION } from './event.ts'

const EVENT_OPTION: OptionDefinition = {
  name: 'event',
  placeholder: 'NAME',
  sentence: 'The rule of events of this name, instead of that of the others.',
}
const COMMON_OPTIONS: readonly OptionDefinition[] = [...DAEMON_OPTIONS, JSON_OPTION]

/** The members of the rules that a request may say. */
interface Rules {
  readonly days: unknown
  readonly bytes_max: unknown
  readonly events: readonly Readonly<Record<string, unknown>>[]
}

/** `tenrec retention show`. */
export const RETENTION_SHOW: Command = {
  name: 'retention show',
  sentence: 'Print how long events are kept, and how large the project is.',
  operands: [],
  options: [PROJECT_OPTION, ...COMMON_OPTIONS],
  settings: ['dataDir'],
  async run(input) {
    printAnswer(input, await new DaemonClient(input).ask('GET', retentionPath(input)))
    return 0
  },
}

/** `tenrec retention set`. */
export const RETENTION_SET: Command = {
  name: 'retention set',
  sentence: 'Change how long events are kept; what is not named stays as it is.',
  operands: [],
  options: [
    PROJECT_OPTION,
    EVENT_OPTION,
    {
      name: 'days',
      placeholder: 'DAYS',
      sentence: 'Whole days by their timestamp, or forever.',
    },
    {
      name: 'bytes',
      placeholder: 'SIZE',
      sentence: 'All events as stored, such as 20GiB, or unlimited; the first to arrive go first.',
    },
    DRY_RUN_OPTION,
    ...COMMON_OPTIONS,
  ],
  settings: ['dataDir'],
  async run(input) {
    const event = input.options.get('event')
    const days = input.options.get('days')
    const bytes = input.options.get('bytes')
    if (days === undefined && bytes === undefined) throw new UsageError('say --days or --bytes')
    if (event === undefined) {
      return changeRules(input, (rules) => ({
        ...rules,
        ...(days === undefined ? {} : { days: daysOf(days) }),
        ...(bytes === undefined ? {} : { bytes_max: bytesOf(bytes) }),
      }))
    }
    if (bytes !== undefined) throw new UsageError('--bytes is about the project, not an event')
    const rule = { event, days: daysOf(days ?? '') }
    return changeRules(input, (rules) => ({
      ...rules,
      events: [...rules.events.filter((other) => other['event'] !== event), rule],
    }))
  },
}

/** `tenrec retention clear`. */
export const RETENTION_CLEAR: Command = {
  name: 'retention clear',
  sentence: 'Remove all rules, or the one of --event: events are kept for ever.',
  operands: [],
  options: [PROJECT_OPTION, EVENT_OPTION, ...COMMON_OPTIONS],
  settings: ['dataDir'],
  async run(input) {
    const event = input.options.get('event')
    return changeRules(input, (rules) =>
      event === undefined
        ? { days: null, bytes_max: null, events: [] }
        : { ...rules, events: rules.events.filter((other) => other['event'] !== event) },
    )
  },
}

/** `tenrec retention run`. */
export const RETENTION_RUN: Command = {
  name: 'retention run',
  sentence: 'Remove now what the rules say, instead of within the hour.',
  operands: [],
  options: [PROJECT_OPTION, DRY_RUN_OPTION, ...COMMON_OPTIONS],
  settings: ['dataDir'],
  async run(input) {
    const body = { dry_run: input.options.has(DRY_RUN_OPTION.name) }
    const path = `${retentionPath(input)}run/`
    printAnswer(input, await new DaemonClient(input).ask('POST', path, body))
    return 0
  },
}

async function changeRules(input: CommandInput, change: (rules: Rules) => Rules): Promise<number> {
  const client = new DaemonClient(input)
  const path = retentionPath(input)
  const rules = change(rulesOf(await client.ask('GET', path)))
  const isDryRun = input.options.has(DRY_RUN_OPTION.name)
  const body = isDryRun ? { ...rules, dry_run: true } : rules
  printAnswer(input, await client.ask('PUT', path, body))
  return 0
}

function rulesOf(answer: unknown): Rules {
  const { days = null, bytes_max = null, events } = isObject(answer) ? answer : {}
  const rules: readonly unknown[] = Array.isArray(events) ? events : []
  return { days, bytes_max, events: rules.filter(isObject) }
}

function daysOf(text: string): number | null {
  return text === 'forever' ? null : parseId('--days', text)
}

function bytesOf(text: string): number | null {
  if (text === 'unlimited') return null
  const bytes = parseBytes(text)
  if (bytes !== undefined) return bytes
  throw new UsageError(`--bytes: ${JSON.stringify(text)} is not a size such as 20GiB`)
}

function retentionPath(input: CommandInput): string {
  return `/api/projects/${idOption(input, 'project', 1)}/retention/`
}
