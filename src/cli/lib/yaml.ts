/** Reads and writes YAML. This is the only file that imports `yaml`, which is loaded when a command needs it. */
import { OperatorError } from '../../base/errors.ts'
import { YAML_ALIASES_MAX } from '../limits.ts'

/**
 * Parses a text. Integers beyond 2^53 become texts, so that they keep all their digits. `source` names the text in
 * errors. Throws `OperatorError` for a text that is not YAML.
 */
export async function parseYaml(text: string, source: string): Promise<unknown> {
  const { parse } = await import('yaml')
  try {
    // A short file with many aliases may stand for a very large value, so the number of aliases is limited. The log
    // level keeps warnings off the terminal.
    const options = {
      maxAliasCount: YAML_ALIASES_MAX,
      logLevel: 'error',
      intAsBigInt: true,
    } as const
    return parse(text, exactInteger, options) as unknown
  } catch (cause) {
    const reason = cause instanceof Error ? (cause.message.split('\n')[0] ?? '') : ''
    const words = reason.replace(/; please use YAML\.\w+\(\)/, '').replace(/:$/, '')
    throw new OperatorError(`${source} is not valid YAML: ${words}.`, { cause })
  }
}

function exactInteger(_: unknown, value: unknown): unknown {
  if (typeof value !== 'bigint') return value
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : String(value)
}

/** Returns a value as YAML. A long text stays on one line, so that a change of the text changes one line. */
export async function yamlText(value: unknown): Promise<string> {
  const { stringify } = await import('yaml')
  return stringify(value, { lineWidth: 0 })
}
