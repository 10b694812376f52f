/** Loads the data of a page when the page is shown, and again when the parameters of the request change. */
import { signal } from '@preact/signals'
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { type Answered, type ApiError, type GetRoute, get, isOnline, type ValuesOf } from './api.ts'
import { may, project } from './session.ts'

/**
 * The state of a request. The data of the previous request stays until the new data has arrived, so that the page does
 * not flicker.
 */
export interface Loaded<Data> {
  readonly data: Data | undefined
  readonly error: ApiError | null
  readonly isLoading: boolean
  /**
   * True if `data` is the answer to a previous request with other parameters. A page must not show such data as if it
   * were the answer to the current request.
   */
  readonly isStale: boolean
  /** Requests the data again. */
  readonly reload: () => void
}

/** The most recent answers by the key of their request. They are shown at once when the reader returns to a page. */
const kept = new Map<string, unknown>()
const KEPT_MAX = 50
/** The least value of `everyMs`, which may come from the URL. With a smaller value, the request is not repeated. */
const EVERY_MS_LEAST = 500

/** How many times `changed` has been called. When the number grows, `useGet` requests its data again. */
const changes = signal(0)

/**
 * Records that something was changed, so that `useGet` requests its data again. Forms call this function themselves.
 */
export function changed(): void {
  changes.value++
}

/**
 * Loads data for a component. `key` must contain everything on which the request depends. When it changes, the pending
 * request is aborted. With `everyMs`, the request is repeated while the page is visible.
 */
export function useLoaded<Data>(
  key: string,
  load: (signal: AbortSignal) => Promise<Data>,
  { everyMs = 0, turn = 0 } = {},
): Loaded<Data> {
  const [state, setState] = useState<State<Data>>(() => initial(key))
  const [own, setOwn] = useState(0)
  const loader = useRef(load)
  loader.current = load
  // Unlike other effects, a layout effect does not wait until the browser has painted, so the request is sent earlier.
  useLayoutEffect(() => {
    const abort = new AbortController()
    // If there is a cached answer to the new request, it is shown. Otherwise the answer to the previous request stays
    // for now.
    setState((before) => {
      if (before.key === key && before.isLoading && before.error === null) return before
      return kept.has(key) ? initial(key) : { ...before, error: null, isLoading: true }
    })
    loader.current(abort.signal).then(
      (data) => {
        if (abort.signal.aborted) return
        keep(key, data)
        setState({ key, data, error: null, isLoading: false })
      },
      (error: ApiError) => {
        if (!abort.signal.aborted) setState((before) => ({ ...before, error, isLoading: false }))
      },
    )
    return () => abort.abort()
  }, [key, own, turn])
  const reload = useCallback(() => setOwn((before) => before + 1), [])
  useEffect(() => {
    if (!(everyMs >= EVERY_MS_LEAST)) return
    const timer = setInterval(() => {
      if (!document.hidden) reload()
    }, everyMs)
    return () => clearInterval(timer)
  }, [everyMs, reload])
  // If a request has failed because the daemon could not be reached, it is repeated when the daemon can be reached
  // again.
  const isBack = isOnline.value && state.error?.status === 0
  useEffect(() => {
    if (isBack) reload()
  }, [isBack, reload])
  const { key: answered, ...rest } = state
  const isStale = state.data !== undefined && answered !== key
  // After a change of the key, the component is drawn once before the effect above starts the new request. `isLoading`
  // must already be true then.
  return {
    ...rest,
    isLoading: state.isLoading || (answered !== key && state.error === null),
    isStale,
    reload,
  }
}

/**
 * Returns the answer of a route. It is requested again when an argument changes or when `changed` is called. Otherwise
 * this works like `useLoaded`.
 */
export function useGet<Name extends GetRoute>(
  route: Name,
  values: ValuesOf<Name> = {} as never,
  { everyMs = 0 } = {},
): Loaded<Answered<Name>> {
  const key = JSON.stringify([project.value.id, route, values])
  return useLoaded(key, (signal) => get(route, values, signal), { everyMs, turn: changes.value })
}

/** The type of the rows that a route lists. */
export type RowOf<Name extends GetRoute> =
  Answered<Name> extends { readonly results: readonly (infer Row)[] } ? Row : never

/**
 * Returns the rows that a route lists. Returns no rows if the session does not have the scope, and undefined until the
 * rows have arrived.
 */
export function useListRows<Name extends GetRoute>(
  scope: string,
  route: Name,
  values: ValuesOf<Name>,
): readonly RowOf<Name>[] | undefined {
  const isOpen = may(scope)
  const key = JSON.stringify([project.value.id, isOpen && route, values])
  const load = async (signal: AbortSignal) =>
    isOpen ? get(route, values, signal) : { results: [] }
  const { data } = useLoaded(key, load, { turn: changes.value })
  return (data as { readonly results: readonly RowOf<Name>[] } | undefined)?.results
}

/** The state of the component. `key` belongs to the request that `data` answers. */
interface State<Data> extends Omit<Loaded<Data>, 'reload' | 'isStale'> {
  readonly key: string
}

function initial<Data>(key: string): State<Data> {
  return { key, data: kept.get(key) as Data | undefined, error: null, isLoading: true }
}

function keep(key: string, data: unknown): void {
  kept.delete(key)
  kept.set(key, data)
  if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value as string)
}
