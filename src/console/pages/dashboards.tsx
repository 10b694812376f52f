/** All dashboards of the project, and all insights, whether or not they stand on one. */

import { useState } from 'preact/hooks'
import {
  ago,
  api,
  ask,
  Card,
  ConfirmButton,
  Empty,
  go,
  inProject,
  inProjectPath,
  may,
  Page,
  query,
  Shown,
  setQuery,
  Table,
  TextField,
  useLoaded,
} from '../kit.ts'
import { exploreHref } from './explore/question.ts'

/** The page. */
export default function DashboardsPage() {
  const params = {
    path: inProject.value,
    query: { search: query.value.get('search') ?? '' } as never,
  }
  const key = `${inProject.value.project_id} ${query.value.get('search')}`
  const dashboards = useLoaded(`dashboards ${key}`, (signal) =>
    ask(api.GET('/api/projects/{project_id}/dashboards/', { params, signal })),
  )
  const insights = useLoaded(`insights ${key}`, (signal) =>
    ask(api.GET('/api/projects/{project_id}/insights/', { params, signal })),
  )
  return (
    <Page
      title="Dashboards"
      aside={
        <>
          <input
            type="search"
            aria-label="Search"
            placeholder="Search"
            value={query.value.get('search') ?? ''}
            onInput={({ currentTarget }) =>
              setQuery({ search: currentTarget.value }, { replace: true })
            }
          />
          {may('dashboard:write') ? <NewDashboard /> : null}
        </>
      }
    >
      <Card title="Dashboards">
        <Shown of={dashboards}>
          {({ results }) => (
            <Table
              label="Dashboards"
              rows={results}
              keyOf={({ id }) => id}
              open={({ id }) => go(inProjectPath(`/dashboards/${id}`))}
              none={
                <Empty title="No dashboard yet.">
                  A dashboard shows insights beside each other.
                </Empty>
              }
              columns={[
                { head: 'Name', cell: ({ name }) => name ?? '(no name)' },
                { head: 'Shared', cell: ({ is_shared: isShared }) => (isShared ? 'yes' : '') },
                { head: 'Made', isMinor: true, cell: ({ created_at: at }) => ago(at) },
              ]}
            />
          )}
        </Shown>
      </Card>
      <Card title="Insights">
        <Shown of={insights}>
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
    </Page>
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
        const params = { path: inProject.value }
        const { id } = await ask(
          api.POST('/api/projects/{project_id}/dashboards/', { params, body: { name } }),
        )
        go(inProjectPath(`/dashboards/${id}`))
      }}
    >
      <TextField label="Name" value={name} change={setName} isRequired />
    </ConfirmButton>
  )
}
