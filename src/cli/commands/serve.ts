/** `tenrec serve`: runs the daemon until a signal stops it. */
import { OperatorError } from '../../base/errors.ts'
import { createLogger, type Logger } from '../../base/log.ts'
import { filesMissing, filesOfDaemon } from '../../base/process-limits.ts'
import { VERSION } from '../../base/version.ts'
import { baseUrlOf } from '../../config/base-url.ts'
import { daemonSettings, type Settings } from '../../config/settings.ts'
import { SETTING_NAMES } from '../../config/settings-table.ts'
import type { Daemon } from '../../daemon.ts'
import { OrganizationStore, SHARED_CATALOGUE } from '../../store/catalog/organization-store.ts'
import {
  type FilledDataDir,
  type JoinCatalogue,
  openFilled,
  updateBaseUrl,
} from '../../store/open-store.ts'
import type { CommandIo, Commands } from '../lib/command.ts'
import { firstStartMessage } from '../lib/first-start-message.ts'
import { loginLink } from '../lib/login-link.ts'
import { type StopRequest, watchStopSignals } from '../lib/stop-request.ts'

/** The ID of the user that is created by the first start. */
const OWNER_ID = 1

/** `tenrec serve`. */
export const COMMANDS: Commands = [
  {
    name: 'serve',
    sentence:
      'Run the daemon. SIGTERM or SIGINT stops it within 10 seconds, and a second signal stops it at once.',
    settings: SETTING_NAMES,
    run: (input) => serve(input.settings(), input.io),
  },
]

async function serve(settings: Settings, io: CommandIo): Promise<number> {
  // The machine runs one daemon for each partition.
  const partitions = Math.max(1, settings.partitions.length)
  const obstacle = filesMissing(filesOfDaemon(settings.workerThreads) * partitions)
  if (obstacle !== null) throw new OperatorError(obstacle, { exitCode: 78 })
  // The module is loaded here, so that other commands do not load the HTTP server.
  const { chooseFront } = await import('../../http/server/choose-front.ts')
  // If the HTTP library cannot be loaded, this throws before anything is written.
  chooseFront(settings.httpServer)
  const stop = watchSignals(io)
  const daemons = await startAll(settings, io)
  const failures = daemons.map(({ failed }) => failed)
  const failure = await Promise.race([stop.requested.then(() => null), ...failures])
  if (failure !== null) return fail(io, failure)
  await stopAll(daemons)
  stop.forget()
  return 0
}

/**
 * Starts one daemon for each partition that this machine stores, and returns them. The first one serves the clients and
 * becomes ready last. If a daemon cannot start, this function stops all others and throws.
 */
async function startAll(settings: Settings, io: CommandIo): Promise<readonly Daemon[]> {
  const log = createLogger({ level: settings.logLevel, format: settings.logFormat })
  const [ofFirst, ...ofOthers] = daemonSettings(settings)
  // The directory of the first daemon is created first: the other daemons use its catalogue, and its keys are printed
  // for the operator.
  const filled = await openFilled(ofFirst, io.clock, await joining(ofFirst))
  const others: Daemon[] = []
  let isOthersTurn = true
  try {
    for (const one of ofOthers) others.push(await startBeside(one, io, log))
    // From here on, the first daemon releases its directory itself if its start fails.
    isOthersTurn = false
    return [await startFirst(ofFirst, filled, io, log), ...others]
  } catch (error) {
    if (filled.first !== null)
      io.err(`The keys of the new data directory are in ${filled.first.credentialsPath}.\n`)
    if (isOthersTurn) filled.dataDir.release()
    await stopAll(others)
    throw error
  }
}

async function startFirst(
  settings: Settings,
  filled: FilledDataDir,
  io: CommandIo,
  log: Logger,
): Promise<Daemon> {
  let { first } = filled
  const code = first !== null && settings.isConsoleOn ? await ownersCode(settings, io) : null
  // The module is loaded here, so that other commands do not load the HTTP server.
  const { startDaemon } = await import('../../daemon.ts')
  const daemon = await startDaemon(settings, {
    dataDir: filled.dataDir,
    log,
    onListening(port) {
      const baseUrl = baseUrlOf(settings, port)
      if (first !== null) first = { ...first, baseUrl }
      // Commands read the address of the daemon from this file. The daemon itself runs without it, so an error is only
      // logged.
      try {
        updateBaseUrl(filled.dataDir.path, baseUrl)
      } catch (err) {
        log.warn(
          { err },
          `The address in credentials.json could not be changed to ${baseUrl}. Commands need --base-url.`,
        )
      }
    },
  })
  const { url, httpServer } = daemon
  log.info({ url, pid: process.pid, version: VERSION, httpServer }, 'ready')
  if (first !== null) {
    const link = code === null ? undefined : loginLink(code, first.baseUrl, settings)
    io.out(firstStartMessage(first, link))
  }
  return daemon
}

async function startBeside(settings: Settings, io: CommandIo, logOfAll: Logger): Promise<Daemon> {
  const [partition] = settings.partitions
  const log = logOfAll.child({ partition })
  const { dataDir } = await openFilled(settings, io.clock, await joining(settings))
  const { startDaemon } = await import('../../daemon.ts')
  const daemon = await startDaemon(settings, { dataDir, log, isBeside: true })
  log.info({ url: daemon.url }, 'stores another partition')
  return daemon
}

/** Stops all daemons at once, because each may take most of the time limit. A failure does not affect the others. */
async function stopAll(daemons: readonly Daemon[]): Promise<void> {
  const ended = await Promise.allSettled(daemons.map((daemon) => daemon.stop()))
  for (const one of ended) if (one.status === 'rejected') throw one.reason
}

/**
 * Returns a function that fills a new data directory. If the settings name a cluster, it makes the data directory part
 * of the cluster. Otherwise, it takes the data directory out of a cluster.
 */
async function joining(settings: Settings): Promise<JoinCatalogue> {
  const { logLevel: level, logFormat: format, cluster: servers, warehouse } = settings
  if (servers.length === 0) {
    return async (fill, dataDir) => {
      if (SHARED_CATALOGUE.place(dataDir) !== null) {
        const { leaveCluster } = await import('../../cluster/one-box.ts')
        await leaveCluster({ settings, logger: createLogger({ level, format }) })
      }
      fill()
      return true
    }
  }
  const { enterCluster, prepareBox } = await import('../../cluster/one-box.ts')
  const { joinCatalogue } = await import('../../cluster/join-catalogue.ts')
  const logger = createLogger({ level, format })
  return async (fill, dataDir) => {
    const isBox = await prepareBox({ settings, logger })
    const isKept = await joinCatalogue({ dataDir, servers, logger, warehouse, fill })
    if (isBox) await enterCluster(dataDir)
    return isKept
  }
}

/** Creates a code with which the owner can log into the console. Call it only in the process that holds the store. */
async function ownersCode({ dataDir }: Settings, { clock }: CommandIo): Promise<string> {
  const store = new OrganizationStore(dataDir, clock)
  try {
    return store.console.createCode(OWNER_ID)
  } finally {
    await store.close()
  }
}

/**
 * Reports a failure of the daemon and returns the exit code. If the store has failed, a thread may hang forever and
 * prevent an ordinary exit, so the process is killed. If `failure` is a text, such as that the directory was moved, the
 * store has not failed and the process exits as usual.
 */
function fail(io: CommandIo, failure: unknown): number {
  if (typeof failure === 'string') io.err(`tenrec: ${failure}\n`)
  else io.exitNow('kill')
  return 1
}

/** Watches the signals that stop the daemon. For SIGHUP, it prints that the daemon does not reload its settings. */
function watchSignals(io: CommandIo): Pick<StopRequest, 'requested' | 'forget'> {
  const { requested, forget: forgetStop } = watchStopSignals(io)
  const forgetHangup = io.onHangup(() => {
    io.err('Settings cannot be changed while the daemon runs. Restart it to apply changes.\n')
  })
  return {
    requested,
    forget() {
      forgetStop()
      forgetHangup()
    },
  }
}
