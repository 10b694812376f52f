/** Shows the people whom a number counts ("the people behind it"), and saves them as a cohort. */
import { go } from '../base/address.ts'
import { fetchSafely, post, refusalOf } from '../base/api.ts'
import { exact, plain } from '../base/format.ts'
import { counted } from '../base/labels.ts'
import { useLoaded } from '../base/loaded.ts'
import { inProjectPath } from '../base/page.ts'
import { may } from '../base/session.ts'
import { Dialog } from './dialog.tsx'
import { Ask } from './form.tsx'
import { Empty, Shown } from './notice.tsx'
import { Table } from './table.tsx'
import { say } from './toasts.tsx'

/**
 * The URL of the list of people that an answer contains for a number. Null if no list would match the number exactly.
 */
export type PersonsUrl = { readonly url: string } | null | undefined

/** A number, with the list of the people whom it counts. */
export interface Behind {
  readonly title: string
  readonly url: PersonsUrl
}

/** Opens the list of the people whom a number counts. Undefined if the reader may not see people. */
export type OpenPersons = ((behind: Behind) => void) | undefined

interface CountProps {
  readonly words: string
  /** The text for screen readers, if `words` are not clear enough. */
  readonly label?: string
  readonly behind: Behind
  readonly open: OpenPersons
}

/** Shows a number. If the reader may see people, a click on it opens the list of the people whom it counts. */
export function Count({ words, label, behind, open }: CountProps) {
  if (open === undefined) return <>{words}</>
  return (
    <button type="button" class="link" aria-label={label} onClick={() => open(behind)}>
      {words}
    </button>
  )
}

interface Actor {
  readonly id: string
  readonly type: 'person' | 'group'
  readonly name?: string
  readonly group_key?: string
  readonly distinct_ids?: readonly string[]
  readonly properties: Readonly<Record<string, unknown>>
}

/**
 * A page of the list. For most queries, `results` contains lists of people. For a retention, `result` contains single
 * people, each with the periods in which they appear.
 */
interface Answer {
  readonly results?: readonly { readonly people: readonly Actor[] }[]
  readonly result?: readonly { readonly person: Actor }[]
  readonly next: string | null
  readonly total?: number
}

/** A cohort that is saved here can have at most this many persons. A larger cohort must be defined by a rule. */
const COHORT_PERSONS_MAX = 10_000
const ROWS_SHOWN = 100

/** The dialog with the list of the people whom a number counts. */
export function PersonsBehind({ behind: { title, url }, close }: { behind: Behind; close: () => void }) {
  return (
    <Dialog title={title} close={close} side>
      {url == null ? (
        <Empty title="There is no list of the people behind this number.">
          This kind of number does not count individual people, or its rules cannot be expressed as a list.
        </Empty>
      ) : (
        <Persons title={title} url={url.url} close={close} />
      )}
    </Dialog>
  )
}

function Persons({ title, url, close }: { title: string; url: string; close: () => void }) {
  const loaded = useLoaded(url, (signal) => readPersons(url, ROWS_SHOWN, signal))
  function open({ type, id }: Actor) {
    close()
    go(inProjectPath(type === 'person' ? `/persons/${id}` : '/groups'))
  }
  return (
    <Shown of={loaded}>
      {({ persons, total }) => (
        <>
          <p class="row">
            <strong data-total={total}>{counted(total, 'person', 'people')}</strong>
            {total > ROWS_SHOWN && <span class="quiet">The first {ROWS_SHOWN} are shown.</span>}
            {may('cohort:write') && persons.length > 0 && <SaveCohort title={title} url={url} />}
          </p>
          {persons.length < Math.min(total, ROWS_SHOWN) && (
            <p class="quiet">Visitors who are not identified are counted, but not listed.</p>
          )}
          <Table
            label={title}
            rows={persons}
            open={open}
            query
            columns={[
              ['Person', nameOf],
              ['E-mail', ({ properties }) => plain(properties['email']), 'minor'],
            ]}
          />
        </>
      )}
    </Shown>
  )
}

function nameOf({ id, name, group_key: key, distinct_ids: ids }: Actor): string {
  return name ?? key ?? ids?.[0] ?? id
}

function SaveCohort({ title, url }: { title: string; url: string }) {
  async function save({ name }: { name: string }) {
    const { persons } = await readPersons(url, COHORT_PERSONS_MAX)
    const uuids = persons.flatMap(({ id, type }) => (type === 'person' ? [id] : []))
    await post('project/cohorts/', {}, { name, is_static: true, person_uuids: uuids })
    say(`Cohort “${name}” with ${counted(uuids.length, 'person', 'people')} saved.`)
  }
  const hint = `The cohort keeps the people of this list, at most ${exact(COHORT_PERSONS_MAX)}. It does not change later.`
  return (
    <Ask
      label="Save as cohort"
      title="Save these people as a cohort"
      action="Save"
      fields={{ name: { label: 'Name', value: title, isRequired: true, hint } }}
      submit={save}
    />
  )
}

/** Reads up to `limit` people, page by page. `total` also counts visitors without a person, who are not in the list. */
async function readPersons(url: string, limit: number, signal?: AbortSignal) {
  const persons: Actor[] = []
  let total = 0
  let next: string | null = url
  while (next !== null && persons.length < limit) {
    // The URLs of further pages contain a host. Only their path and query are used, so that requests go only to the
    // origin of the console.
    const { pathname, search } = new URL(next, location.origin)
    const request = new Request(location.origin + pathname + search, { signal: signal ?? null })
    const response = await fetchSafely(request)
    const body: unknown = await response.json()
    if (!response.ok) throw refusalOf(response.status, body)
    const answer = body as Answer
    const found = (answer.results ?? []).flatMap(({ people }) => people)
    found.push(...(answer.result ?? []).map(({ person }) => person))
    persons.push(...found)
    total = Math.max(total, answer.total ?? 0, persons.length)
    next = found.length === 0 ? null : answer.next
  }
  return { persons: persons.slice(0, limit), total }
}
