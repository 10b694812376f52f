/** The configuration file: TOML with one top-level key for each setting. Only this file imports smol-toml. */
import { readFileSync } from 'node:fs'
import { parse, TomlError } from 'smol-toml'
import { UsageError } from '../base/errors.ts'
import { SETTING_NAMES, SETTINGS } from './settings-table.ts'
import { didYouMean } from './suggestion.ts'

/** A value, and its location in the file for messages, such as `/etc/tenrec/tenrec.toml line 3`. */
export interface ConfigEntry {
  readonly value: unknown
  readonly place: string
}

/** The content of a configuration file. */
export class ConfigFile {
  readonly #entries: ReadonlyMap<string, ConfigEntry>

  private constructor(entries: ReadonlyMap<string, ConfigEntry>) {
    this.#entries = entries
  }

  /** Reads a file. Throws `UsageError` if the file cannot be read, is not valid TOML or has an unknown key. */
  static read(path: string): ConfigFile {
    const source = readSource(path)
    const known = SETTING_NAMES.map((name) => SETTINGS[name].fileKey)
    const entries = new Map<string, ConfigEntry>()
    for (const [key, value] of Object.entries(parseSource(path, source))) {
      const place = `${path} ${placeOf(source, key)}`
      if (!known.includes(key)) {
        throw new UsageError(
          `Unknown setting \`${key}\` in ${place}${didYouMean(key, known)} ` +
            "Run 'tenrec help serve' to see all settings.",
        )
      }
      entries.set(key, { value, place })
    }
    return new ConfigFile(entries)
  }

  get(key: string): ConfigEntry | undefined {
    return this.#entries.get(key)
  }
}

function readSource(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new UsageError(`The configuration file ${path} cannot be read: ${reason}.`)
  }
}

function parseSource(path: string, source: string): Record<string, unknown> {
  try {
    return parse(source)
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const [reason] = error.message.split('\n')
    throw new UsageError(
      `The configuration file ${path} is not valid TOML: line ${error.line}, ` +
        `column ${error.column}: ${reason}.`,
    )
  }
}

/** Returns the location of a top-level key, such as `line 3, column 1`. The parser does not report it. */
function placeOf(source: string, key: string): string {
  const lines = source.split('\n')
  for (const [index, line] of lines.entries()) {
    const match = /^(\s*\[{0,2}\s*["']?)([\w-]+)/.exec(line)
    if (match?.[2] === key) return `line ${index + 1}, column ${(match[1]?.length ?? 0) + 1}`
  }
  return 'line 1'
}
