/** The members of the organization, its invitations and its roles. */
import {
  Ask,
  DialogButton,
  Form,
  Got,
  List,
  may,
  Once,
  patch,
  post,
  remove,
  type Shapes,
  say,
  Table,
} from '../../kit.ts'

type Member = Shapes['Member']
type Level = Member['level']

const LEVELS = [
  ['0', 'viewer'],
  ['1', 'member'],
  ['8', 'administrator'],
  ['15', 'owner'],
] as const

const FLAG_LEVELS = [
  ['37', 'can change'],
  ['21', 'can view'],
] as const

function levelName(level: Level): string {
  return LEVELS.find(([value]) => Number(value) === level)?.[1] ?? String(level)
}

/** The members and the open invitations. */
export function Members() {
  const canWrite = may('organization:write')
  return (
    <>
      <List
        title="Members"
        route="organization/members/"
        scope="organization:write"
        columns={[
          ['Name', ({ user }) => user.first_name],
          ['E-mail', ({ user }) => user.email],
          ['Joined', 'joined_at', 'minor ago'],
          ['Role', (member) => (canWrite ? <LevelChoice member={member} /> : levelName(member.level))],
        ]}
        drop={{
          label: 'Remove',
          title: ({ user }) => `Remove ${user.email}?`,
          words:
            'The keys and sessions of this user end immediately. Flags, dashboards and everything else that the user created stay.',
          submit: ({ user }) => remove('organization/members/{user_uuid}/', { user_uuid: user.uuid }),
        }}
      />
      {canWrite && <Invitations />}
      {canWrite && <Identities />}
    </>
  )
}

function LevelChoice({ member: { user, level } }: { member: Member }) {
  return (
    <Ask
      label={levelName(level)}
      title={`Role of ${user.email}`}
      action="Save"
      fields={{ level: { kind: 'choice', label: 'Role', value: String(level), options: LEVELS } }}
      submit={(chosen) => {
        const body = { level: Number(chosen.level) as Level }
        return patch('organization/members/{user_uuid}/', { user_uuid: user.uuid }, body)
      }}
    />
  )
}

function Invitations() {
  const once =
    'Copy this link and send it to the person. It works once, within seven days, and is not shown again. Tenrec does not send an e-mail.'
  return (
    <List
      title="Open invitations"
      label="Invitations"
      route="organization/invites/"
      scope="organization:write"
      none="No open invitations."
      columns={[
        ['E-mail', 'target_email'],
        ['Role', ({ level }) => levelName(level)],
        ['Created', 'created_at', 'minor ago'],
      ]}
      make={{
        label: 'Invite',
        title: 'Invite a member',
        action: 'Create invite link',
        fields: {
          email: { label: 'E-mail', type: 'email', isRequired: true },
          level: { kind: 'choice', label: 'Role', value: '1', options: LEVELS },
        },
        submit: async ({ email, level }) => {
          const body = { target_email: email, level: Number(level) as Level }
          const { link } = await post('organization/invites/', {}, body)
          return <Once text={link ?? ''}>{once}</Once>
        },
      }}
      drop={{
        label: 'Cancel invite',
        title: ({ target_email: email }) => `Cancel the invitation of ${email}?`,
        words: 'The invite link stops working.',
        submit: ({ id }) => remove('organization/invites/{invite_id}/', { invite_id: id }),
      }}
    />
  )
}

/**
 * The accounts at the identity provider with which members log in. Shown only if an identity provider is configured.
 */
function Identities() {
  const none = 'No member has logged in with the identity provider yet.'
  return (
    <Got route="console/oidc/">
      {({ label }) =>
        label && (
          <List
            title="Accounts for single sign-on"
            label="Accounts"
            route="organization/identities/"
            scope="organization:write"
            none={none}
            columns={[
              ['Member', ({ user }) => user?.email],
              ['Account', 'email'],
              ['Provider', 'issuer', 'minor'],
              ['First login', 'linked_at', 'minor ago'],
            ]}
            drop={{
              label: 'Unlink',
              title: ({ email }) => `Unlink ${email}?`,
              words:
                'The sessions that began with this account end. The next login with an account that has the e-mail address of the member links that account.',
              submit: ({ user }) => remove('organization/identities/{user_uuid}/', { user_uuid: user?.uuid ?? '' }),
            }}
          />
        )
      }
    </Got>
  )
}

/** The roles, which determine who may change flags. */
export function Roles() {
  return (
    <List
      title="Roles"
      route="organization/roles/"
      scope="organization:write"
      none="No roles yet. Without roles, all members may change flags, unless the default of the organization says otherwise."
      columns={[
        ['Name', 'name'],
        ['Flags', ({ feature_flags_access_level: level }) => (level === 37 ? 'can change' : 'can view')],
        ['', (role) => <RoleMembers role={role} />, 'number'],
      ]}
      make={{
        label: 'New role',
        title: 'New role',
        action: 'Create role',
        fields: {
          name: { label: 'Name', isRequired: true },
          level: { kind: 'choice', label: 'Flags', value: '37', options: FLAG_LEVELS },
        },
        submit: async ({ name, level }) => {
          const body = { name, feature_flags_access_level: Number(level) as 21 | 37 }
          await post('organization/roles/', {}, body)
          say(`Role “${name}” created.`)
        },
      }}
    />
  )
}

function RoleMembers({ role: { id, name } }: { role: Shapes['Role'] }) {
  const role = { role_id: id }
  return (
    <DialogButton label="Members" title={`Members of ${name}`}>
      <Got route="organization/roles/{role_id}/role_memberships/" values={role}>
        {({ results }) => (
          <Table
            label="Members"
            rows={results}
            none="No member yet."
            columns={[['E-mail', ({ user }) => user.email]]}
          />
        )}
      </Got>
      {may('organization:write') && <AddMember role={role} />}
    </DialogButton>
  )
}

function AddMember({ role }: { role: { role_id: string } }) {
  return (
    <Got route="organization/members/">
      {({ results }) => {
        const people = results.map(({ user }) => [user.uuid, user.email] as const)
        return (
          <Form
            action="Add member"
            fields={{ user: { kind: 'choice', label: 'Member', options: [['', 'Choose a member'], ...people] } }}
            submit={({ user }) => post('organization/roles/{role_id}/role_memberships/', role, { user_uuid: user })}
          />
        )
      }}
    </Got>
  )
}
