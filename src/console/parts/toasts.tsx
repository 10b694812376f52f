/** Short messages at the edge of the page. */
import { signal } from '@preact/signals'

const toasts = signal<readonly { readonly id: number; readonly words: string }[]>([])
let lastId = 0
const TOAST_MS = 6000

/** Shows a short message at the edge of the page. */
export function say(words: string): void {
  const id = ++lastId
  toasts.value = [...toasts.value, { id, words }]
  setTimeout(() => {
    toasts.value = toasts.value.filter((one) => one.id !== id)
  }, TOAST_MS)
}

/** Shows the messages of `say`. It must be on the page once. */
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
