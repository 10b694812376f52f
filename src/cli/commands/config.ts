/** `tenrec config ...`: what the settings are, where they come from, and whether they are valid. */
import type { Settings } from '../../config/settings.ts'
import {
  formatSetting,
  SETTING_NAMES,
  SETTINGS,
  type SettingName,
} from '../../config/settings-table.ts'
import { geoIpFault } from '../../engine/processor/geoip-database.ts'
import { type CommandInput, type Commands, JSON_OPTION } from '../lib/command.ts'

/** `tenrec config ...`. */
export const COMMANDS: Commands = [
  {
    name: 'config print',
    sentence: 'Print all settings as they are in force; secrets are masked.',
    options: { '--origin': 'Print where each value comes from.', ...JSON_OPTION },
    settings: SETTING_NAMES,
    run(input) {
      const settings = input.settings()
      return SETTING_NAMES.map((name) => describeSetting(input, settings, name))
    },
  },
  {
    name: 'config check',
    sentence: 'Check flags, environment and configuration file; exit code 2 if they are wrong.',
    settings: SETTING_NAMES,
    run(input) {
      const { geoIpDatabase: path } = input.settings()
      input.io.err('the settings are valid\n')
      // No reason not to start: the daemon does without until the file can be read.
      const fault = path === null ? null : geoIpFault(path)
      if (fault !== null) input.io.err(`geoip_database: ${path} cannot be used, ${fault}\n`)
      return 0
    },
  },
]

function describeSetting(input: CommandInput, settings: Settings, name: SettingName) {
  const { fileKey, isSecret } = SETTINGS[name]
  const text = formatSetting(name, settings[name])
  const raw = isSecret ? text || null : settings[name]
  return {
    setting: fileKey,
    value: input.isJson ? raw : text,
    ...(input.has('origin') ? { origin: settings.origins[name].text } : {}),
  }
}
