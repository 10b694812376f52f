/** The audit log of the organization. It lists every change with its author. */
import { FileButton, href, List, Page, pageQuery, projects, query, Search, type Shapes } from '../kit.ts'
import { sentenceOfChange } from './audit/sentence.ts'

type Entry = Shapes['AuditEntry']

const SOURCES: Readonly<Record<Entry['source'], string>> = {
  api: 'API',
  console: 'Console',
  command_line: 'Command line',
  schedule: 'Schedule',
}

/** The page "Audit". */
export default function AuditPage() {
  const words = (query.value.get('search') ?? '').toLowerCase()
  return (
    <Page title="Audit" aside={<Search label="Member, change or address" />}>
      <List
        title="Changes, newest first"
        label="Changes"
        route="organization/audit_log/"
        values={pageQuery()}
        above={(entries) => <Save entries={entries} />}
        choose={(entry) => `${JSON.stringify(entry)} ${sentenceOfChange(entry)}`.toLowerCase().includes(words)}
        columns={[
          ['Time', 'created_at', 'time'],
          ['Member', ({ user, account }) => user?.email ?? account ?? ''],
          ['Change', (entry) => <Change entry={entry} />],
          ['Project', ({ project_id: id }) => nameOf(id), 'minor'],
          ['Source', ({ source, address }) => [SOURCES[source], address].filter(Boolean).join(', '), 'minor'],
        ]}
      />
    </Page>
  )
}

/** Shows what was changed, with a link to the changed object if it has a page. The tooltip shows the request. */
function Change({ entry }: { entry: Entry }) {
  const { method, route, status } = entry
  const words = sentenceOfChange(entry)
  const to = pageOfObject(entry)
  const title = [method, route, status].filter((one) => one !== null).join(' ')
  if (to === null) return <span title={title}>{words}</span>
  return (
    <a href={href(to)} title={title}>
      {words}
    </a>
  )
}

/**
 * Returns the path of the page of the changed object. Returns null if it has none, for example because it was deleted.
 */
function pageOfObject({ method, route, object_id: id, project_id: project, status, source }: Entry): string | null {
  if (id === null || project === null) return null
  if (source === 'schedule') return `/p/${project}/flags/${id}?tab=schedule`
  if (method === 'DELETE' || (status ?? 400) >= 400) return null
  const [, thing] = /\/:project_id\/(feature_flags|dashboards|persons)\/(?::\w+\/)?$/.exec(route) ?? []
  if (thing === undefined) return null
  return `/p/${project}/${thing === 'feature_flags' ? 'flags' : thing}/${id}`
}

function nameOf(id: number | null): string {
  if (id === null) return ''
  return projects.value.find((one) => one.id === id)?.name ?? `project ${id}`
}

function Save({ entries }: { entries: readonly Entry[] }) {
  const lines = () => entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
  return <FileButton label="Download NDJSON" name="audit.ndjson" type="application/x-ndjson" text={lines} />
}
