/** The users who may use the project, and their levels in it. */
import {
  Ask,
  Card,
  changed,
  DialogButton,
  Form,
  Got,
  List,
  patch,
  post,
  project,
  readSession,
  remove,
  type Shapes,
  say,
} from '../../kit.ts'

type Member = Shapes['ProjectMember']

const ROLES = [
  ['0', 'viewer'],
  ['1', 'editor'],
  ['8', 'administrator'],
] as const
const ADMINISTRATOR = 8

function roleName(level: number): string {
  if (level > ADMINISTRATOR) return 'owner'
  return ROLES.find(([value]) => Number(value) === level)?.[1] ?? String(level)
}

/** Shows who may use the project. Administrators can change that here. */
export function ProjectAccess() {
  const isAdmin = project.value.level >= ADMINISTRATOR
  return (
    <>
      <Got route="project/">
        {({ access_control: isPrivate }) => <Privacy isPrivate={isPrivate} isAdmin={isAdmin} />}
      </Got>
      <List
        title={`Roles in ${project.value.name}`}
        label="Project members"
        route="project/explicit_members/"
        scope="project:write"
        none="Nobody has a role of their own in this project."
        aside={isAdmin && <AddMember />}
        columns={[
          ['Name', ({ user }) => user?.first_name],
          ['E-mail', ({ user }) => user?.email],
          ['In the organization', ({ parent_level: level }) => (level === 1 ? 'member' : roleName(level)), 'minor'],
          ['In this project', (member) => (isAdmin ? <RoleChoice member={member} /> : roleName(member.level))],
        ]}
        drop={{
          label: 'Remove',
          title: ({ user }) => (isAdmin ? `Remove the role of ${user?.email}?` : null),
          words:
            'In this project the user then has the role of the organization, or no access if the project is private.',
          submit: ({ id }) => remove('project/explicit_members/{user_uuid}/', { user_uuid: id }),
        }}
      />
    </>
  )
}

function Privacy({ isPrivate, isAdmin }: { isPrivate: boolean; isAdmin: boolean }) {
  async function set() {
    await patch('project/', {}, { access_control: !isPrivate })
    await readSession()
    say(isPrivate ? 'All members may use this project.' : 'This project is private.')
  }
  return (
    <Card title="Access">
      <p>
        {isPrivate
          ? 'This project is private. Only the members below, and administrators of the organization, can see it.'
          : 'All members of the organization can use this project, with the role that they have in the organization.'}
      </p>
      {isAdmin && (
        <Ask
          label={isPrivate ? 'Open to all members' : 'Make private'}
          title={isPrivate ? 'Open this project to all members?' : 'Make this project private?'}
          isDangerous={!isPrivate}
          submit={set}
        >
          <p>
            {isPrivate
              ? 'All members of the organization can then use this project.'
              : 'Members of the organization who are not in the list below then see nothing of this project. Shared links still work.'}
          </p>
        </Ask>
      )}
    </Card>
  )
}

function AddMember() {
  return (
    <DialogButton label="Add member" title={`Add a member to ${project.value.name}`}>
      <Got route="organization/members/">
        {({ results }) => {
          const people = results.filter(({ level }) => level < ADMINISTRATOR)
          const options = people.map(({ user }) => [user.uuid, user.email] as const)
          return (
            <Form
              action="Add member"
              fields={{
                user: { kind: 'choice', label: 'Member', options: [['', 'Choose a member'], ...options] },
                level: { kind: 'choice', label: 'Role in this project', value: '1', options: ROLES },
              }}
              submit={async ({ user, level }) => {
                const body = { user_uuid: user, level: Number(level) as Member['level'] }
                await post('project/explicit_members/', {}, body)
                changed()
              }}
            />
          )
        }}
      </Got>
    </DialogButton>
  )
}

function RoleChoice({ member: { id, user, level } }: { member: Member }) {
  return (
    <Ask
      label={roleName(level)}
      title={`Role of ${user?.email} in this project`}
      action="Save"
      fields={{ level: { kind: 'choice', label: 'Role', value: String(level), options: ROLES } }}
      submit={(chosen) => {
        const body = { level: Number(chosen.level) as Member['level'] }
        return patch('project/explicit_members/{user_uuid}/', { user_uuid: id }, body)
      }}
    />
  )
}
