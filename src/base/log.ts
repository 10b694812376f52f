/** The only door to pino. Nothing here ever sees a body, a key or an address of a person. */
import { type Logger as PinoLogger, pino } from 'pino'
import pretty from 'pino-pretty'

/** Severities, least severe first. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
/** One of `LOG_LEVELS`. */
export type LogLevel = (typeof LOG_LEVELS)[number]
/** How lines are written: JSON for machines, text for a terminal. */
export const LOG_FORMATS = ['json', 'pretty'] as const
/** One of `LOG_FORMATS`. */
export type LogFormat = (typeof LOG_FORMATS)[number]

/** A structured logger: `log.info({ field }, 'message')`. */
export type Logger = PinoLogger

/**
 * Creates the logger of a process: JSON lines on stdout, or readable lines on a terminal. A line that
 * cannot be written (a full disk, a reader of the pipe that left) is lost and nothing else.
 */
export function createLogger(options: { level: LogLevel; format: LogFormat }): Logger {
  const base = { level: options.level, base: null }
  if (options.format === 'pretty') {
    const colorize = process.stdout.isTTY && (process.env['NO_COLOR'] ?? '') === ''
    return pino(base, pretty({ colorize, sync: true, ignore: 'pid,hostname' }))
  }
  const destination = pino.destination({ dest: 1, sync: true })
  destination.on('error', () => {})
  return pino(base, destination)
}
