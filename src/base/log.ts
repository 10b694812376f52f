/**
 * The program's log. Only this file imports pino. The log never contains bodies, keys, or the addresses of persons. If
 * stdout is the journal of systemd, each line begins with its priority (sd-daemon(3)), so that `journalctl -p warning`
 * finds warnings and errors.
 */
import { fstatSync } from 'node:fs'
import type { Logger as PinoLogger } from 'pino'
import { loadPackage } from './load-package.ts'
import { withSourcePositions } from './source-positions.ts'

const { pino } = loadPackage('pino') as typeof import('pino')

/** Severities, least severe first. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
/** One of `LOG_LEVELS`. */
export type LogLevel = (typeof LOG_LEVELS)[number]
/** The formats of log lines: JSON for machines, text for a terminal. */
export const LOG_FORMATS = ['json', 'pretty'] as const
/** One of `LOG_FORMATS`. */
export type LogFormat = (typeof LOG_FORMATS)[number]

/** A structured logger: `log.info({ field }, 'message')`. */
export type Logger = PinoLogger

/** The syslog priority for each log level of pino: `[lowest level, priority]`, highest level first. */
const PRIORITIES = [
  [60, 2],
  [50, 3],
  [40, 4],
  [30, 6],
] as const
const PRIORITY_DEBUG = 7

/** Writes each line to stdout with its priority in front. Pino sets `lastLevel` before it writes the line. */
class JournalStream {
  readonly [pino.symbols.needsMetadataGsym] = true
  lastLevel = 0
  lastTime = ''
  lastMsg = ''
  lastObj = {}
  lastLogger: unknown = null
  readonly #destination: { write(line: string): unknown }

  constructor(destination: { write(line: string): unknown }) {
    this.#destination = destination
  }

  write(line: string): void {
    const entry = PRIORITIES.find(([level]) => this.lastLevel >= level)
    this.#destination.write(`<${entry?.[1] ?? PRIORITY_DEBUG}>${line}`)
  }
}

/**
 * Returns true if stdout is connected to the journal. The variable `JOURNAL_STREAM` contains the device and inode of
 * the journal's stream.
 */
function isJournal(): boolean {
  const named = process.env['JOURNAL_STREAM'] ?? ''
  if (named === '') return false
  try {
    const { dev, ino } = fstatSync(1, { bigint: true })
    return named === `${dev}:${ino}`
  } catch {
    return false
  }
}

/** Control characters. They could send commands to the terminal, or make a text look like a new log line. */
const CONTROLS = /[\p{Cc}\u2028\u2029]/gu

function visible(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Returns a line of pino with all control characters in texts escaped. Only a stack keeps its line breaks. */
function printable(line: string): string {
  const shown: unknown = JSON.parse(line, (key, value: unknown) => {
    if (typeof value !== 'string') return value
    if (key !== 'stack') return value.replace(CONTROLS, visible)
    return value.replace(CONTROLS, (found) => (found === '\n' ? found : visible(found)))
  })
  return `${JSON.stringify(shown)}\n`
}

/** Returns the fields of an error, with the positions of the sources in its stack trace. */
function errorFields(error: Error): unknown {
  const fields = pino.stdSerializers.err(error)
  if (typeof fields?.stack === 'string') {
    fields.stack = withSourcePositions(fields.stack, error.message)
  }
  return fields
}

/**
 * Creates the logger of a process: JSON lines on stdout, or readable lines on a terminal. A line that cannot be written
 * (a full disk, a pipe that was closed) is dropped without an error.
 */
export function createLogger(options: {
  level: LogLevel
  format: LogFormat
  /** The output: stdout by default, or stderr if the caller writes something else to stdout. */
  descriptor?: 1 | 2
}): Logger {
  const base = { level: options.level, base: null, serializers: { err: errorFields } }
  if (options.format === 'pretty') {
    const colorize = process.stdout.isTTY && (process.env['NO_COLOR'] ?? '') === ''
    const pretty = loadPackage('pino-pretty') as typeof import('pino-pretty')
    const stream = pretty({ colorize, sync: true, ignore: 'pid,hostname' })
    return pino(base, { write: (line) => void stream.write(printable(line)) })
  }
  const destination = pino.destination({ dest: options.descriptor ?? 1, sync: true })
  destination.on('error', () => {})
  return pino(base, isJournal() ? new JournalStream(destination) : destination)
}
