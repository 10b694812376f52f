/** All dashboards of the project, and all insights, whether or not they stand on one. */

import { useState } from 'preact/hooks'
import {
  ago,
  Card,
  ConfirmButton,
  Empty,
  go,
  inProjectPath,
  may,
  Page,
  post,
  query,
  Search,
  Shown,
  Table,
  TextField,
  useGet,
} from '../kit.ts'
import { exploreHref } from './explore/question.ts'

/** The page. */
export default function DashboardsPage() {
  const asked = { search: query.value.get('search') ?? '' } as never
  return (
    <Page
      title="Dashboards"
      aside={
        <>
          <Search label="Name or tag" />
          {may('dashboard:write') ? <NewDashboard /> : null}
        </>
      }
    >
      <Dashboards asked={asked} />
      {may('insight:read') ? <Insights asked={asked} /> : null}
    </Page>
  )
}

interface ListProps {
  readonly asked: never
}

function Dashboards({ asked }: ListProps) {
  const loaded = useGet('project/dashboards/', asked)
  return (
    <Card title="Dashboards">
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Dashboards"
            rows={results}
            keyOf={({ id }) => id}
            open={({ id }) => go(inProjectPath(`/dashboards/${id}`))}
            none={<Empty title="No dashboard yet.">A dashboard shows insights beside each other.</Empty>}
            columns={[
              { head: 'Name', cell: ({ name }) => name ?? '(no name)' },
              { head: 'Shared', cell: ({ is_shared: isShared }) => (isShared ? 'yes' : '') },
              { head: 'Made', isMinor: true, cell: ({ created_at: at }) => ago(at) },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}

function Insights({ asked }: ListProps) {
  const loaded = useGet('project/insights/', asked)
  return (
    <Card title="Insights">
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Insights"
            rows={results}
            keyOf={({ id }) => id}
            open={({ query: saved }) => go(inProjectPath(exploreHref(saved)))}
            none={<Empty title="No insight yet.">Save one on the page Explore.</Empty>}
            columns={[
              { head: 'Name', cell: ({ name }) => name ?? '(no name)' },
              { head: 'Changed', isMinor: true, cell: ({ last_modified_at: at }) => ago(at) },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}

function NewDashboard() {
  const [name, setName] = useState('')
  return (
    <ConfirmButton
      label="New dashboard"
      title="A new dashboard"
      action="Make it"
      isDangerous={false}
      submit={async () => {
        const { id } = await post('project/dashboards/', {}, { name })
        go(inProjectPath(`/dashboards/${id}`))
      }}
    >
      <TextField label="Name" value={name} change={setName} isRequired />
    </ConfirmButton>
  )
}
