/** Describes commands, and parses their arguments. */
import { parseArgs } from 'node:util'
import type { Clock } from '../../base/clock.ts'
import { UsageError } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { openColumns } from '../../clickhouse/fetched-columns.ts'
import { loadSettings, type Settings } from '../../config/settings.ts'
import {
  CONFIG_FLAG,
  type Machine,
  SETTINGS,
  type SettingName,
} from '../../config/settings-table.ts'
import { didYouMean } from '../../config/suggestion.ts'
import { boolean, splitList } from '../../config/value-kinds.ts'
import { ID_MAX } from '../limits.ts'
import { parseExactJson } from './exact-json.ts'

/** The streams, the environment and the signals of the process. Tests pass an implementation of their own. */
export interface CommandIo {
  /** Writes data to standard output. */
  out(text: string): void
  /** Writes data to standard output. The bytes are copied before the method returns. */
  outBytes?(bytes: Uint8Array): void
  /** Resolves when the output buffer has room for more. */
  drained?(): Promise<void>
  /** Writes progress and errors to standard error. */
  err(text: string): void
  /**
   * Asks the user at the terminal, and returns the line that was typed, or '' at the end of input. Absent if there is
   * no terminal.
   */
  ask?(question: string): Promise<string>
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly machine: Machine
  readonly clock: Clock
  /** Width in characters of the terminal on standard output. Absent without a terminal. */
  readonly terminalColumns?: number
  /** True if standard error is a terminal, on which a progress bar can be redrawn in place. */
  readonly isErrorTerminal?: boolean
  /** Calls `listener` on every SIGINT or SIGTERM until the returned function is called. */
  onStopSignal(listener: () => void): () => void
  /** Calls `listener` on every SIGHUP until the returned function is called. */
  onHangup(listener: () => void): () => void
  /** Calls `listener` once when standard input ends. Absent without standard input. */
  onInputEnd?(listener: () => void): () => void
  /**
   * Ends the process at once without a message: with exit code 1, or with SIGKILL, which works even if a thread hangs.
   */
  exitNow(how: 1 | 'kill'): void
}

/** The help of an option. */
export interface OptionText {
  readonly sentence: string
  readonly isRequired?: boolean
  /** Values that shell completion offers. */
  readonly choices?: readonly string[]
}

/**
 * The options of a command, without its settings, in the form in which the help prints them: `'--limit N': 'Maximum
 * number of rows.'`. An option without a second word (`N`) takes no value.
 */
export type OptionTexts = Readonly<Record<string, string | OptionText>>

/** An option, with its name and placeholder separated. */
export interface OptionDefinition extends OptionText {
  /** Name without the two hyphens. */
  readonly name: string
  /** Placeholder of the value in the help, such as `ID`. Null for an option without a value. */
  readonly placeholder: string | null
}

/** The description of a command, from which help, completion and dispatch are made. */
export interface CommandDescription {
  /** One or two words, such as `serve` or `project create`. */
  readonly name: string
  readonly sentence: string
  /**
   * The names of the words that must follow the command, such as `ID`. If the last name ends with `...`, any number of
   * words may follow.
   */
  readonly operands?: readonly string[]
  readonly options?: OptionTexts
  /** Settings whose flags the command accepts. Default: only the data directory. */
  readonly settings?: readonly SettingName[]
  /**
   * Runs the command. Returns the exit code, or a record or rows. A record or rows are printed, and the exit code is
   * then 0. `allCommands` loads every command. Throws `UsageError` and `OperatorError`.
   */
  run(
    input: CommandInput,
    allCommands: () => Promise<readonly Command[]>,
  ): number | object | Promise<number | object>
}

/** The commands of one file. */
export type Commands = readonly CommandDescription[]

/** A command whose description is completed with defaults. Dispatch and help use it. */
export interface Command extends Required<Omit<CommandDescription, 'options'>> {
  readonly options: readonly OptionDefinition[]
}

/** The option `--json`, for every command that prints rows. */
export const JSON_OPTION: OptionTexts = { '--json': 'Print one JSON object per line.' }

/** The option `--project`, for commands about one project. */
export const PROJECT_OPTION: OptionTexts = { '--project ID': 'ID of the project. Default: 1.' }

/** The option `--config`, for every command that accepts settings. */
export const CONFIG_OPTION: OptionDefinition = {
  name: CONFIG_FLAG,
  placeholder: 'FILE',
  sentence: 'Configuration file (TOML). The variable TENREC_CONFIG can name it, too.',
}

/** Completes a description with defaults. */
export function commandOf({ options = {}, ...description }: CommandDescription): Command {
  const definitions = Object.entries(options).map(([words, text]): OptionDefinition => {
    const [flag = '', placeholder = null] = words.split(' ')
    const said = typeof text === 'string' ? { sentence: text } : text
    return { name: flag.slice(2), placeholder, ...said }
  })
  return { operands: [], settings: ['dataDir'], ...description, options: definitions }
}

/** The parsed arguments of a command. */
export class CommandInput {
  readonly io: CommandIo
  readonly operands: readonly string[]
  readonly #command: Command
  readonly #values: ReadonlyMap<string, string>

  /** `values` maps the name of each option and setting flag that was given to its text. */
  constructor(
    command: Command,
    operands: readonly string[],
    values: ReadonlyMap<string, string>,
    io: CommandIo,
  ) {
    this.#command = command
    this.operands = operands
    this.#values = values
    this.io = io
  }

  /** Name of the command, such as `project set`. */
  get name(): string {
    return this.#command.name
  }

  /**
   * The first operand, or '' if there is none. Operands are the words after the name of the command, without the
   * options.
   */
  get operand(): string {
    return this.operands[0] ?? ''
  }

  /** Returns whether an option is given. */
  has(name: string): boolean {
    return this.#values.has(name)
  }

  /** Returns the text of an option as it was given. */
  text(name: string): string | undefined {
    return this.#values.get(name)
  }

  /** True if the output must be JSON. */
  get isJson(): boolean {
    return this.has('json')
  }

  /**
   * Returns the number in an option such as `--limit`. Returns `byDefault` if the option is not given. Throws
   * `UsageError`.
   */
  id(name: string, byDefault: number): number {
    const text = this.text(name)
    return text === undefined ? byDefault : parseId(`--${name}`, text)
  }

  /** The first operand, as a number. Throws `UsageError`. */
  get operandId(): number {
    return parseId('ID', this.operand)
  }

  /** The project ID in `--project`. Throws `UsageError`. */
  get projectId(): number {
    return this.id('project', 1)
  }

  /** Returns the comma-separated items of an option. */
  list(name: string): readonly string[] | undefined {
    const text = this.text(name)
    return text === undefined ? undefined : splitList(text)
  }

  /** Returns the moment given in an option, in milliseconds since 1970. Throws `UsageError`. */
  time(name: string): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const timeMs = /^\d{4}-\d\d-\d\d([T ].*)?$/.test(text) ? Date.parse(text) : Number.NaN
    if (!Number.isNaN(timeMs)) return timeMs
    const example = '2026-01-31T12:00Z'
    throw new UsageError(`--${name}: ${JSON.stringify(text)} is not a time such as ${example}.`)
  }

  /** Returns the boolean value of an option. Throws `UsageError`. */
  boolean(name: string): boolean | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const { parse, allowed } = boolean()
    const value = parse(text)
    if (value === undefined) throw new UsageError(`--${name} must be ${allowed}.`)
    return value
  }

  /**
   * Returns the parsed JSON of an option. Integers beyond 2^53 become texts, as in `parseExactJson`. Throws
   * `UsageError`.
   */
  json(name: string): unknown {
    const text = this.text(name)
    if (text === undefined) return undefined
    const value = parseExactJson(text)
    if (value === undefined) throw new UsageError(`--${name} is not valid JSON.`)
    return value
  }

  /** Returns the JSON object of an option. Throws `UsageError`. */
  jsonObject(name: string): JsonObject | undefined {
    const value = this.json(name)
    if (value === undefined || isObject(value)) return value
    throw new UsageError(`--${name} must be a JSON object.`)
  }

  /** Loads the settings from flags, the environment and the configuration file. Throws `UsageError`. */
  settings(): Settings {
    return loadSettings({
      flags: this.#values,
      configPath: this.text(CONFIG_FLAG),
      environment: this.io.environment,
      machine: this.io.machine,
    })
  }

  /** The data directory. Throws `UsageError`. */
  get dataDir(): string {
    const { dataDir, warehouse } = this.settings()
    // Some columns of old events may be only in the warehouse. This lets the command read them.
    if (warehouse !== null) openColumns(warehouse)
    return dataDir
  }
}

/**
 * Parses the arguments of a command. Returns null for `--help`. Throws `UsageError` for an argument that the
 * command does not accept.
 */
export function parseArguments(
  command: Command,
  words: readonly string[],
  io: CommandIo,
): CommandInput | null {
  const known = knownOptions(command)
  const types = [...known].map(([name, kind]) => {
    return [name, { type: kind === 'valued' ? 'string' : 'boolean' }] as const
  })
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
    if (token.kind === 'option') values.set(...optionValue(token, known))
  }
  if (values.has('help')) return null
  checkPresence(command, operands, values)
  return new CommandInput(command, operands, values, io)
}

/** Returns whether a setting is a boolean, whose flag needs no value. */
export function isSwitch(name: SettingName): boolean {
  return SETTINGS[name].kind.name === 'boolean'
}

/** `valued`: the option takes a value. `plain`: it takes none. `switch`: it turns a boolean setting on or off. */
type OptionKind = 'valued' | 'plain' | 'switch'

function knownOptions({ options, settings }: Command): ReadonlyMap<string, OptionKind> {
  const known = new Map<string, OptionKind>([['help', 'plain']])
  if (settings.length > 0) known.set(CONFIG_FLAG, 'valued')
  for (const name of settings) {
    const { flag } = SETTINGS[name]
    if (flag !== null) known.set(flag, isSwitch(name) ? 'switch' : 'valued')
  }
  for (const { name, placeholder } of options) {
    known.set(name, placeholder === null ? 'plain' : 'valued')
  }
  return known
}

interface OptionToken {
  readonly name: string
  readonly rawName: string
  readonly value?: string | undefined
  readonly inlineValue?: boolean | undefined
}

/**
 * Returns the name and the text of an option. The text of a switch is `true`. `--no-x` gives the setting x the text
 * `false`.
 */
function optionValue(
  { name, rawName, value, inlineValue }: OptionToken,
  known: ReadonlyMap<string, OptionKind>,
): readonly [string, string] {
  const kind = known.get(name)
  const positive = name.replace(/^no-/, '')
  const isOff = kind === undefined && known.get(positive) === 'switch'
  if (kind === undefined && !isOff) {
    const suggestion = didYouMean(name, known.keys()).replace('mean ', 'mean --')
    throw new UsageError(`Unknown option ${rawName}${suggestion}`)
  }
  if (value !== undefined && (isOff || kind === 'plain')) {
    throw new UsageError(`${rawName} takes no value.`)
  }
  if (isOff) return [positive, 'false']
  if (kind !== 'valued') return [name, value ?? 'true']
  const isNextOption = inlineValue !== true && value?.startsWith('--') === true
  if (value === undefined || isNextOption) throw new UsageError(`${rawName} needs a value.`)
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
    throw new UsageError(`${missing} is missing. Usage: ${usageOf(command)}`)
  const extra = operands[wanted]
  if (!isOpen && extra !== undefined) {
    throw new UsageError(`Unexpected argument ${JSON.stringify(extra)}. Usage: ${usageOf(command)}`)
  }
  for (const { name, isRequired } of command.options) {
    if (isRequired === true && !values.has(name))
      throw new UsageError(`--${name} is missing. This command requires it.`)
  }
}

/** Returns a usage line, such as `tenrec project show ID [options]`. */
export function usageOf(command: Command): string {
  const operands = command.operands.filter((operand) => operand !== '...')
  const words = ['tenrec', command.name, ...operands]
  return `${words.join(' ')} [options]`
}

/** Parses a positive whole number, such as the ID of a project. Throws `UsageError`. */
export function parseId(what: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text) && Number(text) <= ID_MAX) return Number(text)
  throw new UsageError(`${what}: ${JSON.stringify(text)} is not a number from 1 to ${ID_MAX}.`)
}

/** Returns the changes that a command line asks for. Throws `UsageError` if there are none. */
export function demandChanges<T extends object>(changes: T): T {
  if (Object.keys(changes).length > 0) return changes
  throw new UsageError(
    'There is nothing to change. Give at least one option that changes something.',
  )
}
