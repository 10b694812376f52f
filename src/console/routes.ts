/** All pages: where they are, what they are called, and the file that shows them. */
import type { ComponentType } from 'preact'

/** A page of the console. */
export interface PageRecord {
  /** Below the project, `/p/1`, unless it stands alone. `:id` stands for one segment. */
  readonly path: string
  readonly isOfProject: boolean
  /** Title, and the word in the rail. */
  readonly name: string
  /** Its icon; null for pages that are opened from another one and are not in the rail. */
  readonly icon: string | null
  /** Behind `g` on the keyboard. */
  readonly letter: string | null
  /** The scope without which it would be empty. */
  readonly scope: string | null
  readonly load: () => Promise<{ readonly default: ComponentType }>
}

function ofProject(
  path: string,
  name: string,
  icon: string | null,
  letter: string | null,
  scope: string,
  load: PageRecord['load'],
): PageRecord {
  return { path: `/p/:project${path}`, isOfProject: true, name, icon, letter, scope, load }
}

function alone(
  path: string,
  name: string,
  letter: string,
  scope: string | null,
  load: PageRecord['load'],
): PageRecord {
  return { path, isOfProject: false, name, icon: path.slice(1), letter, scope, load }
}

/** The pages in the order of the rail. */
export const PAGES: readonly PageRecord[] = [
  ofProject('/setup', 'Setup', 'setup', 's', 'project:read', () => import('./pages/setup.tsx')),
  ofProject('/web', 'Web', 'web', 'w', 'query:read', () => import('./pages/web.tsx')),
  ofProject('/live', 'Live', 'live', 'l', 'event:read', () => import('./pages/live.tsx')),
  ofProject(
    '/explore',
    'Explore',
    'explore',
    'e',
    'query:read',
    () => import('./pages/explore.tsx'),
  ),
  ofProject(
    '/dashboards',
    'Dashboards',
    'dashboards',
    'd',
    'dashboard:read',
    () => import('./pages/dashboards.tsx'),
  ),
  ofProject(
    '/dashboards/:id',
    'Dashboard',
    null,
    null,
    'dashboard:read',
    () => import('./pages/dashboard.tsx'),
  ),
  ofProject(
    '/persons',
    'Persons',
    'persons',
    'p',
    'person:read',
    () => import('./pages/persons.tsx'),
  ),
  ofProject(
    '/persons/:id',
    'Person',
    null,
    null,
    'person:read',
    () => import('./pages/person.tsx'),
  ),
  ofProject('/groups', 'Groups', 'groups', 'o', 'group:read', () => import('./pages/groups.tsx')),
  ofProject(
    '/flags',
    'Flags',
    'flags',
    'f',
    'feature_flag:read',
    () => import('./pages/flags.tsx'),
  ),
  ofProject(
    '/flags/:id',
    'Flag',
    null,
    null,
    'feature_flag:read',
    () => import('./pages/flag.tsx'),
  ),
  ofProject(
    '/cohorts',
    'Cohorts',
    'cohorts',
    'c',
    'cohort:read',
    () => import('./pages/cohorts.tsx'),
  ),
  alone('/access', 'Access', 'a', null, () => import('./pages/access.tsx')),
  alone('/audit', 'Audit', 'u', 'organization:read', () => import('./pages/audit.tsx')),
  alone('/health', 'Health', 'h', 'organization:read', () => import('./pages/health.tsx')),
  ofProject(
    '/settings',
    'Settings',
    'settings',
    't',
    'project:read',
    () => import('./pages/settings.tsx'),
  ),
]

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
