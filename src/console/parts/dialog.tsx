/** Dialogs. When one closes, the focus returns to the element that opened it. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Button } from './fields.tsx'

interface DialogProps {
  readonly title: string
  readonly close: () => void
  /** True to show it as a drawer at the right. */
  readonly side?: boolean
  readonly children?: ComponentChildren
}

/**
 * The elements that get the focus when a dialog opens, by preference. A button that deletes something is not among
 * them, so that a second press of Enter deletes nothing.
 */
const FIRST_FOCUS = [
  '[autofocus]',
  '.dialog-body :is(input, select, textarea):not(:disabled, [type=hidden])',
  '.dialog-body button.primary:not(:disabled)',
]

/** Focuses the first field of a dialog, its main button, or the dialog itself. */
function focusWithin(dialog: HTMLDialogElement): void {
  const found = FIRST_FOCUS.map((selector) => dialog.querySelector<HTMLElement>(selector))
  const first = found.find((one) => one !== null) ?? dialog
  first.focus()
}

/** A dialog over the page. Its first field has the focus, and Escape closes it. */
export function Dialog({ title, close, side, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  // Before the next key: letters that are typed at once must not go to the page below.
  useLayoutEffect(() => {
    const opener = document.activeElement
    if (dialog.current !== null) {
      dialog.current.showModal()
      focusWithin(dialog.current)
    }
    return () => {
      if (opener instanceof HTMLElement) opener.focus()
    }
  }, [])
  return (
    <dialog
      ref={dialog}
      tabIndex={-1}
      class={side ? 'drawer' : ''}
      aria-label={title}
      onClose={close}
      onClick={(event) => {
        if (event.target === dialog.current) close()
      }}
    >
      <header>
        <h2>{title}</h2>
        <Button press={close} aria-label="Close">
          ✕
        </Button>
      </header>
      <div class="dialog-body">{children}</div>
    </dialog>
  )
}

/** A button that opens a dialog. */
export function DialogButton({ label, ...dialog }: Omit<DialogProps, 'close'> & { label: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button press={() => setOpen(true)}>{label}</Button>
      {isOpen && <Dialog {...dialog} close={() => setOpen(false)} />}
    </>
  )
}
