/** The command palette (Ctrl+K). It finds pages, flags, dashboards, persons and actions. */
import { useEffect, useState } from 'preact/hooks'
import { go } from '../base/address.ts'
import { get } from '../base/api.ts'
import { useLoaded } from '../base/loaded.ts'
import { inProjectPath } from '../base/page.ts'
import { may, project } from '../base/session.ts'
import { chooseTheme, THEMES } from '../base/theme.ts'
import { isOpenTo, PAGES, pageHref } from '../routes.ts'
import { Dialog } from './dialog.tsx'

interface Hit {
  /** A text that identifies the hit among all others. */
  readonly id: string
  readonly what: string
  readonly words: string
  readonly open: () => void
  /** The keyboard shortcut that opens the page without the palette. */
  readonly keys?: string
}

const HITS_MAX = 14
/** At most this many hits of each kind are requested. */
const KIND_MAX = 6
/** With fewer characters, the palette finds only pages and actions, and sends no request. */
const SEARCH_CHARACTERS_MIN = 2

/** The dialog of the palette. The arrow keys select a hit, and Enter opens it. */
export function Palette({ close }: { close: () => void }) {
  const [words, setWords] = useState('')
  const [at, setAt] = useState(0)
  const [isWaiting, setWaiting] = useState(false)
  const { data, error } = useLoaded(`search ${project.value.id} ${words}`, async (signal) => ({
    words,
    hits: await search(words, signal),
  }))
  // The hits for a previous text are not shown, because Enter could then open something that the reader has not
  // searched for.
  const isAnswered = data?.words === words
  const hits = [...placesFor(words), ...(isAnswered ? data.hits : [])].slice(0, HITS_MAX)
  const chosen = hits[at]
  function open(hit: Hit) {
    close()
    hit.open()
  }
  useEffect(() => {
    if (!isWaiting || !(isAnswered || error)) return
    setWaiting(false)
    if (chosen !== undefined) open(chosen)
  }, [isWaiting, isAnswered, error])
  function move(event: KeyboardEvent) {
    if (event.key === 'ArrowDown') setAt(Math.min(hits.length - 1, at + 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1))
    else if (event.key === 'Enter' && chosen !== undefined) open(chosen)
    else if (event.key === 'Enter') setWaiting(true)
    else return
    event.preventDefault()
  }
  return (
    <Dialog title="Go to" close={close}>
      <input
        type="text"
        role="combobox"
        class="palette"
        aria-label="Pages, flags, dashboards, persons, actions"
        aria-expanded={hits.length > 0}
        aria-controls="hits"
        aria-autocomplete="list"
        aria-activedescendant={chosen && `hit-${at}`}
        placeholder="Page, flag, dashboard, person, e-mail, action"
        autocomplete="off"
        value={words}
        onKeyDown={move}
        onInput={(event) => {
          setWords(event.currentTarget.value)
          setAt(0)
          setWaiting(false)
        }}
      />
      <div role="listbox" id="hits" aria-label="Results">
        {hits.map((hit, place) => {
          const option = { id: `hit-${place}`, role: 'option', 'aria-selected': place === at } as const
          return (
            <div key={hit.id} class="hit" {...option} onClick={() => open(hit)}>
              <span class="quiet">{hit.what}</span> {hit.words} {hit.keys && <kbd>{hit.keys}</kbd>}
            </div>
          )
        })}
      </div>
      {hits.length === 0 && isAnswered && <p class="none">No match. Try other words.</p>}
    </Dialog>
  )
}

/** Returns the pages and actions whose names contain the text. */
function placesFor(words: string): readonly Hit[] {
  const wanted = words.trim().toLowerCase()
  const pages = PAGES.filter(isOpenTo).map((page) => ({
    id: page.path,
    what: 'Page',
    words: page.name,
    open: () => go(pageHref(page, project.value.id)),
    keys: `g ${page.letter}`,
  }))
  return [...pages, ...actions()].filter((hit) => hit.words.toLowerCase().includes(wanted))
}

function actions(): readonly Hit[] {
  const action = (words: string, open: () => void) => ({ id: words, what: 'Action', words, open })
  const colors = THEMES.map((one) => action(`Colors: ${one}`, () => chooseTheme(one)))
  if (!may('feature_flag:write')) return colors
  return [action('New flag', () => go(inProjectPath('/flags?new=1'))), ...colors]
}

async function search(words: string, signal: AbortSignal): Promise<readonly Hit[]> {
  const wanted = words.trim()
  if (wanted.length < SEARCH_CHARACTERS_MIN) return []
  const asked = { search: wanted, limit: KIND_MAX } as never
  const [flags, dashboards, persons] = await Promise.all([
    may('feature_flag:read') ? get('project/feature_flags/', asked, signal) : null,
    may('dashboard:read') ? get('project/dashboards/', asked, signal) : null,
    may('person:read') ? get('project/persons/', asked, signal) : null,
  ])
  const hit = (what: string, name: unknown, to: string) => ({
    id: to,
    what,
    words: String(name),
    open: () => go(inProjectPath(to)),
  })
  return [
    ...(flags?.results ?? []).map(({ id, key }) => hit('Flag', key, `/flags/${id}`)),
    ...(dashboards?.results ?? []).map(({ id, name }) => hit('Dashboard', name, `/dashboards/${id}`)),
    ...(persons?.results ?? []).map(({ uuid, name, distinct_ids: ids }) =>
      hit('Person', name ?? ids?.[0] ?? uuid, `/persons/${uuid}`),
    ),
  ]
}
