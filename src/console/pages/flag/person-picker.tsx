/** A field that finds a person by a part of an email address, by a distinct ID or by a UUID. */
import { useEffect, useId, useState } from 'preact/hooks'
import { get, may, project, type Shapes, useLoaded } from '../../kit.ts'

/** A person in the form in which lists contain it. */
export type Person = Shapes['Person']

const PAUSE_MS = 200
const FOUND_MAX = 8

/** Returns the oldest distinct ID of a person. Flags are decided for this ID. */
export function idOf({ distinct_ids: ids, uuid }: Person): string {
  return ids[0] ?? uuid
}

interface PickerProps {
  readonly label: string
  readonly hint?: string
  readonly value?: string
  /**
   * Called with the chosen distinct ID and its person. The person is null if the reader has typed an ID that no person
   * has.
   */
  readonly choose: (distinctId: string, person: Person | null) => void
  /** True if the field is emptied after each choice, so that the reader can choose several persons. */
  readonly isRepeated?: boolean
}

/**
 * The field with a list of the persons that were found. Enter chooses the marked person. If none is marked, the text
 * itself is taken as a distinct ID.
 */
export function PersonPicker({ label, hint, value = '', choose, isRepeated = false }: PickerProps) {
  const id = useId()
  const [words, setWords] = useState(value)
  const [asked, setAsked] = useState('')
  const [at, setAt] = useState(-1)
  useEffect(() => setWords(value), [value])
  useEffect(() => {
    const timer = setTimeout(() => setAsked(words.trim()), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [words])
  const isOpen = words !== value && words.trim() !== ''
  const { data } = useLoaded(`pick ${project.value.id} ${isOpen ? asked : ''}`, async (signal) => {
    if (!isOpen || asked === '' || !may('person:read')) return []
    return (await get('project/persons/', { search: asked, limit: FOUND_MAX }, signal)).results
  })
  const found = isOpen ? (data ?? []) : []
  function take(distinctId: string, person: Person | null) {
    setWords(isRepeated ? '' : distinctId)
    setAt(-1)
    choose(distinctId, person)
  }
  function press(event: KeyboardEvent) {
    const marked = found[at]
    if (event.key === 'ArrowDown') setAt(Math.min(found.length - 1, at + 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(-1, at - 1))
    else if (event.key === 'Enter' && marked !== undefined) take(idOf(marked), marked)
    else if (event.key === 'Enter' && words.trim() !== '') take(words.trim(), null)
    else return
    event.preventDefault()
  }
  return (
    <div class="field picker">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="text"
        role="combobox"
        autocomplete="off"
        placeholder="E-mail or distinct ID"
        aria-expanded={found.length > 0}
        aria-controls={`${id}-found`}
        aria-autocomplete="list"
        aria-activedescendant={found[at] && `${id}-${at}`}
        value={words}
        onKeyDown={press}
        onInput={({ currentTarget }) => {
          setWords(currentTarget.value)
          setAt(-1)
        }}
      />
      {hint && <small>{hint}</small>}
      <div role="listbox" id={`${id}-found`} aria-label="People found" class={found.length > 0 ? 'found' : ''}>
        {found.map((person, place) => (
          <div
            key={person.uuid}
            id={`${id}-${place}`}
            class="hit"
            role="option"
            aria-selected={place === at}
            onClick={() => take(idOf(person), person)}
          >
            {person.name} {person.name !== idOf(person) && <span class="quiet">{idOf(person)}</span>}
          </div>
        ))}
      </div>
    </div>
  )
}
