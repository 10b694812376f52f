/**
 * Lists everything that can follow a command, for shell completion and the manual page: its own options, the options
 * of all commands, and the flags of its settings.
 */
import { describeDefault, SETTINGS, type SettingName } from '../../config/settings-table.ts'
import { CONFIG_OPTION, type Command, isSwitch } from './command.ts'

/** One option as users type it. */
export interface TypedOption {
  /** The name of the option with its two hyphens. */
  readonly flag: string
  /** The placeholder of the value in the help. Null for an option without a value. */
  readonly placeholder: string | null
  readonly sentence: string
  /** Values that completion offers. Empty if the values cannot be listed. */
  readonly choices: readonly string[]
}

/** The option that every command has. */
const HELP: TypedOption = {
  flag: '--help',
  placeholder: null,
  sentence: 'Print the help of this command.',
  choices: [],
}

/** Returns the options of a command that are not settings. */
export function ownOptions(command: Command): readonly TypedOption[] {
  const config = command.settings.length > 0 ? [CONFIG_OPTION] : []
  const own = [...command.options, ...config].map((option): TypedOption => {
    const { name, placeholder, sentence, choices = [] } = option
    return { flag: `--${name}`, placeholder, sentence, choices }
  })
  return [...own, HELP]
}

/** Returns the flags of settings. A boolean setting also has the flag that turns it off. */
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

/** Returns all options and setting flags of a command. */
export function allOptions(command: Command): readonly TypedOption[] {
  return [...ownOptions(command), ...settingOptions(command.settings)]
}

/** Removes the backquotes from a sentence. */
export function plain(sentence: string): string {
  return sentence.replaceAll('`', '')
}
