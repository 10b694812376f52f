/** Lists all dashboards and all insights of the project, including insights that no dashboard shows. */
import { Ask, Empty, go, inProjectPath, List, may, Page, post, query, Search } from '../kit.ts'

/** The page "Dashboards". */
export default function DashboardsPage() {
  const asked = { search: query.value.get('search') ?? '' } as never
  const controls = (
    <>
      <Search label="Name or tag" />
      {may('dashboard:write') && <NewDashboard />}
    </>
  )
  return (
    <Page title="Dashboards" aside={controls}>
      <List
        title="Dashboards"
        route="project/dashboards/"
        values={asked}
        open={({ id }) => go(inProjectPath(`/dashboards/${id}`))}
        none={<Empty title="No dashboard yet.">A dashboard shows insights and texts side by side.</Empty>}
        columns={[
          ['Name', ({ name }) => name ?? '(no name)', 'cut'],
          ['Shared', ({ is_shared: isShared }) => (isShared ? 'yes' : '')],
          ['Description', 'description', 'minor cut'],
          ['Created', 'created_at', 'minor ago'],
        ]}
      />
      {may('insight:read') && (
        <List
          title="Insights"
          route="project/insights/"
          values={asked}
          open={({ short_id: shortId }) => go(inProjectPath(`/explore?insight=${shortId}`))}
          none={<Empty title="No insight yet.">Save one on the page Explore.</Empty>}
          columns={[
            ['Name', ({ name }) => name ?? '(no name)', 'cut'],
            ['Changed', 'last_modified_at', 'minor ago'],
          ]}
        />
      )}
    </Page>
  )
}

function NewDashboard() {
  return (
    <Ask
      label="New dashboard"
      title="New dashboard"
      action="Create"
      fields={{ name: { label: 'Name', isRequired: true } }}
      submit={async ({ name }) => {
        const { id } = await post('project/dashboards/', {}, { name })
        go(inProjectPath(`/dashboards/${id}`))
      }}
    />
  )
}
