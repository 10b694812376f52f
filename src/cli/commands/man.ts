/** `tenrec man`: a manual page in troff, generated from the tables of commands and settings. */
import { VERSION } from '../../base/version.ts'
import { SETTING_NAMES, SETTINGS, type SettingName } from '../../config/settings-table.ts'
import { type Command, type Commands, usageOf } from '../lib/command.ts'
import { ownOptions, plain, settingOptions, type TypedOption } from '../lib/command-options.ts'

const EXIT_CODES = [
  ['0', 'The command succeeded.'],
  ['1', 'The command failed. The message says why.'],
  ['2', 'An argument or a setting is not valid.'],
  ['3', 'A check found problems.'],
  ['78', 'The store is damaged or has a newer format. Trying again does not help.'],
] as const

/** `tenrec man`. */
export const COMMANDS: Commands = [
  {
    name: 'man',
    sentence:
      "Print the manual page. To read it, run 'tenrec man > tenrec.1' and then 'man -l tenrec.1'.",
    settings: [],
    async run({ io }, allCommands) {
      io.out(manualPage(await allCommands(), new Date(io.clock.now()).toISOString().slice(0, 10)))
      return 0
    },
  },
]

function manualPage(commands: readonly Command[], day: string): string {
  const lines = [
    `.TH TENREC 1 ${day} ${quoted(`Tenrec ${VERSION}`)}`,
    '.SH NAME',
    'tenrec \\- events, persons and feature flags in one process',
    '.SH SYNOPSIS',
    '.B tenrec',
    '.I command',
    '.RI [ options ]',
    '.SH DESCRIPTION',
    textLine(
      'Tenrec receives product events over HTTP, stores them, and answers queries about them. Most commands work on the data directory, whether or not the daemon runs.',
    ),
    '.PP',
    textLine('Commands print data to standard output, and everything else to standard error.'),
    '.SH COMMANDS',
    ...commands.flatMap(commandLines),
    '.SH SETTINGS',
    textLine(
      'A flag overrides the environment, which overrides the configuration file. Sizes in bytes may have units, such as 20MiB.',
    ),
    ...SETTING_NAMES.flatMap(settingLines),
    '.SH EXIT STATUS',
    ...EXIT_CODES.flatMap(([code, meaning]) => ['.TP', `.B ${code}`, textLine(meaning)]),
    '.SH SEE ALSO',
    textLine('The directory docs of the package, and the path /api/docs/ of a running daemon.'),
  ]
  return `${lines.join('\n')}\n`
}

function commandLines(command: Command): readonly string[] {
  const flags = settingOptions(command.settings).map(({ flag }) => flag)
  const settings = flags.length === 0 ? [] : ['.PP', textLine(`Settings: ${flags.join(', ')}.`)]
  return [
    `.SS ${quoted(usageOf(command))}`,
    textLine(plain(command.sentence)),
    ...ownOptions(command).flatMap(optionLines),
    ...settings,
  ]
}

function optionLines({ flag, placeholder, sentence }: TypedOption): readonly string[] {
  const words = placeholder === null ? [] : [` \\fI${escaped(placeholder)}\\fR`]
  return ['.TP', `\\fB${escaped(flag)}\\fR${words.join('')}`, textLine(plain(sentence))]
}

function settingLines(name: SettingName): readonly string[] {
  const { variable, fileKey, sentence } = SETTINGS[name]
  const [option, off] = settingOptions([name])
  const source = `Environment: ${variable}. File: ${fileKey}.`
  if (option === undefined) {
    return ['.TP', `\\fB${escaped(variable)}\\fR`, textLine(`${plain(sentence)} ${source}`)]
  }
  const turned = off === undefined ? '' : ` ${off.sentence.replace('Turns', `${off.flag} turns`)}`
  return optionLines({ ...option, sentence: `${option.sentence} ${source}${turned}` })
}

/** Escapes a text, so that troff prints it unchanged. */
function escaped(text: string): string {
  return text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll("'", '\\(aq')
}

/**
 * Returns a line of text for troff. A dot at the beginning of a line would make it a command of troff, so it is
 * escaped.
 */
function textLine(text: string): string {
  const line = escaped(text)
  return line.startsWith('.') ? `\\&${line}` : line
}

function quoted(text: string): string {
  return `"${escaped(text).replaceAll('"', '\\(dq')}"`
}
