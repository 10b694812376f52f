/** Dialogs. When a dialog closes, the focus returns to the element that opened it. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Button } from './fields.tsx'

interface DialogProps {
  readonly title: string
  readonly close: () => void
  /** True if the dialog is shown as a drawer on the right. */
  readonly side?: boolean
  readonly children?: ComponentChildren
}

/**
 * The elements of a dialog that may get the focus when it opens, the preferred ones first. A button that deletes
 * something is not among them, so that pressing Enter twice does not delete anything.
 */
const FIRST_FOCUS = [
  '[autofocus]',
  '.dialog-body :is(input, select, textarea):not(:disabled, [type=hidden])',
  '.dialog-body button.primary:not(:disabled)',
]

/** Moves the focus to the first field of a dialog, to its main button, or to the dialog itself. */
function focusWithin(dialog: HTMLDialogElement): void {
  const found = FIRST_FOCUS.map((selector) => dialog.querySelector<HTMLElement>(selector))
  const first = found.find((one) => one !== null) ?? dialog
  first.focus()
}

/** A dialog above the page. The focus is on its first field. Escape closes it. */
export function Dialog({ title, close, side, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  // A layout effect moves the focus before the browser handles the next key. Otherwise keys that are pressed at once
  // would go to the page below.
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
