/** Reads and writes YAML. Only this file imports `yaml`, and only when a command needs it. */
import { OperatorError } from '../../base/errors.ts'
import { YAML_ALIASES_MAX } from '../limits.ts'

/** Parses a text. `source` names it in errors. Throws `OperatorError` for a text that is not YAML. */
export async function parseYaml(text: string, source: string): Promise<unknown> {
  const { parse } = await import('yaml')
  try {
    // Aliases may stand for very large values. Warnings would be written to the terminal.
    return parse(text, { maxAliasCount: YAML_ALIASES_MAX, logLevel: 'error' }) as unknown
  } catch (cause) {
    const reason = cause instanceof Error ? (cause.message.split('\n')[0] ?? '') : ''
    const words = reason.replace(/; please use YAML\.\w+\(\)/, '').replace(/:$/, '')
    throw new OperatorError(`${source} is not valid YAML: ${words}.`, { cause })
  }
}

/** Returns a value as YAML. Long texts stay on one line, so that a change of a text is a change of one line. */
export async function yamlText(value: unknown): Promise<string> {
  const { stringify } = await import('yaml')
  return stringify(value, { lineWidth: 0 })
}
