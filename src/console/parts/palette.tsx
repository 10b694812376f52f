/** The command palette (Ctrl+K), which finds pages, flags and persons. */
import { useState } from 'preact/hooks'
import { go } from '../base/address.ts'
import { get } from '../base/api.ts'
import { useLoaded } from '../base/loaded.ts'
import { inProjectPath } from '../base/page.ts'
import { may, project } from '../base/session.ts'
import { isOpenTo, PAGES, pageHref } from '../routes.ts'
import { Dialog } from './dialog.tsx'

interface Hit {
  readonly what: string
  readonly words: string
  readonly to: string
  /** The keyboard shortcut that opens the page from anywhere. */
  readonly keys?: string
}

const HITS_MAX = 12

/** The dialog of the palette. Arrow keys select a result, and Enter opens it. */
export function Palette({ close }: { close: () => void }) {
  const [words, setWords] = useState('')
  const [at, setAt] = useState(0)
  const { data } = useLoaded(`search ${project.value.id} ${words}`, (signal) => search(words, signal))
  const hits = [...pagesFor(words), ...(data ?? [])].slice(0, HITS_MAX)
  function open(hit: Hit | undefined) {
    if (hit === undefined) return
    close()
    go(hit.to)
  }
  function move(event: KeyboardEvent) {
    if (event.key === 'ArrowDown') setAt(Math.min(hits.length - 1, at + 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1))
    else if (event.key === 'Enter') open(hits[at])
    else return
    event.preventDefault()
  }
  return (
    <Dialog title="Go to" close={close}>
      <input
        type="text"
        role="combobox"
        class="palette"
        aria-label="Pages, flags, persons"
        aria-expanded="true"
        aria-controls="hits"
        aria-activedescendant={`hit-${at}`}
        placeholder="Page, flag, person, e-mail, distinct_id"
        value={words}
        onKeyDown={move}
        onInput={(event) => {
          setWords(event.currentTarget.value)
          setAt(0)
        }}
      />
      <div role="listbox" id="hits" aria-label="Found">
        {hits.map((hit, place) => {
          const option = { id: `hit-${place}`, role: 'option', 'aria-selected': place === at } as const
          return (
            <div key={hit.to} class="hit" {...option} onClick={() => open(hit)}>
              <span class="quiet">{hit.what}</span> {hit.words} {hit.keys && <kbd>{hit.keys}</kbd>}
            </div>
          )
        })}
      </div>
    </Dialog>
  )
}

function pagesFor(words: string): readonly Hit[] {
  const fits = PAGES.filter((page) => isOpenTo(page) && page.name.toLowerCase().includes(words.toLowerCase()))
  return fits.map((page) => ({
    what: 'Page',
    words: page.name,
    to: pageHref(page, project.value.id),
    keys: `g ${page.letter}`,
  }))
}

async function search(words: string, signal: AbortSignal): Promise<readonly Hit[]> {
  if (words.length < 2) return []
  const asked = { search: words, limit: 6 } as never
  const [flags, persons] = await Promise.all([
    may('feature_flag:read') ? get('project/feature_flags/', asked, signal) : null,
    may('person:read') ? get('project/persons/', asked, signal) : null,
  ])
  const hit = (what: string, name: unknown, to: string) => ({ what, words: String(name), to: inProjectPath(to) })
  return [
    ...(flags?.results ?? []).map(({ id, key }) => hit('Flag', key, `/flags/${id}`)),
    ...(persons?.results ?? []).map(({ uuid, name, distinct_ids: ids }) =>
      hit('Person', name ?? ids?.[0] ?? uuid, `/persons/${uuid}`),
    ),
  ]
}
