/** Groups: companies, teams and whatever else events are of besides persons. */

import { useState } from 'preact/hooks'
import {
  ago,
  Dialog,
  Empty,
  href,
  may,
  Page,
  PropertyTable,
  plain,
  post,
  query,
  Search,
  type Shapes,
  Shown,
  setQuery,
  Table,
  Tabs,
  useGet,
  withQuery,
} from '../kit.ts'

type Group = Shapes['Group']

/** The page. */
export default function GroupsPage() {
  const types = useGet('project/groups_types/', {})
  return (
    <Page title="Groups" aside={<Search label="Key or property" />}>
      <Shown of={types}>
        {(found) =>
          found.length === 0 ? (
            <Empty title="No groups yet." command="posthog.group('company', 'acme', { name: 'Acme' })">
              An event $groupidentify makes a group.
            </Empty>
          ) : (
            <>
              <Tabs
                label="Types"
                tabs={found.map((type) => [String(type.group_type_index), type.group_type] as const)}
                chosen={query.value.get('type') ?? String(found[0]?.group_type_index)}
                to={(type) => href(withQuery({ type, cursor: null }))}
              />
              <GroupList type={Number(query.value.get('type') ?? found[0]?.group_type_index)} />
            </>
          )
        }
      </Shown>
    </Page>
  )
}

function GroupList({ type }: { readonly type: number }) {
  const [opened, setOpened] = useState<Group | null>(null)
  const cursor = query.value.get('cursor')
  const asked = {
    group_type_index: type,
    search: query.value.get('search') ?? '',
    ...(cursor === null ? {} : { cursor }),
  }
  const loaded = useGet('project/groups/', asked)
  return (
    <Shown of={loaded}>
      {({ results, next }) => (
        <>
          <Table
            label="Groups"
            rows={results}
            keyOf={({ group_key: key }) => key}
            open={setOpened}
            columns={[
              { head: 'Key', cell: ({ group_key: key }) => key },
              {
                head: 'Name',
                cell: ({ group_properties: properties }) => plain(properties['name']),
              },
              { head: 'First seen', isNumber: true, cell: ({ created_at: at }) => ago(at) },
            ]}
          />
          {next === null ? null : (
            <button
              type="button"
              onClick={() => setQuery({ cursor: new URL(next, location.origin).searchParams.get('cursor') })}
            >
              More
            </button>
          )}
          {opened === null ? null : <GroupDrawer group={opened} close={() => setOpened(null)} reload={loaded.reload} />}
        </>
      )}
    </Shown>
  )
}

function GroupDrawer({
  group,
  close,
  reload,
}: {
  readonly group: Group
  readonly close: () => void
  readonly reload: () => void
}) {
  const [shown, setShown] = useState(group)
  const asked = { group_type_index: group.group_type_index, group_key: group.group_key }
  async function set(key: string, value: unknown) {
    setShown(await post('project/groups/update_property/', asked, { key, value }))
    reload()
  }
  return (
    <Dialog title={group.group_key} close={close} side>
      <PropertyTable properties={shown.group_properties} set={may('group:write') ? set : undefined} />
    </Dialog>
  )
}
