/** What is done of what every installation should have, as the daemon tells it. */
import { ApiError, get, hasEvent } from '../../kit.ts'

/** Null: it cannot be told, because the session may not ask. */
export type Tick = boolean | null

/** What takes its time: persons, flags, backups, and what is between this browser and the daemon. */
export interface Progress {
  readonly identified: Tick
  readonly decided: Tick
  readonly backup: Tick
  readonly proxy: Tick
}

/** Looks at everything but the first event. */
export async function askProgress(signal: AbortSignal): Promise<Progress> {
  const [identified, decided, backup, proxy] = await Promise.all([
    unlessRefused(hasEvent('$identify', signal)),
    unlessRefused(hasFlags(signal)),
    unlessRefused(hasBackup(signal)),
    unlessRefused(isAddressSeen(signal)),
  ])
  return { identified, decided, backup, proxy }
}

/** Null where the daemon refuses; that it cannot be reached is a failure of the page. */
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
 * True if the daemon sees the address of this browser and not that of a proxy on its own machine: only then
 * do limits, GeoIP and the audit log know who is who.
 */
async function isAddressSeen(signal: AbortSignal): Promise<boolean> {
  if (isOfThisMachine(location.hostname)) return true
  const { results } = await get('console/sessions/', {}, signal)
  return !results.some((one) => one.is_current && isOfThisMachine(one.address))
}

function isOfThisMachine(host: string): boolean {
  return /^(localhost|127\.|\[?::1\]?$|::ffff:127\.)/.test(host)
}
