/** Who changed what: the audit log of the organization. */
import {
  Card,
  Page,
  Pager,
  pageQuery,
  query,
  Search,
  type Shapes,
  Shown,
  saveFile,
  Table,
  time,
  useGet,
} from '../kit.ts'

type Entry = Shapes['AuditEntry']

/** The page. */
export default function AuditPage() {
  const asked = pageQuery()
  const loaded = useGet('organization/audit_log/', asked)
  const words = (query.value.get('search') ?? '').toLowerCase()
  const fits = (entry: Entry) => JSON.stringify(entry).toLowerCase().includes(words)
  return (
    <Page title="Audit" aside={<Search label="In these rows: user, route, address" />}>
      <Card
        title="Changes, the newest first"
        aside={loaded.data === undefined ? null : <Save entries={loaded.data.results} />}
      >
        <Shown of={loaded}>
          {({ results, count }) => (
            <>
              <Table
                label="Changes"
                rows={results.filter(fits)}
                keyOf={({ id }) => id}
                columns={[
                  { head: 'When', cell: ({ created_at: at }) => time(at) },
                  { head: 'Who', cell: ({ user, account }) => user?.email ?? account ?? '' },
                  {
                    head: 'From',
                    isMinor: true,
                    cell: ({ source, address }) => [source.replaceAll('_', ' '), address].filter(Boolean).join(', '),
                  },
                  {
                    head: 'What',
                    cell: ({ method, route, object_id: id }) => (
                      <code>{[method, route, id].filter(Boolean).join(' ')}</code>
                    ),
                  },
                  {
                    head: 'Project',
                    isMinor: true,
                    isNumber: true,
                    cell: ({ project_id: id }) => id ?? '',
                  },
                  { head: 'Answer', isNumber: true, cell: ({ status }) => status ?? '' },
                ]}
              />
              <Pager count={count} />
            </>
          )}
        </Shown>
      </Card>
    </Page>
  )
}

function Save({ entries }: { readonly entries: readonly Entry[] }) {
  const lines = () => entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
  return (
    <button type="button" class="small" onClick={() => saveFile('audit.ndjson', lines(), 'application/x-ndjson')}>
      NDJSON
    </button>
  )
}
