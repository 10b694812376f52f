/** What was changed about a flag, by whom, and the way back. */
import { Card, ConfirmButton, may, patch, plain, Shown, say, time, useGet } from '../../kit.ts'
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

/** Fields that a change can be taken back in. */
const RESTORED = ['name', 'filters', 'active', 'tags', 'ensure_experience_continuity', 'deleted']

/** The list, the newest first. */
export function History({ flag, reload }: { readonly flag: Flag; readonly reload: () => void }) {
  const loaded = useGet('project/feature_flags/{id}/activity/', { id: flag.id }, { turn: flag.version })
  return (
    <Card title="Changes">
      <Shown of={loaded}>
        {({ results }) => (
          <ol class="history">
            {results.map((entry) => (
              <Entry key={entry.id} entry={entry} flag={flag} reload={reload} />
            ))}
          </ol>
        )}
      </Shown>
    </Card>
  )
}

function Entry({
  entry,
  flag,
  reload,
}: {
  readonly entry: FlagActivity
  readonly flag: Flag
  readonly reload: () => void
}) {
  const changes = entry.detail.changes ?? []
  const restorable = changes.filter(({ field }) => RESTORED.includes(field))
  return (
    <li>
      <p class="row">
        <b>{entry.activity}</b> by {entry.user.email ?? entry.user.first_name}{' '}
        <span class="quiet">{time(entry.created_at)}</span>
        {entry.activity === 'updated' && restorable.length > 0 && may('feature_flag:write') && flag.can_edit ? (
          <ConfirmButton
            label="Restore what was before"
            title="Restore what was before this change?"
            isDangerous={false}
            submit={async () => {
              const body = Object.fromEntries(restorable.map(({ field, before }) => [field, before]))
              await patch('project/feature_flags/{id}/', { id: flag.id }, { ...body, version: flag.version })
              say('Restored.')
              reload()
            }}
          >
            <p>
              {restorable.map(({ field }) => field).join(', ')} becomes what it was. Later changes of other fields stay.
            </p>
          </ConfirmButton>
        ) : null}
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
