/** Dialogs. When one closes, the focus returns to the element that opened it. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from './fields.tsx'

interface DialogProps {
  readonly title: string
  readonly close: () => void
  /** True to show it as a drawer at the right. */
  readonly side?: boolean
  readonly children?: ComponentChildren
}

/** A dialog over the page. Escape closes it. */
export function Dialog({ title, close, side, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const opener = document.activeElement
    dialog.current?.showModal()
    return () => {
      if (opener instanceof HTMLElement) opener.focus()
    }
  }, [])
  return (
    <dialog
      ref={dialog}
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
