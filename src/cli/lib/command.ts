/** What a command is, and how its arguments are read. */
import { parseArgs } from 'node:util'
import type { Clock } from '../../base/clock.ts'
import { UsageError } from '../../base/errors.ts'
import { loadSettings, type Settings } from '../../config/settings.ts'
import {
  CONFIG_FLAG,
  type Machine,
  SETTINGS,
  type SettingDefinition,
  type SettingName,
} from '../../config/settings-table.ts'
import { didYouMean } from '../../config/suggestion.ts'

/** The process as a command sees it; tests pass their own. */
export interface CommandIo {
  /** Writes data. */
  out(text: string): void
  /** Writes data; the bytes are copied before it returns. */
  outBytes?(bytes: Uint8Array): void
  /** Resolves when what was written has left far enough that more may come. */
  drained?(): Promise<void>
  /** Writes progress and complaints. */
  err(text: string): void
  /** Asks the person at the terminal and answers the line, '' when there is none; absent without a terminal. */
  ask?(question: string): Promise<string>
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly machine: Machine
  readonly clock: Clock
  /** Characters in a line of the terminal that data is written to; absent without one. */
  readonly terminalColumns?: number
  /** Standard error is a terminal: progress is drawn over itself. */
  readonly isErrorTerminal?: boolean
  /** Calls `listener` on every SIGINT or SIGTERM until the returned function is called. */
  onStopSignal(listener: () => void): () => void
  /** Calls `listener` on every SIGHUP until the returned function is called. */
  onHangup(listener: () => void): () => void
  /** Ends the process without a word, `kill` even when a thread hangs. */
  exitNow(how: 1 | 'kill'): void
}

/** An option of one command, beside the settings that it accepts. */
export interface OptionDefinition {
  /** Without the two hyphens. */
  readonly name: string
  /** Stands for the value in the help, such as `ID`; null for an option without a value. */
  readonly placeholder: string | null
  readonly sentence: string
  readonly isRequired?: boolean
  /** Values that completion offers. */
  readonly choices?: readonly string[]
}

/** One command: feeds dispatch and help. */
export interface Command {
  /** One or two words: `serve`, `project create`. */
  readonly name: string
  readonly sentence: string
  /** Names of what follows the command, all required: `ID`. A last `...` takes any number of words. */
  readonly operands: readonly string[]
  readonly options: readonly OptionDefinition[]
  /** Settings whose flags it accepts. */
  readonly settings: readonly SettingName[]
  /** Answers the exit code. Throws `UsageError` and `OperatorError`. */
  run(input: CommandInput): Promise<number>
}

/** What a command is run with. */
export interface CommandInput {
  /** Of the command: `project set`. */
  readonly name: string
  readonly io: CommandIo
  readonly operands: readonly string[]
  readonly options: ReadonlyMap<string, string>
  /** Resolves the settings. Throws `UsageError`. */
  settings(): Settings
}

/** Arguments behind the name of a command, taken apart. */
export interface ParsedArguments {
  readonly isHelpWanted: boolean
  readonly operands: readonly string[]
  readonly options: ReadonlyMap<string, string>
  readonly settingFlags: ReadonlyMap<string, string>
}

/** The option of every command that prints rows. */
export const JSON_OPTION: OptionDefinition = {
  name: 'json',
  placeholder: null,
  sentence: 'Print one JSON object a line.',
}

/** The option of every command that accepts settings. */
export const CONFIG_OPTION: OptionDefinition = {
  name: CONFIG_FLAG,
  placeholder: 'FILE',
  sentence: 'Configuration file (TOML); also TENREC_CONFIG.',
}

/** Takes arguments apart. Throws `UsageError` for whatever the command does not know. */
export function parseArguments(command: Command, words: readonly string[]): ParsedArguments {
  const flags = settingsByFlag(command)
  const known = new Map<string, 'string' | 'boolean'>([['help', 'boolean']])
  if (flags.size > 0) known.set(CONFIG_FLAG, 'string')
  for (const [flag, name] of flags) known.set(flag, isSwitch(name) ? 'boolean' : 'string')
  for (const { name, placeholder } of command.options) {
    known.set(name, placeholder === null ? 'boolean' : 'string')
  }
  const types = [...known].map(([name, type]) => [name, { type }] as const)
  const { tokens } = parseArgs({
    args: [...words],
    options: { ...Object.fromEntries(types), help: { type: 'boolean', short: 'h' } },
    strict: false,
    tokens: true,
  })
  const operands: string[] = []
  const values = new Map<string, string>()
  for (const token of tokens) {
    if (token.kind === 'positional') operands.push(token.value)
    if (token.kind !== 'option') continue
    const [name, value] = optionValue(token, known, flags)
    values.set(name, value)
  }
  const isHelpWanted = values.has('help')
  if (!isHelpWanted) checkPresence(command, operands, values)
  const isSettingFlag = (name: string) => flags.has(name)
  return {
    isHelpWanted,
    operands,
    options: new Map([...values].filter(([name]) => !isSettingFlag(name))),
    settingFlags: new Map([...values].filter(([name]) => isSettingFlag(name))),
  }
}

/** Resolves settings for a command from its flags, the environment and the file. */
export function resolveSettings(parsed: ParsedArguments, io: CommandIo): Settings {
  return loadSettings({
    flags: parsed.settingFlags,
    configPath: parsed.options.get(CONFIG_FLAG),
    environment: io.environment,
    machine: io.machine,
  })
}

/** Whether a setting is a flag that needs no value. */
export function isSwitch(name: SettingName): boolean {
  return definitionOf(name).kind.name === 'boolean'
}

function definitionOf(name: SettingName): Pick<SettingDefinition<unknown>, 'flag' | 'kind'> {
  const { flag, kind } = SETTINGS[name]
  return { flag, kind: { ...kind, format: String } }
}

function settingsByFlag(command: Command): ReadonlyMap<string, SettingName> {
  const flags = new Map<string, SettingName>()
  for (const name of command.settings) {
    const { flag } = SETTINGS[name]
    if (flag !== null) flags.set(flag, name)
  }
  return flags
}

interface OptionToken {
  readonly name: string
  readonly rawName: string
  readonly value?: string | undefined
  readonly inlineValue?: boolean | undefined
}

/** Name and text of an option as given; a switch is `true`, and `--no-x` makes the setting x `false`. */
function optionValue(
  token: OptionToken,
  known: ReadonlyMap<string, 'string' | 'boolean'>,
  flags: ReadonlyMap<string, SettingName>,
): readonly [string, string] {
  const { name, rawName, value } = token
  const type = known.get(name)
  const positive = name.replace(/^no-/, '')
  if (type === undefined && flags.has(positive) && known.get(positive) === 'boolean') {
    if (value !== undefined) throw new UsageError(`${rawName} takes no value`)
    return [positive, 'false']
  }
  if (type === undefined) {
    const suggestion = didYouMean(name, known.keys()).replace('mean ', 'mean --')
    throw new UsageError(`unknown option ${rawName}${suggestion}`)
  }
  if (type === 'boolean') {
    if (value !== undefined && !flags.has(name)) throw new UsageError(`${rawName} takes no value`)
    return [name, value ?? 'true']
  }
  const isNextOption = token.inlineValue !== true && value?.startsWith('--') === true
  if (value === undefined || isNextOption) throw new UsageError(`${rawName} needs a value`)
  return [name, value]
}

function checkPresence(
  command: Command,
  operands: readonly string[],
  values: ReadonlyMap<string, string>,
): void {
  const isOpen = command.operands.at(-1) === '...'
  const wanted = isOpen ? command.operands.length - 1 : command.operands.length
  const missing = command.operands[operands.length]
  if (operands.length < wanted && missing !== undefined)
    throw new UsageError(`${missing} is missing: ${usageOf(command)}`)
  const extra = operands[wanted]
  if (!isOpen && extra !== undefined) {
    throw new UsageError(`${JSON.stringify(extra)} is too much: ${usageOf(command)}`)
  }
  for (const { name, isRequired } of command.options) {
    if (isRequired === true && !values.has(name)) throw new UsageError(`--${name} is missing`)
  }
}

/** `tenrec project show ID [options]`. */
export function usageOf(command: Command): string {
  const operands = command.operands.filter((operand) => operand !== '...')
  const words = ['tenrec', command.name, ...operands]
  return `${words.join(' ')} [options]`
}
