/** Forms that are built from a description of their fields, and dialogs that ask the reader before an action. */
import { type ComponentChildren, isValidElement } from 'preact'
import { useState } from 'preact/hooks'
import { query, setQuery } from '../base/address.ts'
import { ApiError } from '../base/api.ts'
import { changed } from '../base/loaded.ts'
import type { PropertyFilter } from '../base/queries.ts'
import { Dialog } from './dialog.tsx'
import { Button, Check, type CheckLook, Choice, type ChoiceLook, TextField, type TextLook } from './fields.tsx'
import { FilterList } from './filters.tsx'
import { Command, Failure } from './notice.tsx'

/**
 * The description of a field. It is a text field unless `kind` is set. `value` is its initial value. `isShown` hides it
 * for some values of the other fields.
 */
export type Field = { readonly isShown?: (values: never) => boolean } & (
  | (TextLook & { readonly kind?: 'text'; readonly value?: string })
  | (ChoiceLook & { readonly kind: 'choice'; readonly value?: string })
  | (CheckLook & { readonly kind: 'check'; readonly value?: boolean })
  | { readonly kind: 'filters'; readonly value?: readonly PropertyFilter[] }
)

/** The fields of a form by their names, in their order. */
export type FieldRecord = Readonly<Record<string, Field>>

/** The values of the fields by their names. */
export type FieldValues<Record> = {
  readonly [Name in keyof Record]: Record[Name] extends { readonly kind: 'check' }
    ? boolean
    : Record[Name] extends { readonly kind: 'filters' }
      ? readonly PropertyFilter[]
      : string
}

interface FieldsProps<Record extends FieldRecord> {
  readonly fields: Record
  readonly values: FieldValues<Record>
  readonly set: (changes: Partial<FieldValues<Record>>) => void
}

/** Shows the fields of a form, one below the other. */
export function Fields<Record extends FieldRecord>({ fields, values, set }: FieldsProps<Record>) {
  return Object.entries(fields).map(([name, { isShown, ...field }]) => {
    if (isShown?.(values as never) === false) return null
    const change = (value: unknown) => set({ [name]: value } as Partial<FieldValues<Record>>)
    const given = { value: values[name] as never, change }
    if (field.kind === 'choice') return <Choice key={name} {...field} {...given} />
    if (field.kind === 'check') return <Check key={name} {...field} {...given} />
    if (field.kind === 'filters')
      return <FilterList key={name} types={['person']} filters={given.value} change={change} />
    return <TextField key={name} {...field} {...given} />
  })
}

function firstValues<Record extends FieldRecord>(fields: Record): FieldValues<Record> {
  const absent = { check: false, filters: [], choice: '', text: '' }
  const first = Object.entries(fields).map(([name, { kind = 'text', value }]) => [name, value ?? absent[kind]])
  return Object.fromEntries(first) as FieldValues<Record>
}

interface FormProps<Record extends FieldRecord> {
  /** The label of the button that sends the form. Null for readers who may not change anything: they see no button. */
  readonly action: string | null
  readonly isDangerous?: boolean | undefined
  readonly fields?: Record | undefined
  readonly submit: (values: FieldValues<Record>) => Promise<unknown>
  readonly children?: ComponentChildren
}

/**
 * A form. If `submit` fails, the reason is shown below the fields, and the input stays. A double click sends the form
 * only once. After a success, the page requests its data again. If `submit` resolves with false, nothing was done, and
 * nothing is requested.
 */
export function Form<const Record extends FieldRecord = Readonly<globalThis.Record<never, Field>>>({
  action,
  isDangerous,
  fields = {} as Record,
  submit,
  children,
}: FormProps<Record>) {
  const [values, setValues] = useState(() => firstValues(fields))
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setBusy] = useState(false)
  async function run(event: SubmitEvent) {
    event.preventDefault()
    if (isBusy) return
    setBusy(true)
    setError(null)
    try {
      if ((await submit(values)) !== false) changed()
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause
      setError(cause)
    } finally {
      setBusy(false)
    }
  }
  return (
    <form onSubmit={(event) => void run(event)}>
      <Fields fields={fields} values={values} set={(changes) => setValues({ ...values, ...changes })} />
      {children}
      {error && <Failure error={error} />}
      {action && (
        <p>
          <button type="submit" class={isDangerous ? 'danger' : 'primary'} disabled={isBusy}>
            {action}
          </button>
        </p>
      )}
    </form>
  )
}

/** The properties of a button that asks the reader before an action. */
export interface AskProps<Record extends FieldRecord> extends Omit<FormProps<Record>, 'action'> {
  readonly label: string
  readonly title: string
  readonly action?: string | null
}

/**
 * A button that opens a dialog, which asks the reader before an action. The dialog may explain the action or have
 * fields for it. If `submit` resolves with false, the dialog stays open. If it resolves with an element, the dialog
 * then shows this element.
 */
export function Ask<const Record extends FieldRecord = Readonly<globalThis.Record<never, Field>>>({
  label,
  title,
  action = label,
  fields,
  isDangerous = fields === undefined,
  submit,
  children,
}: AskProps<Record>) {
  const [shown, setShown] = useState<ComponentChildren>(false)
  async function run(values: FieldValues<Record>) {
    const answer = await submit(values)
    setShown(answer === false || (isValidElement(answer) && answer))
    return answer
  }
  return (
    <>
      <Button press={() => setShown(true)} class={isDangerous ? 'danger small' : 'small'}>
        {label}
      </Button>
      {shown && (
        <Dialog title={title} close={() => setShown(false)}>
          {shown === true ? (
            <Form action={action} isDangerous={isDangerous} fields={fields} submit={run}>
              {children && <div>{children}</div>}
            </Form>
          ) : (
            shown
          )}
        </Dialog>
      )}
    </>
  )
}

/**
 * Shows a text that can be seen only once, with a button that copies it. `children` must tell the reader that the text
 * will not be shown again.
 */
export function Once({ text, children }: { text: string; children: ComponentChildren }) {
  return (
    <>
      <p>{children}</p>
      <Command text={text} />
    </>
  )
}

/** Returns the items in the text of a field, which are separated by commas or line breaks. */
export function listOf(words: string): string[] {
  return words.split(/[\n,]/).flatMap((one) => one.trim() || [])
}

/**
 * Fields whose values are parameters of the URL, under the names of the fields. A text goes into the URL when the
 * reader presses Enter or leaves the field, so that the URL never contains a half-typed text.
 */
export function AddressFields({ fields }: { fields: FieldRecord }) {
  const first: Readonly<Record<string, unknown>> = firstValues(fields)
  const read = (name: string) => {
    const given = query.value.get(name)
    return fields[name]?.kind === 'check' ? given === '1' : (given ?? first[name])
  }
  const values = Object.fromEntries(Object.keys(fields).map((name) => [name, read(name)]))
  const lazy = Object.entries(fields).map(([name, field]) => [name, { ...field, isLazy: true }] as const)
  function set(changes: object) {
    const [[name = '', value] = []] = Object.entries(changes)
    const isUsual = value === false || String(value) === first[name]
    setQuery({ [name]: value === true ? '1' : isUsual ? null : String(value) })
  }
  return <Fields fields={Object.fromEntries(lazy) as FieldRecord} values={values as never} set={set} />
}
