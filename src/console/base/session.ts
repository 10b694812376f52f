/** The logged-in user, the rights of this user, and the project of the current page. */
import { computed, effect, signal } from '@preact/signals'
import { go, path } from './address.ts'
import { ApiError, askAbout, get, onSessionEnd, post, put, remove, type Shapes } from './api.ts'

/** The session in the form in which the daemon returns it. */
export type Session = Shapes['ConsoleSession']

/** The session. Undefined until the daemon has answered, and null if no user is logged in. */
export const session = signal<Session | null | undefined>(undefined)

/** A project that the session may use. */
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

/** The project in the URL, as it is written there. Null on a page that belongs to no project. */
const named = computed(() => /^\/p\/([^/]+)/.exec(path.value)?.[1] ?? null)
const opened = computed(() => projects.value.find(({ id }) => String(id) === named.value))
/**
 * The number of the project that was open last. Pages that belong to no project, such as the page Health, stay with it.
 */
const lastOpened = signal<number | null>(null)
effect(() => {
  if (opened.value !== undefined) lastOpened.value = opened.value.id
})

/**
 * The project of the current page. If the page belongs to no project, it is the project that was open last, or else the
 * first one. The same applies if the session has no access to the project in the URL. In that case, `closedProject` is
 * set.
 */
export const project = computed<Project>(() => {
  const last = projects.value.find(({ id }) => id === lastOpened.value)
  return opened.value ?? last ?? projects.value[0] ?? NO_PROJECT
})

/** The project in the URL, as it is written there, if the session has no access to it. Otherwise null. */
export const closedProject = computed<string | null>(() =>
  opened.value === undefined ? named.value : null,
)

askAbout(() => {
  // Without access to the project in the URL, nothing is requested. Otherwise the page would show or change data of
  // another project.
  if (closedProject.value === null) return project.value.id
  const detail = `You have no access to project ${closedProject.value}.`
  throw new ApiError(403, { code: 'permission_denied', detail })
})

/** The scopes that apply to the organization or the user, and not to a project. */
const APART = /^(?:organization|personal_api_key|user):/

/**
 * Returns true if the session has a scope such as `feature_flag:write`. If the scope applies to a project, this is
 * about the project of the current page. A scope that ends in `:write` includes `:read`.
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
 * The key of an entry in the browser's local storage that exists while a user is logged in. Without the entry, the
 * daemon is not asked for a session. It grants no rights.
 */
const HINT = 'tenrec-session'

/**
 * The reason why the last session has ended, for the login page. Null if the user has logged out or has not logged in
 * yet.
 */
export const sessionEnd = signal<string | null>(null)

/** The error with which a login at the identity provider has failed. Null if none has failed. */
export const loginError = signal<ApiError | null>(null)

/** The page of the console to which the identity provider sends the browser back. */
const PROVIDER_PAGE = '/login/oidc'

/**
 * Opens the login page of the identity provider, which later sends the browser back to the console. Throws an
 * `ApiError`.
 */
export async function openProvider(): Promise<void> {
  const page = path.value + location.search
  const body = page.length < PAGE_CHARACTERS && page !== PROVIDER_PAGE ? { return_to: page } : {}
  const { url } = await post('console/oidc/start/', {}, body)
  location.assign(url)
}

const PAGE_CHARACTERS = 4000

/** Finishes a login with the URL to which the identity provider has sent the browser. */
async function finishLogin(): Promise<void> {
  const callback = location.search.slice(1)
  // The code in the URL works only once, so the URL must not stay in the history of the browser.
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

/** Reads the session. From then on, the login page is shown whenever the session ends. */
export async function openSession(): Promise<void> {
  onSessionEnd(leave)
  if (path.value === PROVIDER_PAGE) return finishLogin()
  if (localStorage.getItem(HINT) === null) return leave(null)
  await readSession().catch(({ message }: Error) => leave(message))
}

/** Reads the session again. Must be called when its projects or scopes may have changed. */
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
 * Sets another password, or removes the password if `password` is null. `current` may be empty if the user has none.
 * All sessions that were started with the previous password end. If this session was started with it, the user is
 * logged in again with the new one.
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
  // The next user of this browser tab must not see unsaved changes of this user.
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
  // The login page shows the reason why a session has ended. A wrong key on the login page ends no session, so its
  // reason is not stored.
  if (session.value !== null) sessionEnd.value = reason
  localStorage.removeItem(HINT)
  session.value = null
}
