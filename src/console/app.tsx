/** The console application: the login, the frame around every page, and the keyboard shortcuts. */
import { type ComponentType, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import './console.css'
import { followAddress, go, href, path } from './base/address.ts'
import { ApiError, isOnline, reachDaemon } from './base/api.ts'
import { inProjectPath } from './base/page.ts'
import { hasEvent } from './base/queries.ts'
import { logOut, may, openSession, project, projects, session } from './base/session.ts'
import { applyTheme, chooseTheme, THEMES, theme } from './base/theme.ts'
import { Dialog } from './parts/dialog.tsx'
import { Button, Choice } from './parts/fields.tsx'
import { Icon } from './parts/icons.tsx'
import { Login } from './parts/login.tsx'
import { Empty, Failure, Loading, Toasts } from './parts/notice.tsx'
import { Palette } from './parts/palette.tsx'
import { stepRows } from './parts/table.tsx'
import { Facts } from './parts/tiles.tsx'
import { findPage, isOfProject, isOpenTo, PAGES, type PageRecord, pageHref } from './routes.ts'

const KEYS: readonly (readonly [keys: string, words: string])[] = [
  ['Ctrl+K or Cmd+K', 'Go to a page, a flag, a person'],
  ['/', 'Search on this page'],
  ['.', 'Time range'],
  ['j, k', 'Next row, row before; Enter opens it'],
  ['d e h w t m p y l a', 'On Web: a time range, such as today, yesterday or the last 24 hours'],
  ['←, →, x', 'On Web: the period before or after; compare'],
  ['Esc', 'Close what is open; on Web, clear the filters'],
  ['?', 'This list'],
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
        Skip to the page
      </a>
      <Rail search={() => setOpened('palette')} />
      <main id="main" tabIndex={-1}>
        {!isOnline.value && (
          <p class="notice bad" role="alert">
            The daemon does not answer. What you entered is kept; this page goes on when it runs.
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
  const current = findPage(path.value) ?? undefined
  // On narrow screens the rail is a scrolling bar, and the current page may be out of sight.
  useEffect(() => {
    const link = document.querySelector('.rail a[aria-current]')
    link?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [current])
  const home = current !== undefined && isOfProject(current) ? current : { path: '/p/:project/web' }
  return (
    <nav class="rail" aria-label="Pages">
      <a class="brand" href={href('/')}>
        Tenrec
      </a>
      {projects.value.length > 1 && (
        <Choice
          label="Project"
          isQuiet
          value={String(project.value.id)}
          options={projects.value.map(({ id, name }) => [String(id), name] as const)}
          change={(id) => go(pageHref(home, Number(id)))}
        />
      )}
      <button type="button" class="rail-search" onClick={search}>
        <Icon name="search" /> <span>Search</span> <kbd>Ctrl K</kbd>
      </button>
      <ul>
        {PAGES.filter(isOpenTo).map((page) => (
          <li key={page.path}>
            <a href={href(pageHref(page, project.value.id))} aria-current={isUnder(page, current) ? 'page' : undefined}>
              <Icon name={page.name.toLowerCase()} /> <span>{page.name}</span>
            </a>
          </li>
        ))}
      </ul>
      <div class="rail-foot">
        <Choice
          label="Colours"
          isQuiet
          value={theme.value}
          options={THEMES.map((one) => [one, `${one[0]?.toUpperCase()}${one.slice(1)}`] as const)}
          change={chooseTheme}
        />
        <Button press={logOut}>Log out</Button>
      </div>
    </nav>
  )
}

/** Returns true if this page of the rail is shown, or a page that was opened from it. */
function isUnder(page: PageRecord, current: PageRecord | undefined): boolean {
  return current !== undefined && (current === page || current.path.startsWith(`${page.path}/`))
}

function CurrentPage() {
  const page = findPage(path.value)
  const [shown, setShown] = useState<{ page: PageRecord; View: ComponentType } | null>(null)
  const [absent, setAbsent] = useState<PageRecord | null>(null)
  useEffect(() => {
    if (page === null) return
    let isGone = false
    document.title = `${page.name} · Tenrec`
    page.load().then(
      ({ default: View }) => isGone || setShown({ page, View }),
      () => isGone || setAbsent(page),
    )
    return () => {
      isGone = true
    }
  }, [page])
  if (path.value === '/') return <Home />
  if (page === null) return <Empty title="There is no such page.">Choose another one at the side.</Empty>
  if (absent === page) return <Failure error={NO_PAGE} retry={() => void loadAnew()} />
  if (shown === null || shown.page !== page) return null
  // The key makes another flag a new page, with its own form fields.
  return <shown.View key={path.value} />
}

const NO_PAGE = new ApiError(0, {
  code: 'unreachable',
  detail: 'This page could not be loaded: the daemon is away, or was replaced by another version.',
})

/**
 * Reloads everything. A browser does not request a script again after it failed to load, unless the page is reloaded.
 */
async function loadAnew(): Promise<void> {
  await reachDaemon().then(
    () => location.reload(),
    () => {},
  )
}

/** Opens the start page: the setup page until the first event has arrived, and the page about visitors after that. */
function Home() {
  useEffect(() => {
    // The reader may have chosen a page in the meantime; that page stays open.
    const open = (page: string) => {
      if (path.value === '/') go(page, { replace: true })
    }
    const [first] = PAGES.filter(isOpenTo)
    if (first !== undefined && !may('query:read')) return open(pageHref(first, project.value.id))
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
    <Dialog title="Keyboard" close={close}>
      <Facts of={Object.fromEntries([...KEYS, ...pages])} />
    </Dialog>
  )
}

/** The time within which a letter must follow `g`. */
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
}
