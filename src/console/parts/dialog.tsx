/** Dialogs, and a question before what cannot be undone. The focus goes back to who opened it. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError } from '../base/api.ts'
import { Failure } from './notice.tsx'

/** A dialog over the page; Escape closes it. `side` shows it as a drawer at the right. */
export function Dialog({
  title,
  close,
  side = false,
  children,
}: {
  readonly title: string
  readonly close: () => void
  readonly side?: boolean
  readonly children: ComponentChildren
}) {
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
        <button type="button" class="small" onClick={close} aria-label="Close">
          ✕
        </button>
      </header>
      <div class="dialog-body">{children}</div>
    </dialog>
  )
}

/** A form whose `submit` may fail: the reason stands below, what was entered stays, two clicks do it once. */
export function Form({
  submit,
  action,
  isDangerous = false,
  children,
}: {
  readonly submit: () => Promise<unknown>
  readonly action: string
  readonly isDangerous?: boolean
  readonly children?: ComponentChildren
}) {
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setBusy] = useState(false)
  async function run(event: SubmitEvent) {
    event.preventDefault()
    if (isBusy) return
    setBusy(true)
    setError(null)
    try {
      await submit()
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause
      setError(cause)
    } finally {
      setBusy(false)
    }
  }
  return (
    <form onSubmit={(event) => void run(event)}>
      {children}
      {error === null ? null : <Failure error={error} />}
      <p class="actions">
        <button type="submit" class={isDangerous ? 'danger' : 'primary'} disabled={isBusy}>
          {action}
        </button>
      </p>
    </form>
  )
}

/**
 * A button that asks before it does something, in a dialog that says what will happen. A `submit` that answers
 * false leaves the dialog open.
 */
export function ConfirmButton({
  label,
  title,
  action = label,
  submit,
  isDangerous = true,
  children,
}: {
  readonly label: string
  readonly title: string
  readonly action?: string
  readonly submit: () => Promise<unknown>
  readonly isDangerous?: boolean
  readonly children: ComponentChildren
}) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" class={isDangerous ? 'danger small' : 'small'} onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen ? (
        <Dialog title={title} close={() => setOpen(false)}>
          <Form
            action={action}
            isDangerous={isDangerous}
            submit={async () => {
              if ((await submit()) !== false) setOpen(false)
            }}
          >
            {children}
          </Form>
        </Dialog>
      ) : null}
    </>
  )
}
