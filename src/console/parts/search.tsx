/** The field that searches a list: what is typed stands in the address, the list begins anew. */
import { useEffect, useState } from 'preact/hooks'
import { query, setQuery } from '../base/address.ts'

const PAUSE_MS = 250

/** A search field; `/` on the keyboard goes here. */
export function Search({
  label,
  name = 'search',
}: {
  readonly label: string
  readonly name?: string
}) {
  const given = query.value.get(name) ?? ''
  const [words, setWords] = useState(given)
  useEffect(() => {
    if (words === given) return
    const timer = setTimeout(
      () => setQuery({ [name]: words, offset: null }, { replace: true }),
      PAUSE_MS,
    )
    return () => clearTimeout(timer)
  }, [words, given, name])
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
