/** The changes of a flag with their authors, and a way to revert them. */
import { Ask, Card, Got, may, patch, plain, say, time } from '../../kit.ts'
import type { Flag } from './draft.ts'

interface FlagActivity {
  readonly id: string
  readonly activity: string
  readonly created_at: string
  readonly user: { readonly email: string | null; readonly first_name: string }
  readonly detail: { readonly changes: readonly Change[] | null }
}

interface Change {
  readonly field: string
  readonly before: unknown
  readonly after: unknown
}

/** The fields in which a change can be reverted. */
const RESTORED = ['name', 'filters', 'active', 'tags', 'ensure_experience_continuity', 'deleted']

/** The list of changes, newest first. */
export function History({ flag }: { flag: Flag }) {
  return (
    <Card title="Changes">
      <Got route="project/feature_flags/{id}/activity/" values={{ id: flag.id }}>
        {({ results }) => (
          <ol class="history">
            {results.map((entry) => (
              <Entry key={entry.id} entry={entry} flag={flag} />
            ))}
          </ol>
        )}
      </Got>
    </Card>
  )
}

function Entry({ entry: { activity, user, created_at: at, detail }, flag }: { entry: FlagActivity; flag: Flag }) {
  const changes = detail.changes ?? []
  const restorable = changes.filter(({ field }) => RESTORED.includes(field))
  const canRestore = activity === 'updated' && restorable.length > 0 && may('feature_flag:write') && flag.can_edit
  return (
    <li>
      <p class="row">
        <b>{activity}</b> by {user.email ?? user.first_name} <span class="quiet">{time(at)}</span>
        {canRestore && <Restore flag={flag} changes={restorable} />}
      </p>
      <ul>
        {changes.map(({ field, before, after }) => (
          <li key={field}>
            {field}: <del>{plain(before ?? '–')}</del> <ins>{plain(after ?? '–')}</ins>
          </li>
        ))}
      </ul>
    </li>
  )
}

function Restore({ flag: { id, version }, changes }: { flag: Flag; changes: readonly Change[] }) {
  async function submit() {
    const body = Object.fromEntries(changes.map(({ field, before }) => [field, before]))
    await patch('project/feature_flags/{id}/', { id }, { ...body, version })
    say('Restored.')
  }
  const names = changes.map(({ field }) => field).join(', ')
  const title = 'Restore what was before this change?'
  return (
    <Ask label="Restore what was before" title={title} isDangerous={false} submit={submit}>
      {names} becomes what it was. Later changes of other fields stay.
    </Ask>
  )
}
