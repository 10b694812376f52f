/**
 * The URL of the console. It contains the whole state of a page (range, filters, selection). A link therefore
 * reproduces the page, and the back and forward buttons work. Pages read the signals of this file, and call `go` or
 * `setQuery`.
 */
import { computed, signal } from '@preact/signals'

/** The path under which the console is served, with a slash at its end. It is `/` unless a setting changes it. */
const BASE_PATH = new URL('..', import.meta.url).pathname

const current = signal(readAddress())

/** The path of the current page, relative to the path of the console: `/p/1/web`. */
export const path = computed(() => current.value.path)

/** The query parameters of the current page. */
export const query = computed(() => new URLSearchParams(current.value.search))

function readAddress() {
  const { pathname, search } = location
  return { path: `/${pathname.slice(BASE_PATH.length)}`, search }
}

/** Asks the reader whether to leave the page, and calls `leave` if the answer is yes. */
type LeaveGuard = (leave: () => void) => void

/** The function that asks the reader before another page opens. Null unless the page has input that would be lost. */
let guard: LeaveGuard | null = null

/**
 * Sets the function that asks the reader before another page opens. With null, the reader can leave without a question.
 */
export function guardPage(ask: LeaveGuard | null): void {
  guard = ask
}

/** Returns the path in a path with a query, as `go` takes it. */
function pathIn(to: string): string {
  return `/${to.replace(/^\//, '').replace(/\?.*$/s, '')}`
}

/**
 * If leaving the current page could lose input, asks the reader first. Returns true in this case: the page then stays
 * open, and `leave` is called if the reader agrees.
 */
function isHeld(to: string, leave: () => void): boolean {
  const ask = guard
  if (ask === null || pathIn(to) === current.value.path) return false
  ask(() => {
    guard = null
    leave()
  })
  return true
}

/** Returns the URL of a page for a link. */
export function href(to: string): string {
  return BASE_PATH + to.replace(/^\//, '')
}

/**
 * Opens a page of the console. `to` is its path and query, relative to the path of the console. With `replace`, the
 * back button skips the page that is open now.
 */
export function go(to: string, { replace = false } = {}): void {
  if (isHeld(to, () => go(to, { replace }))) return
  history[replace ? 'replaceState' : 'pushState'](null, '', href(to))
  const isOtherPage = readAddress().path !== current.value.path
  current.value = readAddress()
  if (isOtherPage) scrollTo(0, 0)
}

/** The parameters to change. Null removes a parameter, and a list sets it several times. */
export type QueryChanges = Readonly<Record<string, string | readonly string[] | null>>

/** Changes some parameters of the current page and keeps the others. */
export function setQuery(changes: QueryChanges, options?: { replace?: boolean }): void {
  go(withQuery(changes), options)
}

/** Returns the path and query of the current page with some parameters changed, for a link. */
export function withQuery(changes: QueryChanges): string {
  const next = new URLSearchParams(query.value)
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name)
    for (const one of [value ?? []].flat()) if (one !== '') next.append(name, one)
  }
  const search = next.toString()
  return search === '' ? path.value : `${path.value}?${search}`
}

/**
 * Follows the back and forward buttons, and opens the pages of clicked links without a reload. Must be called once, at
 * the start.
 */
export function followAddress(): void {
  addEventListener('popstate', () => {
    const { path: to, search } = readAddress()
    const before = href(current.value.path + current.value.search)
    // The back or forward button has already changed the URL. If the reader is asked first, the page stays open, so the
    // URL of the page is restored as a new history entry.
    if (isHeld(to, () => go(to + search))) history.pushState(null, '', before)
    else current.value = { path: to, search }
  })
  document.addEventListener('click', (event) => {
    const link = (event.target as Element | null)?.closest('a')
    if (link == null || link.target !== '' || link.hasAttribute('download')) return
    if (event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const url = new URL(link.href)
    if (url.origin !== location.origin || !url.pathname.startsWith(BASE_PATH)) return
    // The daemon itself serves these paths: the API and its description, shared pages, and files.
    if (/^\/(api|shared|embedded|metrics|static|docs)\//.test(url.pathname)) return
    event.preventDefault()
    go(url.pathname.slice(BASE_PATH.length) + url.search)
  })
}
