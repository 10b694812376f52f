/** All pages: where they are, what they are called, and the file that shows them. */
import type { ComponentType } from 'preact'
import { may } from './base/session.ts'

type Load = () => Promise<{ readonly default: ComponentType }>

/** A page of the console. */
export interface PageRecord {
  /** Below the project, `/p/1`, unless it stands alone. `:id` stands for one segment. */
  readonly path: string
  /** Title, and the word in the rail. */
  readonly name: string
  /** Behind `g` on the keyboard; null for pages that are opened from another one and are not in the rail. */
  readonly letter: string | null
  /** The scope without which it would be empty. */
  readonly scope: string | null
  readonly load: Load
}

const PROJECT = '/p/:project'

function page(
  path: string,
  name: string,
  letter: string | null,
  scope: string | null,
  load: Load,
): PageRecord {
  return { path, name, letter, scope, load }
}

/** A page of the project. */
const own: typeof page = (path, ...rest) => page(PROJECT + path, ...rest)

/** The pages in the order of the rail. */
export const PAGES: readonly PageRecord[] = [
  own('/setup', 'Setup', 's', 'project:read', () => import('./pages/setup.tsx')),
  own('/web', 'Web', 'w', 'query:read', () => import('./pages/web.tsx')),
  own('/live', 'Live', 'l', 'event:read', () => import('./pages/live.tsx')),
  own('/explore', 'Explore', 'e', 'query:read', () => import('./pages/explore.tsx')),
  own('/dashboards', 'Dashboards', 'd', 'dashboard:read', () => import('./pages/dashboards.tsx')),
  own(
    '/dashboards/:id',
    'Dashboard',
    null,
    'dashboard:read',
    () => import('./pages/dashboard.tsx'),
  ),
  own('/persons', 'Persons', 'p', 'person:read', () => import('./pages/persons.tsx')),
  own('/persons/:id', 'Person', null, 'person:read', () => import('./pages/person.tsx')),
  own('/groups', 'Groups', 'o', 'group:read', () => import('./pages/groups.tsx')),
  own('/flags', 'Flags', 'f', 'feature_flag:read', () => import('./pages/flags.tsx')),
  own('/flags/:id', 'Flag', null, 'feature_flag:read', () => import('./pages/flag.tsx')),
  own('/cohorts', 'Cohorts', 'c', 'cohort:read', () => import('./pages/cohorts.tsx')),
  page('/access', 'Access', 'a', null, () => import('./pages/access.tsx')),
  page('/audit', 'Audit', 'u', 'organization:read', () => import('./pages/audit.tsx')),
  page('/health', 'Health', 'h', 'organization:read', () => import('./pages/health.tsx')),
  own('/settings', 'Settings', 't', 'project:read', () => import('./pages/settings.tsx')),
]

/** True for a page of the rail that has something for this session. */
export function isOpenTo({ letter, scope }: PageRecord): boolean {
  return letter !== null && (scope === null || may(scope))
}

/** True for a page of the rail that every project has. */
export function isOfProject({ path, letter }: PageRecord): boolean {
  return letter !== null && path.startsWith(PROJECT)
}

/** The page of a path, or null. */
export function findPage(path: string): PageRecord | null {
  const given = path.replace(/\/$/, '').split('/')
  const fits = ({ path: pattern }: PageRecord) => {
    const wanted = pattern.split('/')
    const isEqual = (word: string, at: number) =>
      word.startsWith(':') ? given[at] !== '' : word === given[at]
    return wanted.length === given.length && wanted.every(isEqual)
  }
  return PAGES.find(fits) ?? null
}

/** The address of a page of a project. */
export function pageHref(page: Pick<PageRecord, 'path'>, projectId: number): string {
  return page.path.replace(':project', String(projectId))
}
