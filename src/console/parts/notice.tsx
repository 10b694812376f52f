/** Notices instead of data: loading, errors, and hints for empty lists. */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { Answered, ApiError, GetRoute, ValuesOf } from '../base/api.ts'
import { changed, type Loaded, useGet } from '../base/loaded.ts'
import { CopyButton } from './copy.tsx'
import { Button } from './fields.tsx'

/** Shows that something is loading. */
export function Loading() {
  return <div class="loading" role="status" aria-label="Loading" />
}

/** Shows an error with its code. */
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

/** Explains why there is no data yet, with the command that changes it. */
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

/** Shows the state of a request: a loading bar at first, the error if there is one, and the children with the data. */
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

/** Reads a route and shows its answer. */
export function Got<Name extends GetRoute>({ route, values, everyMs = 0, children }: GotProps<Name>) {
  return <Shown of={useGet(route, values, { everyMs })}>{children}</Shown>
}

/** Takes back what a message reports. Resolves to a text that says so, and rejects with the reason of a failure. */
type Undo = () => Promise<string>

const toasts = signal<readonly { readonly id: number; readonly words: string; readonly undo?: Undo | undefined }[]>([])
let lastId = 0
const TOAST_MS = 6000
/** A message that offers a way back stays longer. */
const UNDO_MS = 10_000

/** Shows a short message at the edge of the page. With `undo` it has a button that takes the change back. */
export function say(words: string, undo?: Undo): void {
  const id = ++lastId
  toasts.value = [...toasts.value, { id, words, undo }]
  setTimeout(() => unsay(id), undo === undefined ? TOAST_MS : UNDO_MS)
}

function unsay(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id)
}

async function takeBack(id: number, undo: Undo): Promise<void> {
  unsay(id)
  say(await undo().catch(({ message }) => String(message)))
  changed()
}

/**
 * Waits for an action without a form, and shows its outcome in a message. The page then requests its data again.
 * Resolves to false if the action failed.
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

/** Shows the messages of `say`. It must be on the page once. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, words, undo }) => (
        <div key={id} class="toast row">
          {words}
          {undo && <Button press={() => takeBack(id, undo)}>Undo</Button>}
        </div>
      ))}
    </div>
  )
}
