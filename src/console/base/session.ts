/** Who is logged in, what they may do, and the project that the page is about. */
import { computed, signal } from '@preact/signals'
import { path } from './address.ts'
import { askAbout, get, onSessionEnd, post, remove, type Shapes } from './api.ts'

/** Who is logged in, as the daemon says. */
export type Session = Shapes['ConsoleSession']

/** The session: undefined until the daemon has answered, null when nobody is logged in. */
export const session = signal<Session | null | undefined>(undefined)

/** What pages need to know of a project. */
export type Project = Session['projects'][number]

/** The projects that the session may see. */
export const projects = computed<readonly Project[]>(() => session.value?.projects ?? [])

/** The project of the address, or the first. */
export const project = computed<Project>(() => {
  const id = Number(/^\/p\/(\d+)/.exec(path.value)?.[1])
  return projects.value.find((one) => one.id === id) ?? projects.value[0] ?? NO_PROJECT
})

const NO_PROJECT: Project = { id: 1, name: 'No project', timezone: 'UTC', api_token: '' }

askAbout(() => project.value.id)

/** True if the session has the scope, `feature_flag:write` say; `write` includes `read`. */
export function may(scope: string): boolean {
  const scopes: readonly string[] = session.value?.scopes ?? []
  return (
    scopes.includes('*') ||
    scopes.includes(scope) ||
    (scope.endsWith(':read') && scopes.includes(scope.replace(/read$/, 'write')))
  )
}

/** Set in this browser while somebody is logged in: whoever is not, is not asked for. It opens nothing. */
const HINT = 'tenrec-session'

/** Asks who is logged in, and sees to it that the login page is shown when the session ends. */
export async function openSession(): Promise<void> {
  onSessionEnd(leave)
  if (localStorage.getItem(HINT) === null) return leave()
  await readSession().catch(leave)
}

/** Reads the session again: projects and scopes may have changed. */
export async function readSession(): Promise<void> {
  enter(await get('console/session/'))
}

/** Logs in with a personal key, or with the code of a link. Throws an `ApiError` with the reason. */
export async function logIn(proof: { key: string } | { code: string }): Promise<void> {
  enter(await post('console/session/', {}, proof))
}

/** Ends the session here and in the daemon. */
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
