/**
 * The only door to pino. Nothing here ever sees a body, a key or an address of a person. Where stdout
 * is the journal of systemd, each line begins with its priority (sd-daemon(3)), so that
 * `journalctl -p warning` finds what matters.
 */
import { fstatSync } from 'node:fs'
import type { Logger as PinoLogger } from 'pino'
import { loadPackage } from './load-package.ts'

const { pino } = loadPackage('pino') as typeof import('pino')

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

/** Priorities of syslog by level of a line, highest level first: `[level at least, priority]`. */
const PRIORITIES = [
  [60, 2],
  [50, 3],
  [40, 4],
  [30, 6],
] as const
const PRIORITY_DEBUG = 7

/** Puts the priority in front of each line; pino tells the level of the line before it writes it. */
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

/** True if stdout is a stream of the journal, which `JOURNAL_STREAM` names by device and inode. */
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

/** Control characters, which steer a terminal or begin a line that nobody wrote. */
const CONTROLS = /[\p{Cc}\u2028\u2029]/gu

function visible(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** A line of pino in which texts hold no control characters; only a stack keeps its lines. */
function printable(line: string): string {
  const shown: unknown = JSON.parse(line, (key, value: unknown) => {
    if (typeof value !== 'string') return value
    if (key !== 'stack') return value.replace(CONTROLS, visible)
    return value.replace(CONTROLS, (found) => (found === '\n' ? found : visible(found)))
  })
  return `${JSON.stringify(shown)}\n`
}

/**
 * Creates the logger of a process: JSON lines on stdout, or readable lines on a terminal. A line that
 * cannot be written (a full disk, a reader of the pipe that left) is lost and nothing else.
 */
export function createLogger(options: {
  level: LogLevel
  format: LogFormat
  /** Standard output, unless it is for something else. */
  descriptor?: 1 | 2
}): Logger {
  const base = { level: options.level, base: null }
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
