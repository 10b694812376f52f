/** Short messages that are shown at the edge of the page for a few seconds. */
import { signal } from '@preact/signals'
import { changed } from '../base/loaded.ts'
import { Button } from './fields.tsx'

/**
 * Takes back the change that a message reports. Resolves with the text of the next message. Rejects with the reason if
 * the change cannot be taken back.
 */
export type Undo = () => Promise<string>

const toasts = signal<readonly { readonly id: number; readonly words: string; readonly undo?: Undo | undefined }[]>([])
let lastId = 0
const TOAST_MS = 6000
/**
 * The time for which a message is shown if its change can be taken back, in milliseconds. It is longer than for other
 * messages.
 */
const UNDO_MS = 10_000

/** Shows a short message at the edge of the page. With `undo`, it has a button that takes the change back. */
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

/** Shows the messages of `say`. The page must contain it exactly once. */
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
