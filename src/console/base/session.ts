/** The logged-in user with their rights, and the project of the page. */
import { computed, signal } from '@preact/signals'
import { path } from './address.ts'
import { askAbout, get, onSessionEnd, post, remove, type Shapes } from './api.ts'

/** The session as the daemon returns it. */
export type Session = Shapes['ConsoleSession']

/** The session. Undefined until the daemon has answered, and null if no user is logged in. */
export const session = signal<Session | null | undefined>(undefined)

/** A project of the session. */
export type Project = Session['projects'][number]

/** The projects that the session may use. */
export const projects = computed<readonly Project[]>(() => session.value?.projects ?? [])

/** The project in the URL, or the first project. */
export const project = computed<Project>(() => {
  const id = Number(/^\/p\/(\d+)/.exec(path.value)?.[1])
  return projects.value.find((one) => one.id === id) ?? projects.value[0] ?? NO_PROJECT
})

const NO_PROJECT: Project = { id: 1, name: 'No project', timezone: 'UTC', api_token: '' }

askAbout(() => project.value.id)

/** Returns true if the session has a scope such as `feature_flag:write`. The scope `write` includes `read`. */
export function may(scope: string): boolean {
  const scopes: readonly string[] = session.value?.scopes ?? []
  return (
    scopes.includes('*') ||
    scopes.includes(scope) ||
    (scope.endsWith(':read') && scopes.includes(scope.replace(/read$/, 'write')))
  )
}

/**
 * A mark in this browser that is set while a user is logged in. Without it the daemon is not asked for a session. It
 * grants no rights.
 */
const HINT = 'tenrec-session'

/** Reads the session, and shows the login page whenever the session ends. */
export async function openSession(): Promise<void> {
  onSessionEnd(leave)
  if (localStorage.getItem(HINT) === null) return leave()
  await readSession().catch(leave)
}

/** Reads the session again, because projects and scopes may have changed. */
export async function readSession(): Promise<void> {
  enter(await get('console/session/'))
}

/** Logs in with a personal key or the code of a login link. Throws an `ApiError` with the reason. */
export async function logIn(proof: { key: string } | { code: string }): Promise<void> {
  enter(await post('console/session/', {}, proof))
}

/** Ends the session in the daemon and in this browser. */
export async function logOut(): Promise<void> {
  await remove('console/session/', {})
  leave()
}

function enter(found: Session): void {
  localStorage.setItem(HINT, '1')
  session.value = found
}

function leave(): void {
  localStorage.removeItem(HINT)
  session.value = null
}
