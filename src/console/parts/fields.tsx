/** Form controls: buttons, and fields with their labels. */
import type { ComponentChildren, ComponentProps } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { Combobox, type Suggestions } from './combobox.tsx'

/** A small button. */
export function Button({ press, ...props }: ComponentProps<'button'> & { press: () => unknown }) {
  return <button type="button" class="small" onClick={() => void press()} {...props} />
}

/** The properties of every field. With `isQuiet`, the label is only available to screen readers. */
interface FieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
  readonly isNarrow?: boolean
  readonly isQuiet?: boolean
}

function Labeled({ id, label, hint, isNarrow, isQuiet, children }: FieldProps & ComponentProps<'div'>) {
  return (
    <div class={isNarrow ? 'field narrow' : 'field'}>
      <label for={id} class={isQuiet ? 'unseen' : ''}>
        {label}
      </label>
      {children}
      {hint && <small>{hint}</small>}
    </div>
  )
}

/** The properties of a text field. `options` are suggestions. With the type `area`, the field has several lines. */
export interface TextLook extends FieldProps {
  /** Which kind of value the browser may fill in and store. By default, it does neither. */
  readonly complete?: 'username' | 'current-password' | 'new-password'
  readonly type?: 'text' | 'number' | 'email' | 'password' | 'date' | 'datetime-local' | 'search' | 'area'
  readonly options?: Suggestions | undefined
  /**
   * Called with the current text whenever the reader types into a field with suggestions, so that the caller can
   * request further suggestions.
   */
  readonly typed?: ((words: string) => void) | undefined
  /** If true, Enter chooses the best suggestion. If false, Enter takes the text that the reader has typed. */
  readonly picks?: boolean | undefined
  /** The name under which this browser stores the suggestions that were chosen last. */
  readonly recent?: string | undefined
  /** If true, the value is reported when the reader presses Enter or leaves the field, and not after each letter. */
  readonly isLazy?: boolean | undefined
  readonly isRequired?: boolean
  readonly placeholder?: string
}

/** The value of a field, and the function that is called when it changes. */
interface Changing<Value> {
  readonly value: Value
  readonly change: (value: Value) => void
}

/**
 * A field that is not visible. It tells the password manager of the browser to which user the password of a form
 * belongs.
 */
export function UserName({ email }: { email: string }) {
  return <input type="text" autocomplete="username" value={email} readonly hidden />
}

/**
 * A text field. If it has suggestions, it reports a value only when the reader has chosen one or has finished typing.
 */
export function TextField({
  complete,
  type,
  options,
  typed,
  picks,
  recent,
  isLazy = false,
  isRequired,
  placeholder,
  value,
  change,
  ...field
}: TextLook & Changing<string>) {
  const id = useId()
  const [draft, setDraft] = useState<string | null>(null)
  useEffect(() => setDraft(null), [value])
  function input({ currentTarget }: { readonly currentTarget: { readonly value: string } }) {
    if (isLazy) setDraft(currentTarget.value)
    else change(currentTarget.value)
  }
  function finish({ currentTarget }: { readonly currentTarget: { readonly value: string } }) {
    if (isLazy && currentTarget.value !== value) change(currentTarget.value)
  }
  if (options !== undefined) {
    return (
      <Labeled id={id} {...field}>
        <Combobox
          id={id}
          value={value}
          options={options}
          change={change}
          typed={typed}
          picks={picks}
          recent={recent}
          placeholder={placeholder}
          isRequired={isRequired}
        />
      </Labeled>
    )
  }
  return (
    <Labeled id={id} {...field}>
      {type === 'area' ? (
        <textarea id={id} rows={4} value={draft ?? value} onInput={input} onChange={finish} />
      ) : (
        <input
          id={id}
          placeholder={placeholder}
          value={draft ?? value}
          // The type declarations allow `step` only for some types of input. Browsers ignore it for the others.
          type={(type ?? 'text') as 'text'}
          required={isRequired ?? false}
          autocomplete={complete ?? 'off'}
          step={type === 'number' ? 'any' : undefined}
          onInput={input}
          onChange={finish}
        />
      )}
    </Labeled>
  )
}

/** The values that a choice offers, with their labels. */
export type Options<Value extends string = string> = readonly (readonly [value: Value, words: string])[]

/** The properties of a choice between a few values. */
export interface ChoiceLook<Value extends string = string> extends FieldProps {
  readonly options: Options<Value>
}

/** A choice between a few values. */
export function Choice<Value extends string>({
  options,
  value,
  change,
  ...field
}: ChoiceLook<Value> & Changing<Value>) {
  const id = useId()
  return (
    <Labeled id={id} isNarrow {...field}>
      <select id={id} value={value} onChange={(event) => change(event.currentTarget.value as Value)}>
        {options.map(([one, words]) => (
          <option key={one} value={one} selected={one === value}>
            {words}
          </option>
        ))}
      </select>
    </Labeled>
  )
}

/** The properties of a checkbox or switch. */
export interface CheckLook {
  readonly label: string
  readonly isSwitch?: boolean
  readonly isDisabled?: boolean
  readonly isQuiet?: boolean
}

interface CheckProps extends CheckLook {
  readonly value: boolean
  /**
   * Applies the choice. If it returns a promise, the promise resolves with false when the choice could not be applied.
   */
  readonly change: (value: boolean) => unknown
}

/**
 * A checkbox or switch. It shows the new choice at once, before `value` changes. If `change` fails, it shows the old
 * choice again.
 */
export function Check({ label, isSwitch, isDisabled, isQuiet, value, change }: CheckProps) {
  const [chosen, setChosen] = useState<boolean | null>(null)
  useEffect(() => setChosen(null), [value])
  async function choose(is: boolean) {
    setChosen(is)
    if ((await change(is)) === false) setChosen(null)
  }
  return (
    <label class={isSwitch ? 'check switch' : 'check'}>
      <input
        type="checkbox"
        role={isSwitch ? 'switch' : undefined}
        checked={chosen ?? value}
        disabled={isDisabled ?? false}
        onChange={(event) => void choose(event.currentTarget.checked)}
      />
      <span class={isQuiet ? 'unseen' : ''}>{label}</span>
    </label>
  )
}
