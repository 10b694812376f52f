/** The audit log of the organization, which lists every change and its author. */
import { FileButton, List, Page, pageQuery, query, Search, type Shapes } from '../kit.ts'

type Entry = Shapes['AuditEntry']

/** The page "Audit". */
export default function AuditPage() {
  const words = (query.value.get('search') ?? '').toLowerCase()
  return (
    <Page title="Audit" aside={<Search label="User, route or address" />}>
      <List
        title="Changes, the newest first"
        label="Changes"
        route="organization/audit_log/"
        values={pageQuery()}
        above={(entries) => <Save entries={entries} />}
        choose={(entry) => JSON.stringify(entry).toLowerCase().includes(words)}
        columns={[
          ['When', 'created_at', 'time'],
          ['Who', ({ user, account }) => user?.email ?? account ?? ''],
          ['From', ({ source, address }) => joined(source.replaceAll('_', ' '), address, ', '), 'minor'],
          ['What', ({ method, route, object_id: id }) => joined(`${method} ${shortRoute(route)}`, id, ' '), 'code'],
          ['Project', 'project_id', 'minor number'],
          ['Answer', 'status', 'minor number'],
        ]}
      />
    </Page>
  )
}

/** Removes the prefix of a route. The project has its own column. */
function shortRoute(route: string): string {
  return route.replace(/^\/api\/(?:(?:projects|organizations)\/:\w+\/)?/, '')
}

function joined(first: string, second: string | null | undefined, between: string): string {
  return second ? first + between + second : first
}

function Save({ entries }: { entries: readonly Entry[] }) {
  const lines = () => entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
  return <FileButton label="NDJSON" name="audit.ndjson" type="application/x-ndjson" text={lines} />
}
