/** Who may what: people, keys, sessions. A new key is shown once. */
import { Empty, href, may, Page, query, Tabs, withQuery } from '../kit.ts'
import { Keys, SecretKeys } from './access/keys.tsx'
import { Members, Roles } from './access/members.tsx'
import { Sessions } from './access/sessions.tsx'

const TABS = [
  ['keys', 'My keys', 'personal_api_key:read', Keys],
  ['secret', 'Secret keys', 'project:read', SecretKeys],
  ['people', 'People', 'organization:read', Members],
  ['roles', 'Roles', 'organization:read', Roles],
  ['sessions', 'Sessions', 'personal_api_key:read', Sessions],
] as const

/** The page. */
export default function AccessPage() {
  const shown = TABS.filter(([, , scope]) => may(scope))
  const chosen = shown.find(([value]) => value === query.value.get('tab')) ?? shown[0]
  if (chosen === undefined) {
    return (
      <Page title="Access">
        <Empty title="This session may not see who has access." />
      </Page>
    )
  }
  const [value, , , View] = chosen
  return (
    <Page title="Access">
      <Tabs
        label="Access"
        tabs={shown.map(([one, words]) => [one, words] as const)}
        chosen={value}
        to={(tab) => href(withQuery({ tab }))}
      />
      <View />
    </Page>
  )
}
