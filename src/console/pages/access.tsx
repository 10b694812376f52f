/** The page about access: members, roles, keys and sessions. */
import { Empty, may, Page, Tabs, tabOf } from '../kit.ts'
import { Keys, SecretKeys, Sessions } from './access/keys.tsx'
import { Members, Roles } from './access/members.tsx'
import { ProjectAccess } from './access/project.tsx'

const TABS = [
  ['keys', 'My keys', 'personal_api_key:read', Keys],
  ['secret', 'Secret keys', 'project:read', SecretKeys],
  ['people', 'Members', 'organization:read', Members],
  ['project', 'Project access', 'project:read', ProjectAccess],
  ['roles', 'Roles', 'organization:read', Roles],
  ['sessions', 'Sessions', 'personal_api_key:read', Sessions],
] as const

/** The page "Access". */
export default function AccessPage() {
  const open = TABS.filter(([, , scope]) => may(scope))
  const tabs = open.map(([value, words]) => [value, words] as const)
  const chosen = tabOf(tabs, 'tab')
  const [, , , View] = open.find(([value]) => value === chosen) ?? []
  return (
    <Page title="Access">
      {View === undefined ? (
        <Empty title="Your session has no permission to see this page." />
      ) : (
        <>
          <Tabs label="Access" tabs={tabs} parameter="tab" />
          <View />
        </>
      )}
    </Page>
  )
}
