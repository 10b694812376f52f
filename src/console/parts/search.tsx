/** The field that searches a list: what is typed stands in the address, the list begins anew. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { query, setQuery } from '../base/address.ts'

const PAUSE_MS = 250

/** A search field; `/` on the keyboard goes here. */
export function Search({ label, name = 'search' }: { readonly label: string; readonly name?: string }) {
  const given = query.value.get(name) ?? ''
  const [words, setWords] = useState(given)
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
    <input
      type="search"
      aria-label={label}
      placeholder={label}
      value={words}
      onInput={({ currentTarget }) => setWords(currentTarget.value)}
    />
  )
}
