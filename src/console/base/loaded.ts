/** What a page asks for when it is shown, and again when what it depends on changes. */
import { signal } from '@preact/signals'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { type Answered, type ApiError, type GetRoute, get, isOnline, type ValuesOf } from './api.ts'
import { project } from './session.ts'

/** What was asked for. Old data stays while new data is on its way, so that nothing flickers. */
export interface Loaded<Data> {
  readonly data: Data | undefined
  readonly error: ApiError | null
  readonly isLoading: boolean
  /** Asks again. */
  readonly reload: () => void
}

/** Answers of pages that were left, by key, for the way back: the newest few. */
const kept = new Map<string, unknown>()
const KEPT_MAX = 50

/** How often something was changed by this page. */
const changes = signal(0)

/** Says that something was changed: what `useGet` shows is asked for again. Forms say it by themselves. */
export function changed(): void {
  changes.value++
}

/**
 * Loads data for a component. `key` names what is asked, everything that it depends on included; a new key
 * aborts what is on its way. `everyMs` asks again by the clock while the page is visible.
 */
export function useLoaded<Data>(
  key: string,
  load: (signal: AbortSignal) => Promise<Data>,
  { everyMs = 0, turn = 0 } = {},
): Loaded<Data> {
  const [state, setState] = useState<Omit<Loaded<Data>, 'reload'>>(() => initial(key))
  const [own, setOwn] = useState(0)
  const loader = useRef(load)
  loader.current = load
  useEffect(() => {
    const abort = new AbortController()
    setState((before) => ({ ...before, isLoading: true }))
    loader.current(abort.signal).then(
      (data) => {
        if (abort.signal.aborted) return
        keep(key, data)
        setState({ data, error: null, isLoading: false })
      },
      (error: ApiError) => {
        if (!abort.signal.aborted) setState(({ data }) => ({ data, error, isLoading: false }))
      },
    )
    return () => abort.abort()
  }, [key, own, turn])
  const reload = useCallback(() => setOwn((before) => before + 1), [])
  useEffect(() => {
    if (everyMs === 0) return
    const timer = setInterval(() => {
      if (!document.hidden) reload()
    }, everyMs)
    return () => clearInterval(timer)
  }, [everyMs, reload])
  // What failed because nobody answered is asked again when somebody does.
  const isBack = isOnline.value && state.error?.status === 0
  useEffect(() => {
    if (isBack) reload()
  }, [isBack, reload])
  return { ...state, reload }
}

/** The answer of a route, asked again when any of this changes or `changed` was said; otherwise as `useLoaded`. */
export function useGet<Name extends GetRoute>(
  route: Name,
  values: ValuesOf<Name> = {} as never,
  { everyMs = 0 } = {},
): Loaded<Answered<Name>> {
  const key = JSON.stringify([project.value.id, route, values])
  return useLoaded(key, (signal) => get(route, values, signal), { everyMs, turn: changes.value })
}

function initial<Data>(key: string): Omit<Loaded<Data>, 'reload'> {
  return { data: kept.get(key) as Data | undefined, error: null, isLoading: true }
}

function keep(key: string, data: unknown): void {
  kept.delete(key)
  kept.set(key, data)
  if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value as string)
}
