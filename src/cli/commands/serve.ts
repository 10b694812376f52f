/** `tenrec serve`: the daemon, from the first start to the last signal. */
import { createLogger } from '../../base/log.ts'
import { baseUrlOf } from '../../config/base-url.ts'
import type { Settings } from '../../config/settings.ts'
import { SETTING_NAMES } from '../../config/settings-table.ts'
import { OrganizationStore, SHARED_CATALOGUE } from '../../store/catalog/organization-store.ts'
import { correctBaseUrl, type JoinCatalogue, openFilled } from '../../store/open-store.ts'
import type { CommandIo, Commands } from '../lib/command.ts'
import { firstStartMessage } from '../lib/first-start-message.ts'
import { loginLink } from '../lib/login-link.ts'

/** The user of the first start. */
const OWNER_ID = 1

/** `tenrec serve`. */
export const COMMANDS: Commands = [
  {
    name: 'serve',
    sentence: 'Serve. SIGTERM or SIGINT stops within 10 s; a second signal stops at once.',
    settings: SETTING_NAMES,
    run: (input) => serve(input.settings(), input.io),
  },
]

async function serve(settings: Settings, io: CommandIo): Promise<number> {
  const stop = watchSignals(io)
  const filled = await openFilled(settings, io.clock, await joining(settings))
  let { first } = filled
  const code = first !== null && settings.isConsoleOn ? await ownersCode(settings, io) : null
  // Loaded late, so that no other command loads the HTTP server.
  const { startDaemon } = await import('../../daemon.ts')
  const daemon = await startDaemon(settings, {
    dataDir: filled.dataDir,
    onListening(port) {
      if (first !== null) first = correctBaseUrl(first, baseUrlOf(settings, port))
    },
  }).catch((error: unknown) => {
    if (first !== null) io.err(`the keys are in ${first.credentialsPath}\n`)
    throw error
  })
  if (first !== null) {
    const link = code === null ? undefined : loginLink(code, first.baseUrl, settings)
    io.out(firstStartMessage(first, link))
  }
  const failure = await Promise.race([stop.requested.then(() => null), daemon.failed])
  if (failure !== null) return fail(io, failure)
  await daemon.stop()
  stop.forget()
  return 0
}

/** How a data directory becomes that of a machine of a cluster, or of one box. */
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

/** A code with which the owner logs into the console. The store must be this process's. */
async function ownersCode({ dataDir }: Settings, { clock }: CommandIo): Promise<string> {
  const store = new OrganizationStore(dataDir, clock)
  try {
    return store.console.createCode(OWNER_ID)
  } finally {
    await store.close()
  }
}

/**
 * A failed store may hold a thread for ever and would hold an ordinary exit too, so the process is
 * killed. A failure that is only a message (the directory was moved) is not of that kind.
 */
function fail(io: CommandIo, failure: unknown): number {
  if (typeof failure === 'string') io.err(`tenrec: ${failure}\n`)
  else io.exitNow('kill')
  return 1
}

/** Listens from the beginning, so that a signal during the start is not lost. */
function watchSignals(io: CommandIo): { requested: Promise<void>; forget(): void } {
  let isRequested = false
  let request: () => void = () => {}
  const requested = new Promise<void>((resolve) => {
    request = resolve
  })
  const forgetStop = io.onStopSignal(() => {
    if (isRequested) io.exitNow(1)
    isRequested = true
    request()
  })
  const forgetHangup = io.onHangup(() => {
    io.err('no setting can be changed while running: restart to apply changes\n')
  })
  return {
    requested,
    forget() {
      forgetStop()
      forgetHangup()
    },
  }
}
