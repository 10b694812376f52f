/** What was changed about a flag, by whom, and the way back. */
import {
  api,
  ask,
  Card,
  ConfirmButton,
  inProject,
  may,
  plain,
  Shown,
  say,
  time,
  useLoaded,
} from '../../kit.ts'
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
  const path = { ...inProject.value, id: flag.id }
  const loaded = useLoaded(`history ${path.project_id} ${flag.id} ${flag.version}`, (signal) =>
    ask(
      api.GET('/api/projects/{project_id}/feature_flags/{id}/activity/', {
        params: { path },
        signal,
      }),
    ),
  )
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
        {entry.activity === 'updated' &&
        restorable.length > 0 &&
        may('feature_flag:write') &&
        flag.can_edit ? (
          <ConfirmButton
            label="Restore what was before"
            title="Restore what was before this change?"
            isDangerous={false}
            submit={async () => {
              const body = Object.fromEntries(
                restorable.map(({ field, before }) => [field, before]),
              )
              const params = { path: { ...inProject.value, id: flag.id } }
              await ask(
                api.PATCH('/api/projects/{project_id}/feature_flags/{id}/', {
                  params,
                  body: { ...body, version: flag.version },
                }),
              )
              say('Restored.')
              reload()
            }}
          >
            <p>
              {restorable.map(({ field }) => field).join(', ')} becomes what it was. Later changes
              of other fields stay.
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
