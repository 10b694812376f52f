/** All pages of the console: their paths, their names, and the files that show them. */
import type { ComponentType } from 'preact'
import { may } from './base/session.ts'

type Load = () => Promise<{ readonly default: ComponentType }>

/** A page of the console. */
export interface PageRecord {
  /**
   * The path below the project, `/p/1`, or an absolute path for pages that belong to no project. `:id` stands for one
   * segment.
   */
  readonly path: string
  /** The title of the page, which is also its name in the navigation rail. */
  readonly name: string
  /**
   * The key that opens the page after `g`. Null for pages that are opened from another page and are not in the rail.
   */
  readonly letter: string | null
  /** The scope without which the page would be empty. */
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

/** Makes the record of a page of the project. */
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

/** Returns true for a page of the rail that this session has the scope for. */
export function isOpenTo({ letter, scope }: PageRecord): boolean {
  return letter !== null && (scope === null || may(scope))
}

/** Returns true for a page of the rail that every project has. */
export function isOfProject({ path, letter }: PageRecord): boolean {
  return letter !== null && path.startsWith(PROJECT)
}

/** Returns the page of a path, or null. */
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

/** Returns the path of a page for a project. */
export function pageHref(page: Pick<PageRecord, 'path'>, projectId: number): string {
  return page.path.replace(':project', String(projectId))
}
