/**
 * What can stand behind a command, for completion and the manual page: its options, those of all commands,
 * and the flags of its settings.
 */
import { describeDefault, SETTINGS, type SettingName } from '../../config/settings-table.ts'
import { CONFIG_OPTION, type Command, isSwitch } from './command.ts'

/** One option as it is typed. */
export interface TypedOption {
  /** With its two hyphens. */
  readonly flag: string
  /** Stands for the value; null for an option without one. */
  readonly placeholder: string | null
  readonly sentence: string
  /** Values that are offered; empty when there are too many. */
  readonly choices: readonly string[]
}

/** The option that every command has. */
const HELP: TypedOption = {
  flag: '--help',
  placeholder: null,
  sentence: 'Print the help of the command.',
  choices: [],
}

/** The options of a command that are no settings. */
export function ownOptions(command: Command): readonly TypedOption[] {
  const config = command.settings.length > 0 ? [CONFIG_OPTION] : []
  const own = [...command.options, ...config].map((option): TypedOption => {
    const { name, placeholder, sentence, choices = [] } = option
    return { flag: `--${name}`, placeholder, sentence, choices }
  })
  return [...own, HELP]
}

/** The flags of the settings of a command; a switch also has the flag that turns it off. */
export function settingOptions(names: readonly SettingName[]): readonly TypedOption[] {
  return names.flatMap((name): readonly TypedOption[] => {
    const { flag, kind } = SETTINGS[name]
    if (flag === null) return []
    const sentence = plain(`${SETTINGS[name].sentence} Default: ${describeDefault(name)}.`)
    if (isSwitch(name)) {
      const on = { flag: `--${flag}`, placeholder: null, sentence, choices: [] }
      return [on, { ...on, flag: `--no-${flag}`, sentence: `Turns --${flag} off.` }]
    }
    const choices = /^one of (.+)$/.exec(kind.allowed)?.[1]?.split(', ') ?? []
    return [{ flag: `--${flag}`, placeholder: kind.name.toUpperCase(), sentence, choices }]
  })
}

/** All of both. */
export function allOptions(command: Command): readonly TypedOption[] {
  return [...ownOptions(command), ...settingOptions(command.settings)]
}

/** A sentence without the marks of code. */
export function plain(sentence: string): string {
  return sentence.replaceAll('`', '')
}
