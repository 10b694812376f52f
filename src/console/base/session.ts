/** Who is logged in, what they may do, and the project that the page is about. */
import { computed, signal } from '@preact/signals'
import { path } from './address.ts'
import { api, ask, onSessionEnd, type Shapes } from './api.ts'

/** Who is logged in, as the daemon says. */
export type Session = Shapes['ConsoleSession']

/** The session: undefined until the daemon has answered, null when nobody is logged in. */
export const session = signal<Session | null | undefined>(undefined)

/** The projects that the session may see. */
export const projects = signal<readonly Project[]>([])

/** What pages need to know of a project. */
export interface Project {
  readonly id: number
  readonly name: string
  readonly timezone: string
  readonly api_token: string
}

/** The project of the address, or the first. */
export const project = computed<Project>(() => {
  const id = Number(/^\/p\/(\d+)/.exec(path.value)?.[1])
  return projects.value.find((one) => one.id === id) ?? projects.value[0] ?? NO_PROJECT
})

const NO_PROJECT: Project = { id: 1, name: 'No project', timezone: 'UTC', api_token: '' }

/** Parameters of the path of every route of the project. */
export const inProject = computed(() => ({ project_id: project.value.id }))

/** The same of the organization, of which there is one. */
export const IN_ORGANIZATION = { org_id: '@current' } as const

/** True if the session has the scope, `feature_flag:write` say; `write` includes `read`. */
export function may(scope: string): boolean {
  const scopes: readonly string[] = session.value?.scopes ?? []
  return (
    scopes.includes('*') ||
    scopes.includes(scope) ||
    (scope.endsWith(':read') && scopes.includes(scope.replace(/read$/, 'write')))
  )
}

/** Asks who is logged in. */
export async function openSession(): Promise<void> {
  onSessionEnd(() => {
    session.value = null
  })
  try {
    await enter(await ask(api.GET('/api/console/session/')))
  } catch {
    session.value = null
  }
}

/** Logs in with a personal key, or with the code of a link. Throws an `ApiError` with the reason. */
export async function logIn(proof: { key: string } | { code: string }): Promise<void> {
  await enter(await ask(api.POST('/api/console/session/', { body: proof })))
}

/** Ends the session here and in the daemon. */
export async function logOut(): Promise<void> {
  await ask(api.DELETE('/api/console/session/'))
  session.value = null
}

async function enter(found: Session): Promise<void> {
  // Pages ask for their project as soon as there is a session.
  await loadProjects()
  session.value = found
}

/** Reads the projects again, after one was made or changed. */
export async function loadProjects(): Promise<void> {
  const { results } = await ask(api.GET('/api/projects/', {}))
  projects.value = results as unknown as readonly Project[]
}
