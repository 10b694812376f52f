/**
 * Where the reader is: the address holds the whole state of a page (range, filters, what is chosen), so that
 * a link reproduces it and back and forward work. Pages read the signals and call `go` or `setQuery`.
 */
import { computed, signal } from '@preact/signals'

/** Path below which the console is served, with a slash at its end: `/`, unless the settings say otherwise. */
const BASE_PATH = new URL('..', import.meta.url).pathname

const current = signal(readAddress())

/** Path of the page, from the console's root on: `/p/1/web`. */
export const path = computed(() => current.value.path)

/** The parameters of the page. */
export const query = computed(() => new URLSearchParams(current.value.search))

function readAddress() {
  const { pathname, search } = location
  return { path: `/${pathname.slice(BASE_PATH.length)}`, search }
}

/** The address of a page as links have it. */
export function href(to: string): string {
  return BASE_PATH + to.replace(/^\//, '')
}

/** Opens a page of the console: path and parameters from its root on. `replace` leaves no step for "back". */
export function go(to: string, { replace = false } = {}): void {
  history[replace ? 'replaceState' : 'pushState'](null, '', href(to))
  const isOtherPage = readAddress().path !== current.value.path
  current.value = readAddress()
  if (isOtherPage) scrollTo(0, 0)
}

/** Parameters to change: null removes one, a list sets it several times. */
export type QueryChanges = Readonly<Record<string, string | readonly string[] | null>>

/** Changes parameters of the page and keeps the others. */
export function setQuery(changes: QueryChanges, options?: { replace?: boolean }): void {
  go(withQuery(changes), options)
}

/** The page with changed parameters, for links. */
export function withQuery(changes: QueryChanges): string {
  const next = new URLSearchParams(query.value)
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name)
    for (const one of [value ?? []].flat()) if (one !== '') next.append(name, one)
  }
  const search = next.toString()
  return search === '' ? path.value : `${path.value}?${search}`
}

/** Follows the browser's own steps, and turns clicks on links of the console into steps of it. Called once. */
export function followAddress(): void {
  addEventListener('popstate', () => {
    current.value = readAddress()
  })
  document.addEventListener('click', (event) => {
    const link = (event.target as Element | null)?.closest('a')
    if (link == null || link.target !== '' || link.hasAttribute('download')) return
    if (event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const url = new URL(link.href)
    if (url.origin !== location.origin || !url.pathname.startsWith(BASE_PATH)) return
    // What the daemon serves itself: descriptions, shared pages, exports.
    if (/^\/(api|shared|embedded|metrics|static|docs)\//.test(url.pathname)) return
    event.preventDefault()
    go(url.pathname.slice(BASE_PATH.length) + url.search)
  })
}
