/**
 * A text field with suggestions, which are grouped and can be searched. It reports a value when the reader chooses a
 * suggestion, presses Enter or leaves the field, but not while the reader types. Source of the keyboard shortcuts and
 * the ARIA roles: the combobox pattern of the ARIA Authoring Practices Guide.
 */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

/** A suggestion: its value, the name that the reader sees, a short note beside the name, and the heading above it. */
export interface Suggestion {
  readonly value: string
  readonly words?: string
  readonly note?: string
  readonly group?: string
}

/** Suggestions, as objects or only as values. */
export type Suggestions = readonly (string | Suggestion)[]

interface ComboboxProps {
  readonly id: string
  readonly value: string
  readonly options: Suggestions
  /** Called with the value that the reader has chosen or entered. */
  readonly change: (value: string) => void
  /** Called with the current text whenever the reader types, so that the caller can request further suggestions. */
  readonly typed?: ((words: string) => void) | undefined
  /** If true, Enter chooses the best suggestion. If false, Enter takes the text that the reader has typed. */
  readonly picks?: boolean | undefined
  /** The name under which this browser stores the values that were chosen last. They are suggested first. */
  readonly recent?: string | undefined
  readonly placeholder?: string | undefined
  readonly isRequired?: boolean | undefined
  /** The name of the field for screen readers, if it has no visible label. */
  readonly label?: string | undefined
}

/** At most this many suggestions are shown at a time. The reader finds the others by typing. */
const SHOWN_MAX = 100
const RECENT_MAX = 5
const RECENT_GROUP = 'Recent'
const LIST_HEIGHT = 320
const GAP = 4

/** The text field with its list of suggestions. */
export function Combobox(props: ComboboxProps) {
  const { id, value, options, change, typed, picks = false, recent, placeholder, isRequired = false, label } = props
  const [draft, setShownDraft] = useState<string | null>(null)
  // The typed text that has not been taken as the value yet. It becomes null after a choice. A field that is then
  // removed still gets a blur event, which would otherwise take the text a second time.
  const typedText = useRef<string | null>(null)
  const [isOpen, setOpen] = useState(false)
  const [at, setAt] = useState(-1)
  const input = useRef<HTMLInputElement>(null)
  const all = options.map((one) => (typeof one === 'string' ? { value: one } : one))
  const shown = draft === null ? withRecent(all, recent) : found(all, draft)
  const nameOf = (of: string) => all.find((one) => one.value === of)?.words ?? of
  function setDraft(words: string | null) {
    typedText.current = words
    setShownDraft(words)
  }
  useEffect(() => {
    setDraft(null)
    setAt(-1)
  }, [value])
  function close() {
    setOpen(false)
    setDraft(null)
    setAt(-1)
  }
  function commit(next: string) {
    close()
    if (next !== value) change(next)
    if (next !== '' && recent !== undefined) remember(recent, next)
  }
  /**
   * Takes the typed text as the value. If the text is the name of a suggestion, takes the value of that suggestion
   * instead.
   */
  function commitText() {
    const words = typedText.current?.trim()
    if (words === undefined) return close()
    commit(all.find((one) => one.words?.toLowerCase() === words.toLowerCase())?.value ?? words)
  }
  function type(words: string) {
    setDraft(words)
    setOpen(true)
    setAt(picks && words !== '' ? 0 : -1)
    typed?.(words)
  }
  function press(event: KeyboardEvent) {
    const { key } = event
    const step = { ArrowDown: 1, ArrowUp: -1 }[key]
    if (step !== undefined) {
      setOpen(true)
      setAt(isOpen ? (at + step + shown.length) % Math.max(1, shown.length) : Math.max(0, indexOf(shown, value)))
    } else if (key === 'Enter' && (isOpen || draft !== null)) {
      const chosen = isOpen ? shown[at] : undefined
      if (chosen === undefined) commitText()
      else commit(chosen.value)
    } else if (key === 'Escape' && isOpen) close()
    else return
    // The key must not reach the form or the dialog around the field, which would react to it, too.
    event.preventDefault()
    event.stopPropagation()
  }
  const active = isOpen && at >= 0 && at < shown.length ? `${id}-${at}` : undefined
  return (
    <>
      <input
        id={id}
        placeholder={placeholder}
        ref={input}
        type="text"
        role="combobox"
        aria-label={label}
        aria-expanded={isOpen && shown.length > 0}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={active}
        autocomplete="off"
        spellcheck={false}
        required={isRequired}
        value={draft ?? nameOf(value)}
        onInput={({ currentTarget }) => type(currentTarget.value)}
        onKeyDown={press}
        onClick={({ currentTarget }) => {
          if (!isOpen) currentTarget.select()
          setOpen(true)
        }}
        onBlur={commitText}
      />
      {isOpen && shown.length > 0 && (
        <List id={id} shown={shown} at={at} beside={input.current} choose={({ value: chosen }) => commit(chosen)} />
      )}
    </>
  )
}

interface ListProps {
  readonly id: string
  readonly shown: readonly Suggestion[]
  readonly at: number
  readonly beside: HTMLElement | null
  readonly choose: (chosen: Suggestion) => void
}

/**
 * The list of suggestions. It is drawn above everything else on the page, so that no card or dialog hides a part of it.
 */
function List({ id, shown, at, beside, choose }: ListProps) {
  const list = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    const box = list.current
    if (box === null || beside === null) return
    const place = () => {
      const { left, top, bottom, width } = beside.getBoundingClientRect()
      const room = innerHeight - bottom - GAP
      const isBelow = room >= Math.min(LIST_HEIGHT, box.scrollHeight) || room >= top
      box.style.left = `${Math.max(GAP, Math.min(left, innerWidth - Math.max(width, 240) - GAP))}px`
      box.style.minWidth = `${Math.min(width, innerWidth - 2 * GAP)}px`
      box.style.maxHeight = `${Math.min(LIST_HEIGHT, (isBelow ? room : top) - 2 * GAP)}px`
      box.style.top = isBelow ? `${bottom + GAP}px` : 'auto'
      box.style.bottom = isBelow ? 'auto' : `${innerHeight - top + GAP}px`
    }
    box.showPopover()
    place()
    addEventListener('scroll', place, true)
    addEventListener('resize', place)
    return () => {
      removeEventListener('scroll', place, true)
      removeEventListener('resize', place)
    }
  }, [beside])
  useEffect(() => {
    document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: 'nearest' })
  }, [id, at])
  const groups = [...new Set(shown.map(({ group = '' }) => group))]
  return (
    // The field keeps the focus while the reader clicks in the list.
    <div
      ref={list}
      id={`${id}-list`}
      class="suggestions"
      role="listbox"
      aria-label="Suggestions"
      popover="manual"
      onMouseDown={(event) => event.preventDefault()}
    >
      {groups.map((group) => (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a part of a listbox
        <div key={group} role="group" aria-label={group || 'Suggestions'}>
          {group !== '' && (
            <div class="suggestion-group" aria-hidden="true">
              {group}
            </div>
          )}
          {shown.map((one, index) =>
            (one.group ?? '') === group ? (
              <div
                key={`${group} ${one.value}`}
                id={`${id}-${index}`}
                role="option"
                aria-selected={index === at}
                class="suggestion"
                onClick={() => choose(one)}
              >
                <span>{one.words ?? one.value}</span>
                {one.note !== undefined && <small>{one.note}</small>}
              </div>
            ) : null,
          )}
        </div>
      ))}
    </div>
  )
}

function indexOf(shown: readonly Suggestion[], value: string): number {
  return shown.findIndex((one) => one.value === value)
}

/**
 * Returns the suggestions that contain every typed word, the best ones first. After them come the suggestions that
 * contain the typed letters in their order.
 */
function found(all: readonly Suggestion[], typed: string): readonly Suggestion[] {
  const wanted = typed.trim().toLowerCase()
  const rankOf = ({ value, words = '' }: Suggestion) =>
    Math.min(...[value, words].map((text) => rank(text.toLowerCase(), wanted)))
  return all
    .map((one) => ({ one, rank: rankOf(one) }))
    .filter((each) => each.rank < NO_MATCH)
    .sort((a, b) => a.rank - b.rank)
    .slice(0, SHOWN_MAX)
    .map(({ one }) => one)
}

const NO_MATCH = 4

function rank(text: string, wanted: string): number {
  if (text === wanted) return 0
  if (text.startsWith(wanted)) return 1
  if (wanted.split(/\s+/).every((word) => text.includes(word))) return 2
  let from = 0
  for (const letter of wanted) {
    from = text.indexOf(letter, from) + 1
    if (from === 0) return NO_MATCH
  }
  return 3
}

/** Returns the suggestions, with the values that were chosen last in this browser before all others. */
function withRecent(all: readonly Suggestion[], name: string | undefined): readonly Suggestion[] {
  const last = name === undefined ? [] : remembered(name)
  const known = last.flatMap((value) => all.find((one) => one.value === value) ?? [])
  return [...known.map((one) => ({ ...one, group: RECENT_GROUP })), ...all.slice(0, SHOWN_MAX)]
}

function remembered(name: string): readonly string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(storageName(name)) ?? '[]')
    return Array.isArray(found) ? found.map(String) : []
  } catch {
    return []
  }
}

function remember(name: string, value: string): void {
  const others = remembered(name).filter((one) => one !== value)
  localStorage.setItem(storageName(name), JSON.stringify([value, ...others].slice(0, RECENT_MAX)))
}

function storageName(name: string): string {
  return `tenrec-recent ${name}`
}
