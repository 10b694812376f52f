/** Values of options that are no settings, read with a message that says what is allowed. */
import { UsageError } from '../../base/errors.ts'
import { splitList } from '../../config/value-kinds.ts'
import type { CommandInput } from './command.ts'

/** No store has larger numbers. */
const ID_MAX = 0xffff_fffe

/** A positive whole number, such as the id of a project. Throws `UsageError`. */
export function parseId(what: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text) && Number(text) <= ID_MAX) return Number(text)
  throw new UsageError(`${what}: ${JSON.stringify(text)} is not a number from 1 to ${ID_MAX}`)
}

/** The number of `--name`, or the default. Throws `UsageError`. */
export function idOption(input: CommandInput, name: string, byDefault: number): number {
  const text = input.options.get(name)
  return text === undefined ? byDefault : parseId(`--${name}`, text)
}

/** The items of `--name`, separated by commas; undefined when it is not given. */
export function listOption(input: CommandInput, name: string): readonly string[] | undefined {
  const text = input.options.get(name)
  return text === undefined ? undefined : splitList(text)
}

/** The time of `--name` in milliseconds; undefined when it is not given. Throws `UsageError`. */
export function timeOption(input: CommandInput, name: string): number | undefined {
  const text = input.options.get(name)
  if (text === undefined) return undefined
  const timeMs = /^\d{4}-\d\d-\d\d([T ].*)?$/.test(text) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(timeMs)) return timeMs
  throw new UsageError(`--${name}: ${JSON.stringify(text)} is not a time such as 2026-01-31T12:00Z`)
}
