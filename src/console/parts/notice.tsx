/** What a page says instead of data: that it loads, what went wrong, what to do when there is nothing. */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { Answered, ApiError, GetRoute, ValuesOf } from '../base/api.ts'
import { changed, type Loaded, useGet } from '../base/loaded.ts'
import { CopyButton } from './copy.tsx'

/** Says that something is on its way. */
export function Loading() {
  return <div class="loading" role="status" aria-label="Loading" />
}

/** What went wrong, with its code; what was entered stays. */
export function Failure({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <p>
        {error.message} <code>{error.code}</code>
        {error.attr && <> in {<code>{error.attr}</code>}</>}
      </p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** Nothing there yet: why, and the command that changes it. */
export function Empty(props: { title: string; command?: string; children?: ComponentChildren }) {
  const { title, command, children } = props
  return (
    <div class="notice empty">
      <h3>{title}</h3>
      {children && <p>{children}</p>}
      {command && <Command text={command} />}
    </div>
  )
}

/** Code, and a button that copies it. */
export function Command({ text }: { text: string }) {
  return (
    <pre>
      <code>{text}</code>
      <CopyButton text={text} />
    </pre>
  )
}

interface ShownProps<Data> {
  readonly of: Loaded<Data>
  readonly children: (data: Data) => ComponentChildren
}

/** Shows what was loaded: a bar while it loads the first time, the failure, or the children for the data. */
export function Shown<Data>({ of: { data, error, isLoading, reload }, children }: ShownProps<Data>) {
  return (
    <div class="shown" aria-busy={isLoading}>
      {error && <Failure error={error} retry={reload} />}
      {data === undefined ? isLoading && <Loading /> : children(data)}
    </div>
  )
}

interface GotProps<Name extends GetRoute> {
  readonly route: Name
  readonly values?: ValuesOf<Name>
  readonly everyMs?: number
  readonly children: (data: Answered<Name>) => ComponentChildren
}

/** Asks a route and shows what it answers. */
export function Got<Name extends GetRoute>({ route, values, everyMs = 0, children }: GotProps<Name>) {
  return <Shown of={useGet(route, values, { everyMs })}>{children}</Shown>
}

const toasts = signal<readonly { readonly id: number; readonly words: string }[]>([])
let lastId = 0
const TOAST_MS = 6000

/** Says briefly, at the edge of the page, that something was done. */
export function say(words: string): void {
  const id = ++lastId
  toasts.value = [...toasts.value, { id, words }]
  setTimeout(() => {
    toasts.value = toasts.value.filter((one) => one.id !== id)
  }, TOAST_MS)
}

/** Does what has no form, and says how it ended; the page asks again for what it shows. False: it failed. */
export async function act(work: Promise<unknown>, done: string): Promise<boolean> {
  const failure = await work.then(
    () => null,
    ({ message }) => String(message),
  )
  say(failure ?? done)
  changed()
  return failure === null
}

/** Where `say` shows. Once on the page. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, words }) => (
        <div key={id} class="toast">
          {words}
        </div>
      ))}
    </div>
  )
}
