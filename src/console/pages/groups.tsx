/** The list of groups, such as companies and teams. An event can belong to groups in addition to its person. */
import {
  Button,
  Card,
  Empty,
  Got,
  go,
  inProjectPath,
  Page,
  plain,
  query,
  Search,
  setQuery,
  Table,
  Tabs,
  tabOf,
} from '../kit.ts'

/** The page "Groups". */
export default function GroupsPage() {
  return (
    <Page title="Groups" aside={<Search label="Key or property" />}>
      <Got route="project/groups_types/">
        {(found) => {
          const nameOf = (type: (typeof found)[number]) => type.name_plural ?? type.group_type
          const types = found.map((type) => [String(type.group_type_index), nameOf(type)] as const)
          if (types.length === 0)
            return (
              <Empty title="No groups yet." command="posthog.group('company', 'acme', { name: 'Acme' })">
                This call in your code assigns a person to a group.
              </Empty>
            )
          return (
            <>
              <Tabs label="Types" tabs={types} parameter="type" without={['cursor']} />
              <GroupList type={Number(tabOf(types, 'type'))} />
            </>
          )
        }}
      </Got>
    </Page>
  )
}

function GroupList({ type }: { type: number }) {
  const cursor = query.value.get('cursor')
  const search = query.value.get('search') ?? ''
  const turn = (next: string) => setQuery({ cursor: new URL(next, location.origin).searchParams.get('cursor') })
  return (
    <Got route="project/groups/" values={{ group_type_index: type, search, ...(cursor !== null && { cursor }) }}>
      {({ results, next }) => (
        <Card title="All groups">
          <Table
            label="Groups"
            query
            rows={results}
            keyOf={({ group_key: key }) => key}
            open={({ group_key: key }) => go(inProjectPath(`/groups/${type}/${encodeURIComponent(key)}`))}
            none="No group matches."
            columns={[
              ['Name', ({ group_properties: properties, group_key: key }) => plain(properties['name'] ?? key), 'cut'],
              ['Key', 'group_key', 'minor'],
              ['First seen', 'created_at', 'number ago'],
            ]}
          />
          {next !== null && <Button press={() => turn(next)}>Show more groups</Button>}
        </Card>
      )}
    </Got>
  )
}
