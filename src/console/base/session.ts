/** The logged-in user with their rights, and the project of the page. */
import { computed, effect, signal } from '@preact/signals'
import { go, path } from './address.ts'
import { ApiError, askAbout, get, onSessionEnd, post, put, remove, type Shapes } from './api.ts'

/** The session as the daemon returns it. */
export type Session = Shapes['ConsoleSession']

/** The session. Undefined until the daemon has answered, and null if no user is logged in. */
export const session = signal<Session | null | undefined>(undefined)

/** A project of the session. */
export type Project = Session['projects'][number]

/** The projects that the session may use. */
export const projects = computed<readonly Project[]>(() => session.value?.projects ?? [])

const NO_PROJECT: Project = {
  id: 1,
  name: 'No project',
  timezone: 'UTC',
  api_token: '',
  level: 0,
  scopes: null,
}

/** The segment of the URL that names a project, or null on a page without a project. */
const named = computed(() => /^\/p\/([^/]+)/.exec(path.value)?.[1] ?? null)
const opened = computed(() => projects.value.find(({ id }) => String(id) === named.value))
/** The project that was open last. Pages without a project, such as the page Health, keep it. */
const lastOpened = signal<number | null>(null)
effect(() => {
  if (opened.value !== undefined) lastOpened.value = opened.value.id
})

/**
 * The project in the URL. On a page without a project it is the project that was open last, or the first project. If
 * this session has no access to the project in the URL, it is also one of these; see `closedProject`.
 */
export const project = computed<Project>(() => {
  const last = projects.value.find(({ id }) => id === lastOpened.value)
  return opened.value ?? last ?? projects.value[0] ?? NO_PROJECT
})

/** The project in the URL, as it is written there, if this session has no access to it. Null otherwise. */
export const closedProject = computed<string | null>(() =>
  opened.value === undefined ? named.value : null,
)

askAbout(() => {
  // No data of another project is shown or changed below the URL of this one.
  if (closedProject.value === null) return project.value.id
  const detail = `You have no access to project ${closedProject.value}.`
  throw new ApiError(403, { code: 'permission_denied', detail })
})

/** The scopes that are not about a project. */
const APART = /^(?:organization|personal_api_key|user):/

/**
 * Returns true if the session has a scope such as `feature_flag:write`, in the project of the page if the scope is about
 * a project. The scope `write` includes `read`.
 */
export function may(scope: string): boolean {
  const own = APART.test(scope) ? null : project.value.scopes
  const scopes: readonly string[] = own ?? session.value?.scopes ?? []
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

/** Why the last session has ended, for the login page. Null if the user logged out, or has not logged in yet. */
export const sessionEnd = signal<string | null>(null)

/** Why a login at the identity provider failed. Null if none has failed. */
export const loginError = signal<ApiError | null>(null)

/** The page to which the identity provider sends the browser back. */
const PROVIDER_PAGE = '/login/oidc'

/** Opens the login page of the identity provider, which sends the browser back here. Throws an `ApiError`. */
export async function openProvider(): Promise<void> {
  const page = path.value + location.search
  const body = page.length < PAGE_CHARACTERS && page !== PROVIDER_PAGE ? { return_to: page } : {}
  const { url } = await post('console/oidc/start/', {}, body)
  location.assign(url)
}

const PAGE_CHARACTERS = 4000

/** Finishes a login with the address to which the identity provider has sent the browser. */
async function finishLogin(): Promise<void> {
  const callback = location.search.slice(1)
  // The code in the address can be used once. It does not stay in the history.
  go('/', { replace: true })
  try {
    const { session: found, return_to: page } = await post('console/oidc/finish/', {}, { callback })
    enter(found)
    go(page, { replace: true })
  } catch (cause) {
    if (!(cause instanceof ApiError)) throw cause
    loginError.value = cause
    leave(null)
  }
}

/** Reads the session, and shows the login page whenever the session ends. */
export async function openSession(): Promise<void> {
  onSessionEnd(leave)
  if (path.value === PROVIDER_PAGE) return finishLogin()
  if (localStorage.getItem(HINT) === null) return leave(null)
  await readSession().catch(({ message }: Error) => leave(message))
}

/** Reads the session again, because projects and scopes may have changed. */
export async function readSession(): Promise<void> {
  enter(await get('console/session/'))
}

/** Logs in with a personal key, the code of a login link, or a password. Throws an `ApiError` with the reason. */
export async function logIn(
  proof: { key: string } | { code: string } | { email: string; password: string },
): Promise<void> {
  enter(await post('console/session/', {}, proof))
}

/**
 * Sets another password, or removes it with null. `current` may be empty if there is none. The sessions that began with
 * the earlier password end, so a session that began with it logs in again.
 */
export async function setPassword(password: string | null, current: string): Promise<void> {
  const proof = current === '' ? {} : { current_password: current }
  await put('console/password/', {}, { password, ...proof })
  const email = session.value?.user.email
  if (email === undefined) return
  if (session.value?.started_with === 'password' && password !== null)
    await logIn({ email, password })
  else await readSession()
}

/** Ends the session in the daemon and in this browser. */
export async function logOut(): Promise<void> {
  await remove('console/session/', {})
  // The next user of this tab must not see unsaved changes of this one.
  for (const name of Object.keys(sessionStorage)) sessionStorage.removeItem(name)
  leave(null)
}

function enter(found: Session): void {
  localStorage.setItem(HINT, '1')
  sessionEnd.value = null
  loginError.value = null
  session.value = found
}

function leave(reason: string | null): void {
  // A wrong key on the login page ends no session.
  if (session.value !== null) sessionEnd.value = reason
  localStorage.removeItem(HINT)
  session.value = null
}
