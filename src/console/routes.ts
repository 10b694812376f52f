/** All pages of the console: their paths, their names, and the files that contain them. */
import type { ComponentType } from 'preact'
import { may } from './base/session.ts'

type Load = () => Promise<ComponentType>

/** The groups of pages in the navigation rail, in their order. */
export const GROUPS = ['Analytics', 'Flags', 'People', 'System'] as const

/** One of the groups. */
type Group = (typeof GROUPS)[number]

/** A page of the console. */
export interface PageRecord {
  /**
   * The path of the page. It begins with `/p/:project` if the page belongs to a project. `:id` stands for one segment.
   */
  readonly path: string
  /** The title of the page, which is also its name in the navigation rail. */
  readonly name: string
  /**
   * The group of the page in the navigation rail. It is null for the page Setup, which comes first in the rail until
   * the setup is done.
   */
  readonly group: Group | null
  /**
   * The key that opens the page when it is pressed after `g`. Null for a page that is not in the navigation rail,
   * because it is opened from another page.
   */
  readonly letter: string | null
  /** The scope that a session needs to see anything on the page. Null if it needs none. */
  readonly scope: string | null
  readonly load: Load
}

const PROJECT = '/p/:project'

/** The path of the page Setup. */
export const SETUP_PATH = `${PROJECT}/setup`

/** Returns the function that creates the records of the pages in a group. */
function pagesOf(group: Group | null) {
  return (
    path: string,
    name: string,
    letter: string | null,
    scope: string | null,
    load: Load,
  ): PageRecord => ({ path: path.replace('~', PROJECT), name, group, letter, scope, load })
}

const first = pagesOf(null)
const analytics = pagesOf('Analytics')
const flags = pagesOf('Flags')
const people = pagesOf('People')
const system = pagesOf('System')

/**
 * Returns the function that creates the loaders of the pages in one file. Several pages share a file, because they
 * compress better together.
 */
function pagesIn<Name extends string>(
  loadFile: () => Promise<Readonly<Record<Name, ComponentType>>>,
) {
  return (name: Name): Load =>
    async () =>
      (await loadFile())[name]
}

const arrivalFile = pagesIn(() => import('./areas/arrival.ts'))
// The page Web has a file of its own, because it is the first page for most readers.
const webFile = pagesIn(() => import('./pages/web.tsx'))
const questionFile = pagesIn(() => import('./areas/questions.ts'))
const flagFile = pagesIn(() => import('./areas/flags.ts'))
const administrationFile = pagesIn(() => import('./areas/administration.ts'))

/** All pages, in the order of the navigation rail. In a path, `~` stands for the project. */
export const PAGES: readonly PageRecord[] = [
  first('~/setup', 'Setup', 's', 'project:read', arrivalFile('Setup')),
  analytics('~/web', 'Web', 'w', 'query:read', webFile('default')),
  analytics('~/live', 'Events', 'l', 'event:read', arrivalFile('Live')),
  analytics('~/explore', 'Explore', 'e', 'query:read', questionFile('Explore')),
  analytics('~/dashboards', 'Dashboards', 'd', 'dashboard:read', questionFile('Dashboards')),
  analytics('~/dashboards/:id', 'Dashboard', null, 'dashboard:read', questionFile('Dashboard')),
  flags('~/flags', 'Flags', 'f', 'feature_flag:read', flagFile('Flags')),
  flags('~/flags/:id', 'Flag', null, 'feature_flag:read', flagFile('Flag')),
  flags('~/experiments', 'Experiments', 'x', 'experiment:read', flagFile('Experiments')),
  flags(
    '~/experiments/holdouts',
    'Holdouts',
    null,
    'experiment_holdout:read',
    flagFile('Holdouts'),
  ),
  flags(
    '~/experiments/metrics',
    'Saved metrics',
    null,
    'experiment_saved_metric:read',
    flagFile('SavedMetrics'),
  ),
  flags('~/experiments/:id', 'Experiment', null, 'experiment:read', flagFile('Experiment')),
  flags('~/cohorts', 'Cohorts', 'c', 'cohort:read', administrationFile('Cohorts')),
  people('~/persons', 'Persons', 'p', 'person:read', administrationFile('Persons')),
  people('~/persons/:id', 'Person', null, 'person:read', administrationFile('Person')),
  people('~/groups', 'Groups', 'o', 'group:read', administrationFile('Groups')),
  people('~/groups/:id/:key', 'Group', null, 'group:read', administrationFile('Group')),
  system('/health', 'Health', 'h', 'organization:read', administrationFile('Health')),
  system('/audit', 'Audit', 'u', 'organization:read', administrationFile('Audit')),
  system('/access', 'Access', 'a', null, administrationFile('Access')),
  system('~/settings', 'Settings', 't', 'project:read', administrationFile('Settings')),
]

/**
 * The letters of the pages that come first in the bar on narrow screens. The bar has at most `AT_HAND_MAX` pages. The
 * button "More" in the bar opens the list of the other pages.
 */
const AT_HAND = 'wefp'
const AT_HAND_MAX = 4

/**
 * Returns the pages that the bar on narrow screens shows. There are at most four, and the session must have their
 * scopes.
 */
export function pagesAtHand(): ReadonlySet<PageRecord> {
  const open = PAGES.filter((page) => page.group !== null && isOpenTo(page))
  const isMain = ({ letter }: PageRecord) => Number(AT_HAND.includes(letter ?? ' '))
  return new Set(open.toSorted((a, b) => isMain(b) - isMain(a)).slice(0, AT_HAND_MAX))
}

/** Returns true if a page is in the navigation rail and the session has its scope. */
export function isOpenTo({ letter, scope }: PageRecord): boolean {
  return letter !== null && (scope === null || may(scope))
}

/** Returns true if a page is in the navigation rail and belongs to a project. */
export function isOfProject({ path, letter }: PageRecord): boolean {
  return letter !== null && path.startsWith(PROJECT)
}

/** Returns the page for a path, or null if there is none. */
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

/** Returns the path of a page in a project. */
export function pageHref(page: Pick<PageRecord, 'path'>, projectId: number): string {
  return page.path.replace(':project', String(projectId))
}
