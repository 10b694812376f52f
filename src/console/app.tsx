/** The console application: the login, the frame around every page, and the keyboard shortcuts. */
import { type ComponentType, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { followAddress, go, href, path } from './base/address.ts'
import { ApiError, isOnline, reachDaemon } from './base/api.ts'
import { exact } from './base/format.ts'
import { inProjectPath } from './base/page.ts'
import { hasEvent } from './base/queries.ts'
import { closedProject, logOut, may, openSession, project, projects, session, setPassword } from './base/session.ts'
import { useSetupDone } from './base/setup.ts'
import { applyTheme, chooseTheme, THEMES, type Theme, theme } from './base/theme.ts'
import { Dialog } from './parts/dialog.tsx'
import { Button, Choice, UserName } from './parts/fields.tsx'
import { Ask } from './parts/form.tsx'
import { Icon } from './parts/icons.tsx'
import { Login } from './parts/login.tsx'
import { Empty, Failure, Loading } from './parts/notice.tsx'
// Every page uses this module. The import here makes the bundler put it into the file of the frame.
import './kit.ts'
import { Palette } from './parts/palette.tsx'
import { stepRows } from './parts/table.tsx'
import { Card, Facts, Page } from './parts/tiles.tsx'
import { Toasts } from './parts/toasts.tsx'
import {
  findPage,
  GROUPS,
  isOfProject,
  isOpenTo,
  PAGES,
  type PageRecord,
  pageHref,
  pagesAtHand,
  SETUP_PATH,
} from './routes.ts'

const KEYS: readonly (readonly [keys: string, words: string])[] = [
  ['Ctrl+K or Cmd+K', 'Find a page, a flag, a person or an action'],
  ['/', 'Search on this page'],
  ['.', 'Go to the time range'],
  ['j, k', 'Next row, previous row; Enter opens it'],
  ['d e h w t m p y l a', 'On Web: a time range, such as today, yesterday or the last 24 hours'],
  ['←, →, x', 'On Web: the previous or next period; compare with the previous period'],
  ['n', 'In a chart: annotate the day under the cursor'],
  ['Esc', 'Close the dialog or menu; on Web, clear the filters'],
  ['?', 'Show this list'],
]

function App() {
  if (session.value === undefined) return <Loading />
  if (session.value === null) return <Login />
  return <Frame />
}

function Frame() {
  const [opened, setOpened] = useState<'palette' | 'help' | null>(null)
  const close = () => setOpened(null)
  useKeyboard(setOpened)
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Rail search={() => setOpened('palette')} />
      <main id="main" tabIndex={-1}>
        {!isOnline.value && (
          <p class="notice bad" role="alert">
            Tenrec does not answer. Your input is kept, and this page continues when Tenrec runs again.
          </p>
        )}
        <CurrentPage />
      </main>
      {opened === 'palette' && <Palette close={close} />}
      {opened === 'help' && <Help close={close} />}
      <Toasts />
    </div>
  )
}

function Rail({ search }: { search: () => void }) {
  const current = (closedProject.value === null && findPage(path.value)) || undefined
  const isSetUp = useSetupDone()
  const [isOpen, setOpen] = useState(false)
  useEffect(() => setOpen(false), [path.value])
  const atHand = pagesAtHand()
  const isElsewhere = PAGES.some((page) => isUnder(page, current) && !atHand.has(page))
  const item = (page: PageRecord) => (
    <li key={page.path} class={atHand.has(page) ? 'at-hand' : undefined}>
      <a href={href(pageHref(page, project.value.id))} aria-current={isUnder(page, current) ? 'page' : undefined}>
        <Icon name={page.name.toLowerCase()} /> <span>{page.name}</span>
      </a>
    </li>
  )
  const pages = PAGES.filter(isOpenTo)
  const setup = pages.filter((page) => page.path === SETUP_PATH && (!isSetUp || page === current))
  return (
    <nav class="rail" aria-label="Pages">
      <div class="rail-top">
        <a class="brand" href={href('/')}>
          Tenrec
        </a>
        <ProjectChoice current={current} />
        <button type="button" class="rail-search" onClick={search}>
          <Icon name="search" /> <span>Search</span> <kbd>Ctrl K</kbd>
        </button>
      </div>
      <div class={isOpen ? 'rail-pages open' : 'rail-pages'} id="pages">
        {setup.length > 0 && <ul>{setup.map(item)}</ul>}
        {GROUPS.map((group) => {
          const own = pages.filter((page) => page.group === group)
          return (
            own.length > 0 && (
              <div key={group}>
                <p class="rail-title" id={`pages-${group}`}>
                  {group}
                </p>
                <ul aria-labelledby={`pages-${group}`}>{own.map(item)}</ul>
              </div>
            )
          )
        })}
        <button
          type="button"
          class={isElsewhere ? 'more is-current' : 'more'}
          aria-expanded={isOpen}
          aria-controls="pages"
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name="more" /> <span>More</span>
        </button>
      </div>
      <UserMenu />
    </nav>
  )
}

/**
 * The field that chooses another project. If the current page belongs to a project, the same page of the chosen project
 * opens. Otherwise the page "Web" opens.
 */
function ProjectChoice({ current }: { current: PageRecord | undefined }) {
  const isClosed = closedProject.value !== null
  if (projects.value.length < 2 && !isClosed) return null
  const home = current !== undefined && isOfProject(current) ? current : WEB
  const options = projects.value.map(({ id, name }) => [String(id), name] as const)
  return (
    <Choice
      label="Project"
      isQuiet
      value={isClosed ? '' : String(project.value.id)}
      options={isClosed ? [['', 'Choose a project'], ...options] : options}
      change={(id) => id !== '' && go(pageHref(home, Number(id)))}
    />
  )
}

const WEB = { path: '/p/:project/web' }

/** The menu of the logged-in user, with the choices that concern only this user. */
function UserMenu() {
  const { first_name: firstName = '', email = '' } = session.value?.user ?? {}
  const name = firstName === '' ? email : firstName
  return (
    <>
      <button type="button" class="user" popovertarget="user-menu">
        <span class="avatar" aria-hidden="true">
          {[...name][0]?.toUpperCase()}
        </span>
        <span class="unseen">Account of</span> <bdi>{name}</bdi>
      </button>
      <div class="user-menu" id="user-menu" popover="auto">
        <p>
          <b>{firstName}</b> <span class="quiet">{email}</span>
        </p>
        <Choice
          label="Colors"
          value={theme.value}
          options={THEMES.map((one) => [one, THEME_NAMES[one]] as const)}
          change={chooseTheme}
        />
        <a href={href('/access')}>Keys and sessions</a>
        <PasswordButton />
        <Button press={logOut}>Log out</Button>
      </div>
    </>
  )
}

/** The button and dialog with which users set, change or remove their own password. */
function PasswordButton() {
  const { has_password: hasPassword = false, started_with: startedWith } = session.value ?? {}
  const email = session.value?.user.email ?? ''
  if (!may('personal_api_key:write')) return null
  const hint =
    startedWith === 'link' ? 'You may leave this empty within an hour after you log in with a link.' : undefined
  const fields = {
    current: {
      label: 'Current password',
      type: 'password',
      complete: 'current-password',
      isRequired: hasPassword && startedWith !== 'link',
      isShown: () => hasPassword,
      hint,
    },
    password: {
      label: 'New password',
      type: 'password',
      complete: 'new-password',
      hint: 'At least 10 characters.',
      isRequired: true,
    },
  } as const
  return (
    <Ask
      label={hasPassword ? 'Change password' : 'Set a password'}
      title={hasPassword ? 'Change your password' : 'Set a password'}
      action="Save the password"
      fields={fields}
      submit={({ current, password }) => setPassword(password, current)}
    >
      <UserName email={email} />
      {hasPassword && <p>Other browsers that logged in with the earlier password have to log in again.</p>}
    </Ask>
  )
}

const THEME_NAMES: Readonly<Record<Theme, string>> = { auto: 'Same as system', light: 'Light', dark: 'Dark' }

/**
 * Shown in place of a page if the project does not exist, or if this session has no access to it. Nothing of the
 * project is read.
 */
function ClosedProject({ id }: { id: string }) {
  const page = findPage(path.value)
  const same = page !== null && isOfProject(page) ? page : WEB
  return (
    <Page title={`You have no access to project ${id}`}>
      <Card title="Your projects">
        <p>Project {id} does not exist, or the key with which you logged in is limited to other projects.</p>
        {projects.value.length === 0 && <p class="none">You have no access to any project. Ask an administrator.</p>}
        <ul>
          {projects.value.map((one) => (
            <li key={one.id}>
              <a href={href(pageHref(same, one.id))}>{one.name}</a> <span class="quiet">project {one.id}</span>
            </li>
          ))}
        </ul>
      </Card>
    </Page>
  )
}

/** Returns true if the current page is this page of the navigation rail, or was opened from it. */
function isUnder(page: PageRecord, current: PageRecord | undefined): boolean {
  return current !== undefined && (current === page || current.path.startsWith(`${page.path}/`))
}

/** The components of the pages whose files are loaded. */
const views = new Map<PageRecord, ComponentType>()

async function loadPage(page: PageRecord): Promise<void> {
  views.set(page, await page.load())
}

function CurrentPage() {
  const page = findPage(path.value)
  const [, setLoaded] = useState<PageRecord | null>(null)
  const [absent, setAbsent] = useState<PageRecord | null>(null)
  useEffect(() => {
    if (page === null) return
    let isGone = false
    document.title = `${page.name} · Tenrec`
    loadPage(page).then(
      () => isGone || setLoaded(page),
      () => isGone || setAbsent(page),
    )
    return () => {
      isGone = true
    }
  }, [page])
  if (path.value === '/') return <Home />
  if (closedProject.value !== null) return <ClosedProject id={closedProject.value} />
  if (page === null) return <Empty title="There is no such page.">Choose a page in the navigation bar.</Empty>
  const View = views.get(page)
  if (View === undefined && absent === page) return <Failure error={NO_PAGE} retry={() => void reloadPage()} />
  // Because of this key, another flag gets a new component, which does not reuse the form fields of the previous flag.
  return View ? <View key={path.value} /> : null
}

const NO_PAGE = new ApiError(0, {
  code: 'unreachable',
  detail: 'This page could not be loaded. Tenrec does not answer, or it was updated. Try again.',
})

/**
 * Reloads the whole console. After a script has failed to load, a browser requests it again only if the page is
 * reloaded.
 */
async function reloadPage(): Promise<void> {
  await reachDaemon().then(
    () => location.reload(),
    () => {},
  )
}

/**
 * Opens the start page: the page "Setup" until the first event has arrived, and after that the page "Web". A reader who
 * may not run queries gets the first page that this reader may open.
 */
function Home() {
  useEffect(() => {
    // If the reader has chosen a page in the meantime, that page stays open.
    const open = (page: string) => {
      if (path.value === '/') go(page, { replace: true })
    }
    const [first] = PAGES.filter((page) => isOpenTo(page) && page.path !== SETUP_PATH)
    if (first !== undefined && !may('query:read')) return open(pageHref(first, project.value.id))
    if (!may('event_definition:read')) return open(inProjectPath('/web'))
    hasEvent().then(
      (isSeen) => open(inProjectPath(isSeen ? '/web' : '/setup')),
      () => open(inProjectPath('/web')),
    )
    return undefined
  }, [])
  return <Loading />
}

function Help({ close }: { close: () => void }) {
  const pages = PAGES.flatMap(({ letter, name }) => (letter === null ? [] : [[`g ${letter}`, name] as const]))
  return (
    <Dialog title="Keyboard shortcuts" close={close}>
      <Facts of={Object.fromEntries([...KEYS, ...pages])} />
    </Dialog>
  )
}

/** The time in milliseconds within which a letter must follow `g` in a keyboard shortcut. */
const LETTER_MS = 1500

function useKeyboard(open: (what: 'palette' | 'help') => void): void {
  useEffect(() => {
    let goneAtMs = 0
    function press(event: KeyboardEvent) {
      if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault()
        open('palette')
        return
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      const page = PAGES.find(({ letter }) => letter === event.key)
      if (page !== undefined && Date.now() - goneAtMs < LETTER_MS) {
        goneAtMs = 0
        go(pageHref(page, project.value.id))
      } else if (event.key === 'g') goneAtMs = Date.now()
      else if (event.key === '?') open('help')
      else if (event.key === 'j') stepRows(1)
      else if (event.key === 'k') stepRows(-1)
      else if (event.key === '/') focusOn('main input[type=search]') || open('palette')
      else if (event.key === '.') focusOn('#range select')
      else return
      event.preventDefault()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [open])
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('input, textarea, select, dialog') !== null
}

function focusOn(selector: string): boolean {
  const element = document.querySelector<HTMLElement>(selector)
  element?.focus()
  return element !== null
}

applyTheme()
if (document.documentElement.dataset['shared'] !== undefined) {
  void import('./shared.tsx').then(({ showShared }) => showShared())
} else {
  followAddress()
  render(<App />, document.body)
  void openSession()
  // The file of the page is requested together with the session, because both take a while. If it does not load, the
  // page tries again and says so.
  const first = findPage(path.value)
  if (first !== null) loadPage(first).catch(() => {})
  // The browser loads its data for formats now, while it waits, and not when the first numbers arrive.
  exact(0)
}
