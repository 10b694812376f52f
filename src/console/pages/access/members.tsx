/** People of the organization, invitations, roles. */

import { useState } from 'preact/hooks'
import {
  ago,
  Card,
  Choice,
  ConfirmButton,
  CopyButton,
  Dialog,
  Form,
  may,
  patch,
  post,
  remove,
  type Shapes,
  Shown,
  say,
  Table,
  TextField,
  useGet,
} from '../../kit.ts'

type Level = Shapes['Member']['level']

const LEVELS = [
  ['1', 'member'],
  ['8', 'administrator'],
  ['15', 'owner'],
] as const

function levelName(level: Level): string {
  return LEVELS.find(([value]) => Number(value) === level)?.[1] ?? String(level)
}

/** The members, and who is invited. */
export function Members() {
  const loaded = useGet('organization/members/', {})
  const canWrite = may('organization:write')
  return (
    <>
      <Card title="People">
        <Shown of={loaded}>
          {({ results }) => (
            <Table
              label="People"
              rows={results}
              keyOf={({ id }) => id}
              columns={[
                { head: 'Name', cell: ({ user }) => user.first_name },
                { head: 'E-mail', cell: ({ user }) => user.email },
                { head: 'Since', isMinor: true, cell: ({ joined_at: at }) => ago(at) },
                {
                  head: 'Is',
                  cell: (member) =>
                    canWrite ? <LevelChoice member={member} reload={loaded.reload} /> : levelName(member.level),
                },
                {
                  head: '',
                  isNumber: true,
                  cell: (member) => (canWrite ? <RemoveMember member={member} reload={loaded.reload} /> : null),
                },
              ]}
            />
          )}
        </Shown>
      </Card>
      {canWrite ? <Invitations /> : null}
    </>
  )
}

interface MemberProps {
  readonly member: Shapes['Member']
  readonly reload: () => void
}

function LevelChoice({ member: { user, level }, reload }: MemberProps) {
  const [chosen, setChosen] = useState(String(level))
  return (
    <ConfirmButton
      label={levelName(level)}
      title={`What is ${user.email}?`}
      action="Save"
      isDangerous={false}
      submit={async () => {
        const body = { level: Number(chosen) as Level }
        await patch('organization/members/{user_uuid}/', { user_uuid: user.uuid }, body)
        reload()
      }}
    >
      <Choice
        label="Level"
        value={chosen}
        options={LEVELS as readonly (readonly [string, string])[]}
        change={setChosen}
      />
    </ConfirmButton>
  )
}

function RemoveMember({ member: { user }, reload }: MemberProps) {
  return (
    <ConfirmButton
      label="Remove"
      title={`Remove ${user.email}?`}
      submit={async () => {
        await remove('organization/members/{user_uuid}/', { user_uuid: user.uuid })
        reload()
      }}
    >
      <p>The keys and sessions of this person end at once. What the person made stays.</p>
    </ConfirmButton>
  )
}

function Invitations() {
  const loaded = useGet('organization/invites/', {})
  return (
    <Card title="Invited" aside={<Invite reload={loaded.reload} />}>
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Invitations"
            rows={results}
            keyOf={({ id }) => id}
            none="Nobody."
            columns={[
              { head: 'E-mail', cell: ({ target_email: email }) => email },
              { head: 'As', cell: ({ level }) => levelName(level) },
              { head: 'Made', isMinor: true, cell: ({ created_at: at }) => ago(at) },
              {
                head: '',
                isNumber: true,
                cell: ({ id, target_email: email }) => (
                  <ConfirmButton
                    label="Take back"
                    title={`Take the invitation of ${email} back?`}
                    submit={async () => {
                      await remove('organization/invites/{invite_id}/', { invite_id: id })
                      loaded.reload()
                    }}
                  >
                    <p>Its link opens nothing any more.</p>
                  </ConfirmButton>
                ),
              },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}

function Invite({ reload }: { readonly reload: () => void }) {
  const [state, setState] = useState<'closed' | 'open' | { link: string }>('closed')
  const [email, setEmail] = useState('')
  const [level, setLevel] = useState('1')
  async function invite() {
    const body = { target_email: email, level: Number(level) as Level }
    const { link } = await post('organization/invites/', {}, body)
    setState({ link: link ?? '' })
    reload()
  }
  return (
    <>
      <button type="button" class="small" onClick={() => setState('open')}>
        Invite
      </button>
      {state === 'closed' ? null : (
        <Dialog title="Invite somebody" close={() => setState('closed')}>
          {typeof state === 'object' ? (
            <>
              <p>Pass this link on; it is shown once and good once, for seven days. No letter is sent.</p>
              <pre>
                <code>{state.link}</code>
                <CopyButton text={state.link} />
              </pre>
            </>
          ) : (
            <Form action="Make the link" submit={invite}>
              <TextField label="E-mail" type="email" value={email} change={setEmail} isRequired />
              <Choice
                label="As"
                value={level}
                options={LEVELS as readonly (readonly [string, string])[]}
                change={setLevel}
              />
            </Form>
          )}
        </Dialog>
      )}
    </>
  )
}

/** Roles, which say who may change flags. */
export function Roles() {
  const loaded = useGet('organization/roles/', {})
  const canWrite = may('organization:write')
  return (
    <Card title="Roles" aside={canWrite ? <NewRole reload={loaded.reload} /> : null}>
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Roles"
            rows={results}
            keyOf={({ id }) => id}
            none="None: everybody may change flags, unless the default says otherwise."
            columns={[
              { head: 'Name', cell: ({ name }) => name },
              {
                head: 'Flags',
                cell: ({ feature_flags_access_level: level }) => (level === 37 ? 'may change' : 'may look'),
              },
              { head: '', isNumber: true, cell: (role) => <RoleMembers role={role} /> },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}

function NewRole({ reload }: { readonly reload: () => void }) {
  const [name, setName] = useState('')
  const [level, setLevel] = useState<'21' | '37'>('37')
  return (
    <ConfirmButton
      label="New role"
      title="A new role"
      action="Make it"
      isDangerous={false}
      submit={async () => {
        const body = { name, feature_flags_access_level: Number(level) as 21 | 37 }
        await post('organization/roles/', {}, body)
        say(`Role “${name}” made.`)
        reload()
      }}
    >
      <TextField label="Name" value={name} change={setName} isRequired />
      <Choice
        label="Flags"
        value={level}
        options={[
          ['37', 'may change'],
          ['21', 'may look'],
        ]}
        change={setLevel}
      />
    </ConfirmButton>
  )
}

function RoleMembers({ role: { id, name } }: { readonly role: Shapes['Role'] }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" class="small" onClick={() => setOpen(true)}>
        Members
      </button>
      {isOpen ? (
        <Dialog title={`Members of ${name}`} close={() => setOpen(false)}>
          <RoleMemberList roleId={id} />
        </Dialog>
      ) : null}
    </>
  )
}

function RoleMemberList({ roleId }: { readonly roleId: string }) {
  const [chosen, setChosen] = useState('')
  const loaded = useGet('organization/roles/{role_id}/role_memberships/', { role_id: roleId })
  const people = useGet('organization/members/', {})
  async function add() {
    const body = { user_uuid: chosen }
    await post('organization/roles/{role_id}/role_memberships/', { role_id: roleId }, body)
    loaded.reload()
  }
  const options = (people.data?.results ?? []).map(({ user }) => [user.uuid, user.email] as const)
  return (
    <Shown of={loaded}>
      {({ results }) => (
        <>
          <Table
            label="Members"
            rows={results}
            keyOf={({ id }) => id}
            none="Nobody."
            columns={[{ head: 'E-mail', cell: ({ user }) => user.email }]}
          />
          {may('organization:write') ? (
            <Form action="Add" submit={add}>
              <Choice
                label="Person"
                value={chosen}
                options={[['', 'choose'] as const, ...options]}
                change={setChosen}
              />
            </Form>
          ) : null}
        </>
      )}
    </Shown>
  )
}
