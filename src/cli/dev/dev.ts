/**
 * `tenrec dev`: a daemon for the tests of an application. It has a temporary data directory, fixed public keys, and
 * routes that empty the project and wait for events. See docs/TESTING-YOUR-APP.md.
 *
 * The keys are public, so this daemon must not be used with real data. It reads no configuration file and no
 * environment, has no --data-dir, and listens on the loopback address by default. Ordinary stores refuse these keys
 * (store/open-store.ts).
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

/** Settings for fast tests, as flags of `tenrec serve`. */
const FIXED_FLAGS = {
  workers: '1',
  durability: 'commit',
  // Worker threads log to standard output, which is reserved for the ready line. The main thread logs what matters.
  'log-level': 'silent',
  'log-format': 'json',
  'processing-lag-limit-ms': '3600000',
} as const

/** `tenrec dev`. */
export const COMMANDS: Commands = [
  {
    name: 'dev',
    sentence:
      'Run a daemon for the end-to-end tests of an application, with temporary data, and with keys that are the same everywhere and not secret. It prints one line of JSON when it is ready.',
    options: {
      '--port NUMBER': 'Port to listen on. Default: a free port.',
      '--host ADDRESS':
        'Address to listen on. The keys are public, so anybody who can reach the address can use them. Default: 127.0.0.1.',
      '--until-stdin-ends':
        'Also stop when standard input ends, which happens when the parent process ends.',
      '--log-level LEVEL': {
        sentence: 'Lowest severity that is logged to standard error. Default: warn.',
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
  // The options are checked before anything is created.
  settingsOf(input, '/')
  removeAbandonedFolders(io.clock.now())
  const folder = makeThrowAwayFolder()
  const remove = (): void => removeThrowAwayFolder(folder)
  // The directory is also removed after a second signal or an uncaught exception, which end the process at once.
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

/**
 * Reports a failure and returns the exit code. As in `tenrec serve`, a thread of a failed store may hang forever and
 * prevent an ordinary exit.
 */
function fail(io: CommandIo, failure: unknown, remove: () => void): number {
  const reason = failure instanceof Error ? failure.message : String(failure)
  io.err(`tenrec: The daemon failed: ${reason}\n`)
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
    // With `isBeside`, the daemon ignores the environment variables of a service manager, because no service manager
    // controls `tenrec dev`.
    isBeside: true,
    developmentKey: DEVELOPMENT_PROJECT_KEY,
  })
  if (!isLoopbackHost(settings.host)) {
    io.err(
      `tenrec: The daemon listens on ${settings.host}. Anybody who can reach it can read and empty the project.\n`,
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

/** Returns the settings of the daemon. Throws `UsageError`. */
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
  throw new UsageError(`--log-level must be one of ${LOG_LEVELS.join(', ')}.`)
}
