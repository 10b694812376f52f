/** Groups, such as companies and teams, to which events belong besides persons. */
import { useState } from 'preact/hooks'
import {
  Button,
  Card,
  Dialog,
  Empty,
  Got,
  may,
  Page,
  PropertyTable,
  post,
  query,
  Search,
  type Shapes,
  setQuery,
  Table,
  Tabs,
  tabOf,
} from '../kit.ts'

type Group = Shapes['Group']

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
                An event $groupidentify makes a group.
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
  const [opened, setOpened] = useState<Group | null>(null)
  const cursor = query.value.get('cursor')
  const search = query.value.get('search') ?? ''
  const turn = (next: string) => setQuery({ cursor: new URL(next, location.origin).searchParams.get('cursor') })
  return (
    <Got route="project/groups/" values={{ group_type_index: type, search, ...(cursor !== null && { cursor }) }}>
      {({ results, next }) => (
        <Card title="Groups">
          <Table
            label="Groups"
            query
            rows={results}
            keyOf={({ group_key: key }) => key}
            open={setOpened}
            columns={[
              ['Key', 'group_key'],
              ['Name', ({ group_properties: properties }) => properties['name'] as string, 'cut'],
              ['First seen', 'created_at', 'number ago'],
            ]}
          />
          {next !== null && <Button press={() => turn(next)}>More</Button>}
          {opened && <GroupDrawer group={opened} close={() => setOpened(null)} />}
        </Card>
      )}
    </Got>
  )
}

function GroupDrawer({ group, close }: { group: Group; close: () => void }) {
  const [shown, setShown] = useState(group)
  const asked = { group_type_index: group.group_type_index, group_key: group.group_key }
  const set = async (key: string, value: unknown) =>
    setShown(await post('project/groups/update_property/', asked, { key, value }))
  return (
    <Dialog title={group.group_key} close={close} side>
      <PropertyTable properties={shown.group_properties} set={may('group:write') && set} />
    </Dialog>
  )
}
