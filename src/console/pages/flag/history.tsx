/**
 * The history of a flag: its changes in sentences, with their authors and reasons, and a button that takes a change
 * back.
 */
import { useState } from 'preact/hooks'
import { Button, Card, Got, may, time } from '../../kit.ts'
import { type DraftFields, draftOf, type Flag } from './draft.ts'
import type { FlagReferences } from './references.ts'
import { Review } from './review.tsx'
import { type LoggedChange, sentencesOfLog } from './sentences.ts'

interface FlagActivity {
  readonly id: string
  readonly activity: string
  readonly created_at: string
  readonly user: { readonly email: string | null; readonly first_name: string }
  readonly detail: { readonly changes: readonly LoggedChange[] | null; readonly note?: string }
}

interface HistoryProps {
  readonly flag: Flag
  readonly references: FlagReferences
  /** How many changes are shown. The default is 10. */
  readonly limit?: number
}

/** The fields whose changes can be taken back. */
const RESTORED = ['name', 'filters', 'active', 'tags', 'ensure_experience_continuity']

/** The card with all changes. */
export function History(props: HistoryProps) {
  return (
    <Card title="History">
      <Changes {...props} limit={100} />
    </Card>
  )
}

/** The list of changes, newest first. */
export function Changes({ flag, references, limit = 10 }: HistoryProps) {
  return (
    <Got route="project/feature_flags/{id}/activity/" values={{ id: flag.id, limit }}>
      {({ results }) => (
        <ol class="history">
          {results.map((entry, at) => (
            <Entry key={entry.id} isNewest={at === 0} entry={entry} flag={flag} references={references} />
          ))}
        </ol>
      )}
    </Got>
  )
}

const WORDS: Readonly<Record<string, string>> = { created: 'Created.', deleted: 'Deleted.', restored: 'Restored.' }

interface EntryProps extends HistoryProps {
  readonly entry: FlagActivity
  readonly isNewest: boolean
}

function Entry({ entry: { activity, user, created_at: at, detail }, flag, references, isNewest }: EntryProps) {
  const changes = detail.changes ?? []
  const restorable = changes.filter(({ field, before }) => RESTORED.includes(field) && before !== undefined)
  const canRestore = activity === 'updated' && restorable.length > 0 && may('feature_flag:write') && flag.can_edit
  const word = WORDS[activity]
  return (
    <li>
      <p class="head">
        <span>
          <b>{user.email ?? user.first_name}</b> <span class="quiet">{time(at)}</span>
        </span>
        {canRestore && (
          <Restore label={isNewest ? 'Undo' : 'Restore'} flag={flag} references={references} changes={restorable} />
        )}
      </p>
      <ul>
        {[...(word === undefined ? [] : [word]), ...sentencesOfLog(changes, references.names)].map((words) => (
          <li key={words}>{words}</li>
        ))}
      </ul>
      {detail.note && <blockquote>{detail.note}</blockquote>}
    </li>
  )
}

interface RestoreProps extends HistoryProps {
  readonly label: string
  readonly changes: readonly LoggedChange[]
}

/** The dialog that reviews taking back a change. Later changes of other fields are kept. */
function Restore({ label, flag, references, changes }: RestoreProps) {
  const [isOpen, setOpen] = useState(false)
  const fields = changes.map(({ field, before }) => [field, before])
  const draft = draftOf({ ...flag, ...Object.fromEntries(fields) } as DraftFields)
  return (
    <>
      <Button press={() => setOpen(true)}>{label}</Button>
      {isOpen && (
        <Review
          flag={flag}
          draft={draft}
          names={references.names}
          close={() => setOpen(false)}
          saved={() => setOpen(false)}
        />
      )}
    </>
  )
}
