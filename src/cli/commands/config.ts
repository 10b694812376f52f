/** `tenrec config ...`: prints the settings and where each value comes from, and checks whether they are valid. */
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
    sentence: 'Print the effective value of every setting. Secrets are masked.',
    options: { '--origin': 'Also print where each value comes from.', ...JSON_OPTION },
    settings: SETTING_NAMES,
    run(input) {
      const settings = input.settings()
      return SETTING_NAMES.map((name) => describeSetting(input, settings, name))
    },
  },
  {
    name: 'config check',
    sentence:
      'Check flags, environment and configuration file. The exit code is 2 if a setting is not valid.',
    settings: SETTING_NAMES,
    run(input) {
      const { geoIpDatabase: path } = input.settings()
      input.io.err('The settings are valid.\n')
      // An unreadable database is only a warning, because the daemon runs without it until the file can be read.
      const fault = path === null ? null : geoIpFault(path)
      if (fault !== null) input.io.err(`The GeoIP database ${path} cannot be used: ${fault}.\n`)
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
