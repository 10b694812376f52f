/** Notices that are shown in place of data: a loading bar, errors, and hints for empty lists. */
import type { ComponentChildren } from 'preact'
import type { Answered, ApiError, GetRoute, ValuesOf } from '../base/api.ts'
import { changed, type Loaded, useGet } from '../base/loaded.ts'
import { CopyButton } from './copy.tsx'
import { say, type Undo } from './toasts.tsx'

/** Shows that something is loading. */
export function Loading() {
  return <div class="loading" role="status" aria-label="Loading" />
}

/** Shows an error as a sentence. Its code is shown when the reader opens "Details". */
export function Failure({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <p>{error.message}</p>
      <details>
        <summary>Details</summary>
        Code <code>{error.code}</code>
        {error.attr && <> of the field {<code>{error.attr}</code>}</>}
        {error.status > 0 && <>, HTTP status {error.status}</>}
      </details>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** Tells the reader why there is no data yet, and shows the command that changes this. */
export function Empty(props: { title: string; command?: string; children?: ComponentChildren }) {
  const { title, command, children } = props
  return (
    <div class="notice empty">
      <h3>{title}</h3>
      {children && <div>{children}</div>}
      {command && <Command text={command} />}
    </div>
  )
}

/** Shows code with a button that copies it. */
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

/**
 * Shows the state of a request. While it has no answer yet, a loading bar is shown. If it has failed, the error is
 * shown. Otherwise the children are shown with the data. Data of a previous request stays visible, but dimmed.
 */
export function Shown<Data>({ of: { data, error, isLoading, isStale, reload }, children }: ShownProps<Data>) {
  return (
    <div class={isStale ? 'shown stale' : 'shown'} aria-busy={isLoading}>
      {error && <Failure error={error} retry={reload} />}
      {error && isStale && <p class="stale-note quiet">Below is the answer to your previous selection.</p>}
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

/** Requests a route and shows its answer. */
export function Got<Name extends GetRoute>({ route, values, everyMs = 0, children }: GotProps<Name>) {
  return <Shown of={useGet(route, values, { everyMs })}>{children}</Shown>
}

/**
 * Waits for an action that was started without a form, and shows in a message whether it succeeded. The page then
 * requests its data again. Resolves with false if the action failed.
 */
export async function act(work: Promise<unknown>, done: string, undo?: Undo): Promise<boolean> {
  const failure = await work.then(
    () => null,
    ({ message }) => String(message),
  )
  say(failure ?? done, failure === null ? undo : undefined)
  changed()
  return failure === null
}
