/** What a page says instead of data: that it loads, what went wrong, what to do when there is nothing. */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { ApiError } from '../base/api.ts'
import type { Loaded } from '../base/loaded.ts'
import { CopyButton } from './copy.tsx'

/** What went wrong, with its code; what was entered stays. */
export function Failure({ error, retry }: { readonly error: ApiError; readonly retry?: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <p>
        {error.message} <code>{error.code}</code>
        {error.attr === null ? null : <> in {<code>{error.attr}</code>}</>}
      </p>
      {retry === undefined ? null : (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** Nothing there yet: why, and the command that changes it. */
export function Empty({
  title,
  command,
  children,
}: {
  readonly title: string
  readonly command?: string
  readonly children?: ComponentChildren
}) {
  return (
    <div class="notice empty">
      <h3>{title}</h3>
      {children === undefined ? null : <p>{children}</p>}
      {command === undefined ? null : (
        <pre>
          <code>{command}</code>
          <CopyButton text={command} />
        </pre>
      )}
    </div>
  )
}

/** Shows what was loaded: a bar while it loads the first time, the failure, or the children for the data. */
export function Shown<Data>({
  of: { data, error, isLoading, reload },
  children,
}: {
  readonly of: Loaded<Data>
  readonly children: (data: Data) => ComponentChildren
}) {
  return (
    <div class="shown" aria-busy={isLoading}>
      {error === null ? null : <Failure error={error} retry={reload} />}
      {data === undefined ? isLoading && <div class="loading" role="status" aria-label="Loading" /> : children(data)}
    </div>
  )
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
