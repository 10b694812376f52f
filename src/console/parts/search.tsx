/** The field that searches a list: what is typed stands in the address, the list begins anew. */
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { query, setQuery } from '../base/address.ts'

const PAUSE_MS = 250

interface SearchProps {
  readonly label: string
  /** Of its parameter. */
  readonly name?: string
  /** Offered, and not forced. */
  readonly options?: readonly string[]
}

/** A search field; `/` on the keyboard goes here. */
export function Search({ label, name = 'search', options }: SearchProps) {
  const given = query.value.get(name) ?? ''
  const [words, setWords] = useState(given)
  const id = useId()
  // What the address says from elsewhere (back, a link) is shown; what was typed goes into it.
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
