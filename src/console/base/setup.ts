/** Which steps of the setup are done, as the daemon reports it, and the lines that send events. */
import { useEffect, useState } from 'preact/hooks'
import { ApiError, get } from './api.ts'
import { hasEvent } from './queries.ts'
import { closedProject, may, project } from './session.ts'

/** Whether a step is done. Null if the session is not allowed to read that. */
export type Tick = boolean | null

/**
 * Whether the steps other than the first event are done: persons, flags, backups, and the proxy between this browser
 * and the daemon. The page "Setup" checks these steps less often than the first event.
 */
export interface Progress {
  readonly identified: Tick
  readonly decided: Tick
  readonly backup: Tick
  readonly proxy: Tick
}

/**
 * The key of an entry in the browser's local storage. It contains a JSON object that says, for each project number,
 * whether the setup is done.
 */
const KEY = 'tenrec-setup'
/**
 * The progress is requested this many milliseconds after a project has opened, so that its first page can load before.
 */
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
 * Returns true if every step of the setup that the session may read is done. The daemon is asked once whenever the
 * project opens, until all steps are done. Until the answer arrives, the last known answer is returned, so that the
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
 * Returns whether a step is done. Returns null if the session does not have the scope, or if the daemon refuses the
 * request. Throws if the daemon cannot be reached.
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
 * Returns true if the daemon sees the IP address of this browser. Returns false if it sees a proxy on its own machine
 * instead. Rate limits, GeoIP and the audit log need the real address.
 */
async function isAddressSeen(signal: AbortSignal): Promise<boolean> {
  if (isOfThisMachine(location.hostname)) return true
  const { results } = await get('console/sessions/', {}, signal)
  return !results.some((one) => one.is_current && isOfThisMachine(one.address))
}

/** Returns the script line for the head of a web page. */
export function loaderLine(origin: string, key: string): string {
  return `<script src="${origin}/static/loader.js" data-project-token="${key}" data-api-host="${origin}"></script>`
}

/** Returns a shell command that sends an event. */
export function curlLine(origin: string, key: string): string {
  return `curl -s ${origin}/capture/ -H 'Content-Type: application/json' \\
  -d '{"api_key":"${key}","event":"hello","distinct_id":"me"}'`
}

function isOfThisMachine(host: string): boolean {
  return /^(localhost|127\.|\[?::1\]?$|::ffff:127\.)/.test(host)
}
