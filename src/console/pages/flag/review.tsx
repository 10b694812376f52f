/**
 * The review of a change of a flag before it is saved. It shows the change in sentences and its effect on people, and
 * takes a note about the reason.
 */
import { useState } from 'preact/hooks'
import {
  ApiError,
  Button,
  changed,
  Dialog,
  exact,
  Form,
  get,
  may,
  pageOf,
  patch,
  post,
  type Shapes,
  Shown,
  say,
  Table,
  TextField,
  useLoaded,
} from '../../kit.ts'
import { changesOf, type Draft, draftOf, editedOf, type Flag, filtersOf, undoOf } from './draft.ts'
import type { Person } from './person-picker.tsx'
import { type Names, sentencesOfEdit } from './sentences.ts'

type Rehearsal = Shapes['FlagRehearsal']

interface ReviewProps {
  /** The stored flag from which the draft was made. */
  readonly flag: Flag
  readonly draft: Draft
  readonly names: Names
  readonly close: () => void
  /** Called after the draft was saved, before the page requests its data again. */
  readonly saved: () => void
}

/** Saves the draft with a note, and offers to take the change back. Throws `ApiError`. */
async function saveDraft(flag: Flag, draft: Draft, base: Flag, note: string): Promise<void> {
  const fields = changesOf(base, editedOf(flag, draft))
  const body = note.trim() === '' ? fields : { ...fields, note }
  const after = await patch('project/feature_flags/{id}/', { id: flag.id }, body)
  say(`${draft.key} is saved.`, async () => {
    await patch('project/feature_flags/{id}/', { id: flag.id }, undoOf(base, fields, after))
    return `The change of ${base.key} is undone.`
  })
}

/** The dialog that shows what a draft changes, and saves it. */
export function Review({ flag, draft, names, close, saved }: ReviewProps) {
  const [note, setNote] = useState('')
  const [conflict, setConflict] = useState<Flag | null>(null)
  async function save(base: Flag) {
    try {
      await saveDraft(flag, draft, base, note)
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error
      setConflict(await get('project/feature_flags/{id}/', { id: flag.id }))
      return false
    }
    saved()
    return true
  }
  if (conflict !== null) {
    const use = {
      overwrite: () => save(conflict),
      useTheirs: () => {
        saved()
        changed()
      },
    }
    return <Conflict flag={flag} draft={draft} names={names} close={close} theirs={conflict} {...use} />
  }
  return (
    <Dialog title="Review the change" close={close} side>
      <Form action={null} submit={() => save(flag)}>
        <ul class="changes">
          {sentencesOfEdit(draftOf(flag), draft, names).map((words) => (
            <li key={words}>{words}</li>
          ))}
        </ul>
        <Effect flag={flag} draft={draft} names={names} />
        <TextField label="Reason for the change, shown in the history" value={note} change={setNote} />
        <div class="row review-actions">
          <button type="submit" class="primary">
            Save now
          </button>
          <button type="button" onClick={close}>
            Keep editing
          </button>
        </div>
      </Form>
    </Dialog>
  )
}

/** Shows whose value would change. Nothing is saved to find this out. */
function Effect({ flag, draft, names }: Pick<ReviewProps, 'flag' | 'draft' | 'names'>) {
  const { active, rules, variants, payloads } = editedOf(flag, draft)
  const decides = active !== undefined || (rules ?? variants ?? payloads) !== undefined
  if (!decides) return <p>Nobody’s value changes.</p>
  const body = { id: flag.id, active: draft.active, filters: filtersOf(flag, draft) }
  return <Rehearsed body={body} names={names} />
}

function Rehearsed({ body, names }: { body: Shapes['FlagRehearsalDraft']; names: Names }) {
  const loaded = useLoaded(`rehearse ${JSON.stringify(body)}`, (signal) =>
    post('project/feature_flags/rehearse/', {}, body, signal),
  )
  return <Shown of={loaded}>{(answer) => <Outcome answer={answer} names={names} />}</Shown>
}

/** Returns for how many users the change would switch the flag on, switch it off, or change the variant. */
function balanceOf({ flips }: Rehearsal) {
  const sum = (chosen: typeof flips) => chosen.reduce((all, { count }) => all + count, 0)
  return {
    gained: sum(flips.filter(({ from }) => from === false)),
    lost: sum(flips.filter(({ to }) => to === false)),
    switched: sum(flips.filter(({ from, to }) => from !== false && to !== false)),
  }
}

function Outcome({ answer, names }: { answer: Rehearsal; names: Names }) {
  const { changed, sampled, total, failed, flips, examples } = answer
  const { gained, lost, switched } = balanceOf(answer)
  return (
    <>
      <p>
        Gain the flag: <b>{exact(gained)}</b>. Lose the flag: <b>{exact(lost)}</b>.{' '}
        {switched > 0 && (
          <>
            Get another variant: <b>{exact(switched)}</b>.{' '}
          </>
        )}
        <span class="quiet">
          The value changes for {exact(changed)} of {exact(sampled)} {names.subjects}
          {sampled < total && `, in a sample of ${exact(total)}`}.
        </span>
      </p>
      {failed > 0 && <p class="worse">Not decided after the change: {exact(failed)}. They count as off.</p>}
      {flips.length > 0 && (
        <Table
          label="Changes"
          rows={flips}
          columns={[
            ['Before', ({ from, from_condition: at }) => wordOf(from, at)],
            ['After', ({ to, to_condition: at }) => wordOf(to, at)],
            ['How many', 'count', 'count'],
          ]}
        />
      )}
      {examples.length > 0 && <Examples examples={examples} />}
    </>
  )
}

/** Returns a value of a flag in words, with the rule that gives it. */
function wordOf(value: boolean | string, rule: number | null = null): string {
  const word = value === true ? 'on' : value === false ? 'off' : value
  return rule === null ? word : `${word}, by rule ${rule + 1}`
}

/** At most this many examples of affected persons are shown with the names of the persons. */
const NAMED_MAX = 12

function Examples({ examples }: Pick<Rehearsal, 'examples'>) {
  const shown = examples.slice(0, NAMED_MAX)
  const ids = shown.flatMap(({ distinct_id: id }) => id ?? [])
  const { data: persons } = useLoaded(`named ${JSON.stringify(ids)}`, async (signal) => {
    if (!may('person:read')) return new Map<string, Person>()
    const found = ids.map(async (id) => {
      const { results } = await get('project/persons/', { distinct_id: id }, signal)
      return results.map((person) => [id, person] as const)
    })
    return new Map((await Promise.all(found)).flat())
  })
  const nameOf = ({ distinct_id: id, group_key: key }: Rehearsal['examples'][number]) => {
    const person = persons?.get(id ?? '')
    if (person === undefined) return id ?? key ?? ''
    return (
      <a href={pageOf(`/persons/${person.uuid}`)} target="_blank" rel="noreferrer">
        {person.name}
      </a>
    )
  }
  return (
    <>
      <h3>For example</h3>
      <Table
        label="Examples"
        rows={shown}
        keyOf={({ distinct_id: id, group_key: key }) => id ?? key ?? ''}
        columns={[
          ['Who', nameOf],
          ['Before', ({ from }) => wordOf(from)],
          ['After', ({ to }) => wordOf(to)],
        ]}
      />
    </>
  )
}

interface ConflictProps extends Pick<ReviewProps, 'flag' | 'draft' | 'names' | 'close'> {
  readonly theirs: Flag
  readonly useTheirs: () => void
  readonly overwrite: () => Promise<unknown>
}

/**
 * Shown if another user has saved the flag in the meantime. It shows the changes of both users, and lets the reader
 * choose. Nothing that the reader has typed is lost.
 */
function Conflict({ flag, draft, names, theirs, close, useTheirs, overwrite }: ConflictProps) {
  const before = draftOf(flag)
  const author = theirs.last_modified_by?.email ?? 'Somebody'
  const merged = { ...draftOf(theirs), ...editedOf(flag, draft) }
  return (
    <Dialog title="Somebody else changed this flag" close={close} side>
      <Form action={null} submit={overwrite}>
        <h3>
          {author} saved version {theirs.version} while you were editing
        </h3>
        <Sentences of={sentencesOfEdit(before, draftOf(theirs), names)} label="Their changes" />
        <h3>Your changes</h3>
        <Sentences of={sentencesOfEdit(before, draft, names)} label="Your changes" />
        <h3>If you overwrite, this changes in their version</h3>
        <Sentences of={sentencesOfEdit(draftOf(theirs), merged, names)} label="Changes to their version" />
        <div class="row review-actions">
          <button type="submit" class="primary">
            Overwrite with mine
          </button>
          <Button press={useTheirs} class="">
            Use theirs
          </Button>
          <Button press={close} class="">
            Keep editing
          </Button>
        </div>
      </Form>
    </Dialog>
  )
}

function Sentences({ of, label }: { of: readonly string[]; label: string }) {
  if (of.length === 0) return <p class="quiet">No difference.</p>
  return (
    <ul class="changes" aria-label={label}>
      {of.map((words) => (
        <li key={words}>{words}</li>
      ))}
    </ul>
  )
}
