/** What a command is, and how its arguments are read. */
import { parseArgs } from 'node:util'
import type { Clock } from '../../base/clock.ts'
import { UsageError } from '../../base/errors.ts'
import { isObject, type JsonObject, parseJson } from '../../base/json.ts'
import { loadSettings, type Settings } from '../../config/settings.ts'
import {
  CONFIG_FLAG,
  type Machine,
  SETTINGS,
  type SettingName,
} from '../../config/settings-table.ts'
import { didYouMean } from '../../config/suggestion.ts'
import { boolean, splitList } from '../../config/value-kinds.ts'
import { openColumns } from '../../warehouse/copied-columns.ts'
import { ID_MAX } from '../limits.ts'

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
  /** Calls `listener` once when standard input ends; absent where there is none. */
  onInputEnd?(listener: () => void): () => void
  /** Ends the process without a word, `kill` even when a thread hangs. */
  exitNow(how: 1 | 'kill'): void
}

/** What the help says of an option. */
export interface OptionText {
  readonly sentence: string
  readonly isRequired?: boolean
  /** Values that completion offers. */
  readonly choices?: readonly string[]
}

/**
 * Options of a command beside its settings, as the help prints them: `'--limit N': 'At most so many.'`.
 * One without a second word has no value.
 */
export type OptionTexts = Readonly<Record<string, string | OptionText>>

/** An option with its words taken apart. */
export interface OptionDefinition extends OptionText {
  /** Without the two hyphens. */
  readonly name: string
  /** Stands for the value in the help, such as `ID`; null for an option without a value. */
  readonly placeholder: string | null
}

/** One command as its file describes it. */
export interface CommandDescription {
  /** One or two words: `serve`, `project create`. */
  readonly name: string
  readonly sentence: string
  /** Names of what follows the command, all required: `ID`. A last `...` takes any number of words. */
  readonly operands?: readonly string[]
  readonly options?: OptionTexts
  /** Settings whose flags it accepts; without them that of the data directory. */
  readonly settings?: readonly SettingName[]
  /**
   * Answers the exit code, or what is printed before the exit code 0: a record, or a list of rows.
   * `allCommands` loads every command. Throws `UsageError` and `OperatorError`.
   */
  run(
    input: CommandInput,
    allCommands: () => Promise<readonly Command[]>,
  ): number | object | Promise<number | object>
}

/** The commands that a file describes. */
export type Commands = readonly CommandDescription[]

/** A command with everything that its description leaves out: feeds dispatch and help. */
export interface Command extends Required<Omit<CommandDescription, 'options'>> {
  readonly options: readonly OptionDefinition[]
}

/** The option of every command that prints rows. */
export const JSON_OPTION: OptionTexts = { '--json': 'Print one JSON object a line.' }

/** The option of commands about one project. */
export const PROJECT_OPTION: OptionTexts = { '--project ID': 'The project; without it project 1.' }

/** The option of every command that accepts settings. */
export const CONFIG_OPTION: OptionDefinition = {
  name: CONFIG_FLAG,
  placeholder: 'FILE',
  sentence: 'Configuration file (TOML); also TENREC_CONFIG.',
}

/** Completes a description. */
export function commandOf({ options = {}, ...description }: CommandDescription): Command {
  const definitions = Object.entries(options).map(([words, text]): OptionDefinition => {
    const [flag = '', placeholder = null] = words.split(' ')
    const said = typeof text === 'string' ? { sentence: text } : text
    return { name: flag.slice(2), placeholder, ...said }
  })
  return { operands: [], settings: ['dataDir'], ...description, options: definitions }
}

/** What a command is run with. */
export class CommandInput {
  readonly io: CommandIo
  readonly operands: readonly string[]
  readonly #command: Command
  readonly #values: ReadonlyMap<string, string>

  /** `values`: texts of options and of flags of settings, by their names. */
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

  /** Of the command: `project set`. */
  get name(): string {
    return this.#command.name
  }

  /** The first operand; '' without one. */
  get operand(): string {
    return this.operands[0] ?? ''
  }

  /** Whether an option is given. */
  has(name: string): boolean {
    return this.#values.has(name)
  }

  /** The text of an option as it is given. */
  text(name: string): string | undefined {
    return this.#values.get(name)
  }

  /** Whether JSON is to be printed. */
  get isJson(): boolean {
    return this.has('json')
  }

  /** The number of an option such as `--limit`, or the default. Throws `UsageError`. */
  id(name: string, byDefault: number): number {
    const text = this.text(name)
    return text === undefined ? byDefault : parseId(`--${name}`, text)
  }

  /** The first operand as a number. Throws `UsageError`. */
  get operandId(): number {
    return parseId('ID', this.operand)
  }

  /** The project of `--project`. Throws `UsageError`. */
  get projectId(): number {
    return this.id('project', 1)
  }

  /** The items of an option, separated by commas. */
  list(name: string): readonly string[] | undefined {
    const text = this.text(name)
    return text === undefined ? undefined : splitList(text)
  }

  /** The time of an option in milliseconds. Throws `UsageError`. */
  time(name: string): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const timeMs = /^\d{4}-\d\d-\d\d([T ].*)?$/.test(text) ? Date.parse(text) : Number.NaN
    if (!Number.isNaN(timeMs)) return timeMs
    const example = '2026-01-31T12:00Z'
    throw new UsageError(`--${name}: ${JSON.stringify(text)} is not a time such as ${example}`)
  }

  /** Whether an option says yes or no. Throws `UsageError`. */
  boolean(name: string): boolean | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const { parse, allowed } = boolean()
    const value = parse(text)
    if (value === undefined) throw new UsageError(`--${name}: allowed are ${allowed}`)
    return value
  }

  /** What an option says as JSON. Throws `UsageError`. */
  json(name: string): unknown {
    const text = this.text(name)
    if (text === undefined) return undefined
    const value = parseJson(text)
    if (value === undefined) throw new UsageError(`--${name} is not valid JSON`)
    return value
  }

  /** The object of an option. Throws `UsageError`. */
  jsonObject(name: string): JsonObject | undefined {
    const value = this.json(name)
    if (value === undefined || isObject(value)) return value
    throw new UsageError(`--${name} must be a JSON object`)
  }

  /** The settings from flags, environment and file. Throws `UsageError`. */
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
    // Whoever reads events may meet some whose columns are there.
    if (warehouse !== null) openColumns(warehouse)
    return dataDir
  }
}

/**
 * Takes arguments apart; null when only the help is wanted. Throws `UsageError` for whatever the command
 * does not know.
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

/** Whether a setting is a flag that needs no value. */
export function isSwitch(name: SettingName): boolean {
  return SETTINGS[name].kind.name === 'boolean'
}

/** How an option is written: with a value, without one, or as a setting that is turned on or off. */
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

/** Name and text of an option as given; a switch is `true`, and `--no-x` makes the setting x `false`. */
function optionValue(
  { name, rawName, value, inlineValue }: OptionToken,
  known: ReadonlyMap<string, OptionKind>,
): readonly [string, string] {
  const kind = known.get(name)
  const positive = name.replace(/^no-/, '')
  const isOff = kind === undefined && known.get(positive) === 'switch'
  if (kind === undefined && !isOff) {
    const suggestion = didYouMean(name, known.keys()).replace('mean ', 'mean --')
    throw new UsageError(`unknown option ${rawName}${suggestion}`)
  }
  if (value !== undefined && (isOff || kind === 'plain')) {
    throw new UsageError(`${rawName} takes no value`)
  }
  if (isOff) return [positive, 'false']
  if (kind !== 'valued') return [name, value ?? 'true']
  const isNextOption = inlineValue !== true && value?.startsWith('--') === true
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

/** A positive whole number, such as the id of a project. Throws `UsageError`. */
export function parseId(what: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text) && Number(text) <= ID_MAX) return Number(text)
  throw new UsageError(`${what}: ${JSON.stringify(text)} is not a number from 1 to ${ID_MAX}`)
}

/** The changes that a command asks for. Throws `UsageError` when there are none. */
export function someOf<T extends object>(changes: T): T {
  if (Object.keys(changes).length > 0) return changes
  throw new UsageError('there is nothing to change')
}
