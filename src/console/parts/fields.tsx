/** Fields of forms, each with its label. */
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

interface FieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
}

/** A field for a line of text; `options` are offered and not forced. */
export function TextField({
  label,
  hint,
  value,
  change,
  type = 'text',
  options,
  isRequired = false,
  isNarrow = false,
  placeholder,
}: FieldProps & {
  readonly value: string
  readonly change: (value: string) => void
  readonly type?: 'text' | 'number' | 'email' | 'password' | 'date' | 'search' | 'datetime-local'
  readonly options?: readonly string[]
  readonly isRequired?: boolean
  readonly isNarrow?: boolean
  readonly placeholder?: string
}) {
  const id = useId()
  return (
    <div class={isNarrow ? 'field narrow' : 'field'}>
      <label for={id}>{label}</label>
      <input
        id={id}
        // Its types allow a list for some kinds only; browsers ignore it for the others.
        type={type as 'text'}
        value={value}
        required={isRequired}
        placeholder={placeholder}
        autocomplete="off"
        list={options === undefined ? undefined : `${id}-options`}
        step={type === 'number' ? 'any' : undefined}
        onInput={(event) => change(event.currentTarget.value)}
      />
      {options === undefined ? null : (
        <datalist id={`${id}-options`}>
          {options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
      {hint === undefined ? null : <small>{hint}</small>}
    </div>
  )
}

/** A field for many lines. */
export function AreaField({
  label,
  hint,
  value,
  change,
  rows = 4,
}: FieldProps & {
  readonly value: string
  readonly change: (value: string) => void
  readonly rows?: number
}) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea id={id} rows={rows} value={value} onInput={(event) => change(event.currentTarget.value)} />
      {hint === undefined ? null : <small>{hint}</small>}
    </div>
  )
}

/** A choice of a few. `options` are values with their words. */
export function Choice<Value extends string>({
  label,
  hint,
  value,
  options,
  change,
  isQuiet = false,
}: FieldProps & {
  readonly value: Value
  readonly options: readonly (readonly [value: Value, words: string])[]
  readonly change: (value: Value) => void
  /** The label is for screen readers only. */
  readonly isQuiet?: boolean
}) {
  const id = useId()
  return (
    <div class="field narrow">
      <label for={id} class={isQuiet ? 'unseen' : ''}>
        {label}
      </label>
      <select id={id} value={value} onChange={(event) => change(event.currentTarget.value as Value)}>
        {options.map(([one, words]) => (
          <option key={one} value={one} selected={one === value}>
            {words}
          </option>
        ))}
      </select>
      {hint === undefined ? null : <small>{hint}</small>}
    </div>
  )
}

/** Something that is or is not. */
export function Check({
  label,
  value,
  change,
  isSwitch = false,
  isDisabled = false,
  isQuiet = false,
}: {
  readonly label: string
  readonly value: boolean
  readonly change: (value: boolean) => void
  readonly isSwitch?: boolean
  readonly isDisabled?: boolean
  readonly isQuiet?: boolean
}) {
  return (
    <label class={isSwitch ? 'check switch' : 'check'}>
      <input
        type="checkbox"
        role={isSwitch ? 'switch' : undefined}
        checked={value}
        disabled={isDisabled}
        onChange={(event) => change(event.currentTarget.checked)}
      />
      <span class={isQuiet ? 'unseen' : ''}>{label}</span>
    </label>
  )
}
