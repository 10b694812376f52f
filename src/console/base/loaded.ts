/** Loads the data of a page when it is shown, and again when its parameters change. */
import { signal } from '@preact/signals'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { type Answered, type ApiError, type GetRoute, get, isOnline, type ValuesOf } from './api.ts'
import { project } from './session.ts'

/** The state of a request. Old data stays until new data arrives, so that nothing flickers. */
export interface Loaded<Data> {
  readonly data: Data | undefined
  readonly error: ApiError | null
  readonly isLoading: boolean
  /** True if the data answers an earlier request with other parameters. It must look different from an answer. */
  readonly isStale: boolean
  /** Requests the data again. */
  readonly reload: () => void
}

/** The most recent answers by key, for pages that the reader returns to. */
const kept = new Map<string, unknown>()
const KEPT_MAX = 50
/** Shorter intervals, which only a URL could ask for, repeat nothing. */
const EVERY_MS_LEAST = 500

/** The number of changes that this page has made. */
const changes = signal(0)

/** Marks that something was changed, so that `useGet` requests its data again. Forms call it themselves. */
export function changed(): void {
  changes.value++
}

/**
 * Loads data for a component. `key` must contain everything that the request depends on. A new key aborts the pending
 * request. `everyMs` repeats the request while the page is visible.
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
  useEffect(() => {
    const abort = new AbortController()
    // An answer that is already known is better than the answer to another question.
    setState((before) =>
      kept.has(key) ? initial(key) : { ...before, error: null, isLoading: true },
    )
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
  // A request that failed because the daemon could not be reached is repeated when the daemon is back.
  const isBack = isOnline.value && state.error?.status === 0
  useEffect(() => {
    if (isBack) reload()
  }, [isBack, reload])
  const { key: answered, ...rest } = state
  const isStale = state.data !== undefined && answered !== key
  // In the first picture after a change the request has not begun yet.
  return {
    ...rest,
    isLoading: state.isLoading || (answered !== key && state.error === null),
    isStale,
    reload,
  }
}

/**
 * Returns the answer of a route. It is requested again when an argument changes or `changed` is called. Otherwise it
 * works like `useLoaded`.
 */
export function useGet<Name extends GetRoute>(
  route: Name,
  values: ValuesOf<Name> = {} as never,
  { everyMs = 0 } = {},
): Loaded<Answered<Name>> {
  const key = JSON.stringify([project.value.id, route, values])
  return useLoaded(key, (signal) => get(route, values, signal), { everyMs, turn: changes.value })
}

/** The state of a component. `key` is the request that `data` answers. */
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
