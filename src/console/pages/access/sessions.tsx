/** Browsers that are logged in to the console. */
import { ago, Card, ConfirmButton, remove, Shown, Table, useGet } from '../../kit.ts'

/** The list, and the way to end each. */
export function Sessions() {
  const loaded = useGet('console/sessions/', {})
  return (
    <Card title="Sessions of this console">
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Sessions"
            rows={results}
            keyOf={({ id }) => id}
            columns={[
              { head: 'Opened with', cell: ({ key_label: label }) => label ?? 'a login link' },
              { head: 'From', cell: ({ address }) => address },
              { head: 'Browser', isMinor: true, cell: ({ user_agent: agent }) => agent },
              { head: 'Seen', isNumber: true, cell: ({ last_seen_at: at }) => ago(at) },
              {
                head: '',
                isNumber: true,
                cell: ({ id, is_current: isCurrent }) =>
                  isCurrent ? (
                    'this one'
                  ) : (
                    <ConfirmButton
                      label="End"
                      title="End this session?"
                      submit={async () => {
                        await remove('console/sessions/{id}/', { id })
                        loaded.reload()
                      }}
                    >
                      <p>Whoever uses it has to log in again.</p>
                    </ConfirmButton>
                  ),
              },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}
