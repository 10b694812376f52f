/** The progress of the setup, as the daemon reports it. */
import { ApiError, get, hasEvent } from '../../kit.ts'

/** The state of a step; null if the session may not read it. */
export type Tick = boolean | null

/** The slower steps: persons, flags, backups, and the proxy between this browser and the daemon. */
export interface Progress {
  readonly identified: Tick
  readonly decided: Tick
  readonly backup: Tick
  readonly proxy: Tick
}

/** Checks all steps except the first event. */
export async function askProgress(signal: AbortSignal): Promise<Progress> {
  const [identified, decided, backup, proxy] = await Promise.all([
    unlessRefused(hasEvent('$identify', signal)),
    unlessRefused(hasFlags(signal)),
    unlessRefused(hasBackup(signal)),
    unlessRefused(isAddressSeen(signal)),
  ])
  return { identified, decided, backup, proxy }
}

/** Resolves to null if the daemon refuses the request. If the daemon cannot be reached, the error is passed on. */
async function unlessRefused(tick: Promise<boolean>): Promise<Tick> {
  try {
    return await tick
  } catch (error) {
    if (error instanceof ApiError && error.status >= 400 && error.status < 500) return null
    throw error
  }
}

async function hasFlags(signal: AbortSignal): Promise<boolean> {
  if (await hasEvent('$feature_flag_called', signal)) return true
  const { results } = await get('project/feature_flags/', { limit: 1 }, signal)
  return results.length > 0
}

async function hasBackup(signal: AbortSignal): Promise<boolean> {
  const { backups } = await get('organization/status/', {}, signal)
  return backups.last_at !== null
}

/**
 * Returns true if the daemon sees the address of this browser, and not that of a proxy on its own machine. Rate limits,
 * GeoIP and the audit log need the real address.
 */
async function isAddressSeen(signal: AbortSignal): Promise<boolean> {
  if (isOfThisMachine(location.hostname)) return true
  const { results } = await get('console/sessions/', {}, signal)
  return !results.some((one) => one.is_current && isOfThisMachine(one.address))
}

function isOfThisMachine(host: string): boolean {
  return /^(localhost|127\.|\[?::1\]?$|::ffff:127\.)/.test(host)
}
