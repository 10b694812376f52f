/**
 * `tenrec dev`: a daemon for the tests of an application. It has a data directory that ends with it, keys that a test
 * can name, and routes that empty the project and wait for events. docs/TESTING-YOUR-APP.md.
 *
 * The keys are public, so this daemon must never be taken for another one: it reads no configuration file and no
 * environment, has no --data-dir, listens on the loopback address unless it is told otherwise, and the stores refuse
 * the keys everywhere else (store/open-store.ts).
 */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { createLogger, LOG_LEVELS, type LogLevel } from '../../base/log.ts'
import { filesMissing, filesOfDaemon } from '../../base/process-limits.ts'
import { VERSION } from '../../base/version.ts'
import { loadSettings, type Settings } from '../../config/settings.ts'
import type { Daemon } from '../../daemon.ts'
import {
  DEVELOPMENT_PERSONAL_KEY,
  DEVELOPMENT_PROJECT_KEY,
} from '../../rules/access/development-keys.ts'
import { openForDevelopment } from '../../store/open-store.ts'
import type { CommandInput, CommandIo, Commands } from '../lib/command.ts'
import { isLoopbackHost } from '../lib/loopback.ts'
import { watchStopSignals } from '../lib/stop-request.ts'
import {
  makeThrowAwayFolder,
  removeAbandonedFolders,
  removeThrowAwayFolder,
} from './throw-away-folder.ts'

/** What a test does not wait for or care about, as flags of `tenrec serve`. */
const FIXED_FLAGS = {
  workers: '1',
  durability: 'commit',
  // Threads write to standard output, which is for the ready line; what matters is logged by the main thread.
  'log-level': 'silent',
  'log-format': 'json',
  'processing-lag-limit-ms': '3600000',
} as const

/** `tenrec dev`. */
export const COMMANDS: Commands = [
  {
    name: 'dev',
    sentence:
      'Serve the end-to-end tests of an application, from memory and with public keys; print a line of JSON when ready.',
    options: {
      '--port NUMBER': 'The port; without it a free one.',
      '--host ADDRESS':
        'Where to listen; without it 127.0.0.1. Anybody who reaches it knows the keys.',
      '--until-stdin-ends':
        'Also stop when standard input ends, as it does with the parent process.',
      '--log-level LEVEL': {
        sentence: 'What standard error tells; without it warn.',
        choices: LOG_LEVELS,
      },
    },
    settings: [],
    run: (input) => develop(input),
  },
]

async function develop(input: CommandInput): Promise<number> {
  const { io } = input
  const logLevel = logLevelOf(input)
  const stop = watchStopSignals(io)
  const forgetHangup = io.onHangup(() => stop.request())
  const forgetInput = input.has('until-stdin-ends') ? io.onInputEnd?.(() => stop.request()) : null
  // Before anything is made: a wrong option leaves nothing behind.
  settingsOf(input, '/')
  removeAbandonedFolders(io.clock.now())
  const folder = makeThrowAwayFolder()
  const remove = (): void => removeThrowAwayFolder(folder)
  // A second signal or an uncaught exception ends the process at once.
  process.once('exit', remove)
  try {
    const daemon = await start(input, folder, logLevel)
    const failure = await Promise.race([stop.requested.then(() => null), daemon.failed])
    if (failure !== null) return fail(io, failure, remove)
    await daemon.stop()
  } finally {
    remove()
    process.off('exit', remove)
    stop.forget()
    forgetHangup()
    forgetInput?.()
  }
  return 0
}

/** As for `tenrec serve`: a failed store may hold a thread for ever, and with it an ordinary exit. */
function fail(io: CommandIo, failure: unknown, remove: () => void): number {
  const reason = failure instanceof Error ? failure.message : String(failure)
  io.err(`tenrec: the daemon failed: ${reason}\n`)
  remove()
  if (typeof failure !== 'string') io.exitNow('kill')
  return 1
}

async function start(input: CommandInput, folder: string, level: LogLevel): Promise<Daemon> {
  const { io } = input
  const settings = settingsOf(input, folder)
  const obstacle = filesMissing(filesOfDaemon(settings.workerThreads))
  if (obstacle !== null) throw new OperatorError(obstacle, { exitCode: 78 })
  const { dataDir } = await openForDevelopment(settings, io.clock)
  const { startDaemon } = await import('../../daemon.ts')
  const daemon = await startDaemon(settings, {
    dataDir,
    log: createLogger({ level, format: 'json', descriptor: 2 }),
    // No service manager has to do with it.
    isBeside: true,
    developmentKey: DEVELOPMENT_PROJECT_KEY,
  })
  if (!isLoopbackHost(settings.host)) {
    io.err(
      `tenrec: listening on ${settings.host}: whoever reaches it can read and empty the project\n`,
    )
  }
  sayReady(io, daemon, folder)
  return daemon
}

function sayReady(io: CommandIo, { url }: Daemon, folder: string): void {
  const ready = {
    url,
    project_id: 1,
    project_api_key: DEVELOPMENT_PROJECT_KEY,
    personal_api_key: DEVELOPMENT_PERSONAL_KEY,
    pid: process.pid,
    version: VERSION,
    data_dir: folder,
  }
  io.out(`${JSON.stringify(ready)}\n`)
}

/** Throws `UsageError`. */
function settingsOf(input: CommandInput, folder: string): Settings {
  const flags = new Map<string, string>(Object.entries(FIXED_FLAGS))
  flags.set('data-dir', folder)
  flags.set('host', input.text('host') ?? '127.0.0.1')
  flags.set('port', input.text('port') ?? '0')
  const settings = loadSettings({ flags, environment: {}, machine: input.io.machine })
  return {
    ...settings,
    bootstrapProjectKey: DEVELOPMENT_PROJECT_KEY,
    bootstrapPersonalKey: DEVELOPMENT_PERSONAL_KEY,
  }
}

function logLevelOf(input: CommandInput): LogLevel {
  const text = input.text('log-level') ?? 'warn'
  const level = LOG_LEVELS.find((known) => known === text)
  if (level !== undefined) return level
  throw new UsageError(`--log-level: allowed are ${LOG_LEVELS.join(', ')}`)
}
