/** `tenrec help`: generated from the tables of commands and settings. */
import { UsageError } from '../../base/errors.ts'
import { describeDefault, SETTINGS, type SettingName } from '../../config/settings-table.ts'
import { closestWord } from '../../config/suggestion.ts'
import { CONFIG_OPTION, type Command, type Commands, isSwitch, usageOf } from '../lib/command.ts'

const COLUMNS = 100
const HELP_OPTION = {
  name: 'help',
  placeholder: null,
  sentence: 'Print the help of this command.',
} as const

/** `tenrec help`. */
export const COMMANDS: Commands = [
  {
    name: 'help',
    sentence: 'Print the help of a command.',
    operands: ['...'],
    settings: [],
    async run({ io, operands }, allCommands) {
      io.out(helpFor(await allCommands(), operands.join(' ')))
      return 0
    },
  },
]

/** Returns the help of the command `name`, of a group of commands, or of the program for ''. Throws `UsageError`. */
export function helpFor(commands: readonly Command[], name: string): string {
  if (name === '') return overview(commands)
  const command = commands.find((candidate) => candidate.name === name)
  if (command !== undefined) return commandHelp(command)
  const group = commands.filter((candidate) => candidate.name.startsWith(`${name} `))
  if (group.length > 0) return overview(group)
  const names = commands.map((candidate) => candidate.name)
  throw new UsageError(unknownCommand(name, names))
}

/** Returns the message for an unknown command. */
export function unknownCommand(typed: string, names: readonly string[]): string {
  const closest = closestWord(typed, names)
  const suggestion = closest === undefined ? '.' : `. Did you mean '${closest}'?`
  return `Unknown command '${typed}'${suggestion}`
}

function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length)) + 2
  const lines = commands.map(({ name, sentence }) => entry(name, width, sentence))
  return [
    'Usage: tenrec COMMAND [options]\n\n',
    ...lines,
    "\nRun 'tenrec help COMMAND' to see the options of a command.\n",
  ].join('')
}

/** Returns the help of one command. */
export function commandHelp(command: Command): string {
  const hasSettings = command.settings.length > 0
  const options = [...command.options, ...(hasSettings ? [CONFIG_OPTION] : []), HELP_OPTION]
  const described = options.map(({ name, placeholder, sentence }) => ({
    words: placeholder === null ? `--${name}` : `--${name} ${placeholder}`,
    sentence,
  }))
  const settings = command.settings.map((name) => describeSetting(name))
  const width = Math.max(...[...described, ...settings].map(({ words }) => words.length)) + 2
  const lines = (entries: typeof described) =>
    entries.map(({ words, sentence }) => entry(words, width, sentence)).join('')
  const parts = [`Usage: ${usageOf(command)}\n\n${wrapped('', command.sentence)}`]
  parts.push(`\nOptions:\n${lines(described)}`)
  if (hasSettings) {
    parts.push(
      `\nSettings (a flag overrides the environment, which overrides the configuration file):\n${lines(settings)}`,
    )
  }
  return parts.join('')
}

function describeSetting(name: SettingName): { words: string; sentence: string } {
  const { flag, variable, kind, sentence } = SETTINGS[name]
  const placeholder = isSwitch(name) ? '' : ` ${kind.name.toUpperCase()}`
  const words = flag === null ? variable : `--${flag}${placeholder}`
  const source = flag === null ? '' : ` Environment: ${variable}.`
  return { words, sentence: `${sentence} Default: ${describeDefault(name)}.${source}` }
}

/** Formats one entry: words, then the sentence in a column of its own. */
function entry(words: string, width: number, sentence: string): string {
  return wrapped(`  ${words.padEnd(width)}`, sentence)
}

/** Wraps a sentence to `COLUMNS` characters. The first line begins with `start`, and further lines are indented. */
function wrapped(start: string, sentence: string): string {
  const lines: string[] = []
  let line = start
  const indent = ' '.repeat(line.length)
  let isEmpty = true
  for (const word of sentence.replaceAll('`', '').split(' ')) {
    if (!isEmpty && line.length + word.length + 1 > COLUMNS) {
      lines.push(line)
      line = indent
      isEmpty = true
    }
    line += isEmpty ? word : ` ${word}`
    isEmpty = false
  }
  return `${[...lines, line].join('\n')}\n`
}
