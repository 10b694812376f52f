/** The search field of a list. The URL contains the text. When it changes, the list shows its first page again. */
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { query, setQuery } from '../base/address.ts'

const PAUSE_MS = 250

interface SearchProps {
  readonly label: string
  /** The name of the URL parameter that contains the text. */
  readonly name?: string
  /** The suggestions. Any other text is allowed, too. */
  readonly options?: readonly string[]
}

/** A search field. The key `/` moves the focus to it. */
export function Search({ label, name = 'search', options }: SearchProps) {
  const given = query.value.get(name) ?? ''
  const [words, setWords] = useState(given)
  const id = useId()
  // Text that the reader types goes into the URL after a pause. If the back button or a link changes the URL, the text
  // in the URL goes into the field.
  const sent = useRef(given)
  useEffect(() => {
    if (given === sent.current) return
    sent.current = given
    setWords(given)
  }, [given])
  useEffect(() => {
    if (words === sent.current) return
    const timer = setTimeout(() => {
      sent.current = words
      setQuery({ [name]: words, offset: null, cursor: null }, { replace: true })
    }, PAUSE_MS)
    return () => clearTimeout(timer)
  }, [words, name])
  return (
    <>
      <input
        type="search"
        list={options && id}
        aria-label={label}
        placeholder={label}
        value={words}
        onInput={({ currentTarget }) => setWords(currentTarget.value)}
      />
      {options && (
        <datalist id={id}>
          {options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
    </>
  )
}
