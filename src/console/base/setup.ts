/** The progress of the setup, as the daemon reports it, and the line that sites load. */
import { useEffect, useState } from 'preact/hooks'
import { ApiError, get } from './api.ts'
import { hasEvent } from './queries.ts'
import { closedProject, may, project } from './session.ts'

/** The state of a step; null if the session may not read it. */
export type Tick = boolean | null

/** The slower steps: persons, flags, backups, and the proxy between this browser and the daemon. */
export interface Progress {
  readonly identified: Tick
  readonly decided: Tick
  readonly backup: Tick
  readonly proxy: Tick
}

/** What this browser knows about projects: a JSON object that maps their numbers to true if their setup is done. */
const KEY = 'tenrec-setup'
/** The first page is loaded before the progress is asked for. */
const ASK_AFTER_MS = 3000

function knownProjects(): Readonly<Record<string, unknown>> {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}')
    return typeof stored === 'object' && stored !== null ? (stored as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

/**
 * Returns true if all steps of the setup are done, as far as this session may know. The daemon is asked once for each
 * project while it is not, and never again once it is. Until the answer is there, the last one counts, so that the
 * navigation bar does not change under the pointer.
 */
export function useSetupDone(): boolean {
  const { id } = project.value
  const isClosed = closedProject.value !== null
  const [isDone, setDone] = useState(() => knownProjects()[id] !== false)
  useEffect(() => {
    const known = knownProjects()[id]
    if (isClosed || !may('project:read') || known === true) return setDone(true)
    setDone(known !== false)
    const abort = new AbortController()
    const timer = setTimeout(() => void ask().catch(() => {}), ASK_AFTER_MS)
    async function ask() {
      const [hasEvents, rest] = await Promise.all([
        tickOf('event_definition:read', () => hasEvent('', abort.signal)),
        askProgress(abort.signal),
      ])
      const isFinished = [hasEvents, rest.identified, rest.decided, rest.backup, rest.proxy].every(
        (tick) => tick !== false,
      )
      if (abort.signal.aborted) return
      localStorage.setItem(KEY, JSON.stringify({ ...knownProjects(), [id]: isFinished }))
      setDone(isFinished)
    }
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [id, isClosed])
  return isDone
}

/** Checks all steps except the first event. */
export async function askProgress(signal: AbortSignal): Promise<Progress> {
  const [identified, decided, backup, proxy] = await Promise.all([
    tickOf('event_definition:read', () => hasEvent('$identify', signal)),
    tickOf('feature_flag:read', () => hasFlags(signal)),
    tickOf('organization:read', () => hasBackup(signal)),
    tickOf('personal_api_key:read', () => isAddressSeen(signal)),
  ])
  return { identified, decided, backup, proxy }
}

/**
 * Returns the state of a step. It is null if the session lacks the scope, or if the daemon refuses the request. If the
 * daemon cannot be reached, the error is passed on.
 */
async function tickOf(scope: string, read: () => Promise<boolean>): Promise<Tick> {
  if (!may(scope)) return null
  try {
    return await read()
  } catch (error) {
    if (error instanceof ApiError && error.status >= 400 && error.status < 500) return null
    throw error
  }
}

async function hasFlags(signal: AbortSignal): Promise<boolean> {
  if (may('event_definition:read') && (await hasEvent('$feature_flag_called', signal))) return true
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

/** Returns the script line for the head of a page. */
export function loaderLine(origin: string, key: string): string {
  return `<script src="${origin}/static/loader.js" data-project-token="${key}" data-api-host="${origin}"></script>`
}

function isOfThisMachine(host: string): boolean {
  return /^(localhost|127\.|\[?::1\]?$|::ffff:127\.)/.test(host)
}
