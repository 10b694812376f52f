/** `tenrec config ...`: what the settings are, where they come from, and whether they are valid. */
import type { Settings } from '../../config/settings.ts'
import {
  formatSetting,
  SETTING_NAMES,
  SETTINGS,
  type SettingName,
} from '../../config/settings-table.ts'
import { type Command, JSON_OPTION } from '../lib/command.ts'
import { printRows, type Row } from '../lib/output.ts'

/** `tenrec config print`. */
export const CONFIG_PRINT: Command = {
  name: 'config print',
  sentence: 'Print all settings as they are in force; secrets are masked.',
  operands: [],
  options: [
    { name: 'origin', placeholder: null, sentence: 'Print where each value comes from.' },
    JSON_OPTION,
  ],
  settings: SETTING_NAMES,
  async run(input) {
    const settings = input.settings()
    const isJson = input.options.has('json')
    const withOrigin = input.options.has('origin')
    const rows = SETTING_NAMES.map((name) => describeSetting(settings, name, withOrigin, isJson))
    printRows(input.io, rows, isJson)
    return 0
  },
}

/** `tenrec config check`. */
export const CONFIG_CHECK: Command = {
  name: 'config check',
  sentence: 'Check flags, environment and configuration file; exit code 2 if they are wrong.',
  operands: [],
  options: [],
  settings: SETTING_NAMES,
  async run(input) {
    input.settings()
    input.io.err('the settings are valid\n')
    return 0
  },
}

function describeSetting(
  settings: Settings,
  name: SettingName,
  withOrigin: boolean,
  isJson: boolean,
): Row {
  const { fileKey, isSecret } = SETTINGS[name]
  const text = formatSetting(name, settings[name])
  const raw = isSecret ? text || null : settings[name]
  return {
    setting: fileKey,
    value: isJson ? raw : text,
    ...(withOrigin ? { origin: settings.origins[name].text } : {}),
  }
}
