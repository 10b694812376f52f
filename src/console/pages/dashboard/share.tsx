/**
 * The dialog that shares a dashboard or an insight by a link. It says who can open the link, and what they can do with
 * it.
 */
import { useState } from 'preact/hooks'
import {
  Ask,
  act,
  Button,
  Check,
  Command,
  Dialog,
  Form,
  Got,
  patch,
  post,
  query,
  remove,
  type Shapes,
  say,
  TextField,
  time,
} from '../../kit.ts'

type Kind = 'dashboards' | 'insights'

/** A thing that can be shared. */
interface ShareProps {
  readonly kind: Kind
  readonly id: number
}

/** Returns the noun for a kind of object, and its routes. */
function routesOf<Of extends Kind>(kind: Of) {
  const own = `project/${kind}/{id}/sharing/` as const
  return {
    noun: kind.slice(0, -1),
    own,
    refresh: `${own}refresh/`,
    passwords: `${own}passwords/`,
    password: `${own}passwords/{password_id}/`,
  } as const
}

/** The button that opens the dialog. With the URL parameter `share`, the dialog is open from the start. */
export function ShareButton(shared: ShareProps) {
  const [isOpen, setOpen] = useState(() => query.value.has('share'))
  const { noun, own } = routesOf(shared.kind)
  return (
    <>
      <Button press={() => setOpen(true)}>Share</Button>
      {isOpen && (
        <Dialog title={`Share this ${noun}`} close={() => setOpen(false)}>
          <Got route={own} values={{ id: shared.id }}>
            {(sharing) => <Sharing {...shared} sharing={sharing} />}
          </Got>
        </Dialog>
      )}
    </>
  )
}

/** The labels of the switches, by the setting that each switch changes. */
const SWITCHES = {
  enabled: 'Everyone who has the link sees the numbers',
  password_required: 'Ask for a password',
  range_changes_allowed: 'Let readers change the time range',
  embedding_allowed: 'Let other sites embed the page',
} as const

function Sharing({ sharing, ...shared }: ShareProps & { readonly sharing: Shapes['Sharing'] }) {
  const { kind, id } = shared
  const { noun, own, refresh } = routesOf(kind)
  const { access_token: token, expires_at: expiry } = sharing
  const set = (changes: Shapes['SharingChanges']) => act(patch(own, { id }, changes), 'The sharing is changed.')
  const toggle = (member: keyof typeof SWITCHES) => (
    <Check isSwitch label={SWITCHES[member]} value={sharing[member]} change={(is) => set({ [member]: is })} />
  )
  const url = `${location.origin}/shared/${token}`
  const frame = `<iframe src="${location.origin}/embedded/${token}" title="${noun}" width="100%" height="600" style="border:0"></iframe>`
  return (
    <div class="sharing">
      {toggle('enabled')}
      {sharing.enabled && (
        <>
          <p>
            The link shows the charts of this {noun} without a login. It leads to no persons and to no other page.{' '}
            <a href={url}>Open the shared page</a>
          </p>
          <Command text={url} />
          {toggle('password_required')}
          {sharing.password_required && <Passwords {...shared} passwords={sharing.share_passwords} />}
          {toggle('range_changes_allowed')}
          {toggle('embedding_allowed')}
          {sharing.embedding_allowed && <Command text={frame} />}
          <Expiry at={expiry} change={(day) => set({ expires_at: day === '' ? null : endOf(day) })} />
          <Ask
            label="Replace the link"
            title="Replace the link?"
            isDangerous
            submit={async () => {
              await post(refresh, { id })
              say(`The ${noun} has a new link. The old link opens nothing any more.`)
            }}
          >
            The current link stops working at once, for everyone who has it. The new one has the same passwords.
          </Ask>
        </>
      )}
    </div>
  )
}

interface PasswordsProps extends ShareProps {
  readonly passwords: Shapes['Sharing']['share_passwords']
}

function Passwords({ kind, id, passwords }: PasswordsProps) {
  const { passwords: all, password: one } = routesOf(kind)
  const isFirst = passwords.length === 0
  return (
    <div class="below-switch">
      {isFirst && <p role="status">Nobody can open the link until you set a password.</p>}
      <ul class="pick-list">
        {passwords.map(({ id: number, note, created_at: at, created_by_email: by }) => (
          <li key={number}>
            <bdi title={by}>{note || `Password of ${time(at, 'day')}`}</bdi>
            <Button
              press={() => act(remove(one, { id, password_id: number }), 'The password opens nothing any more.')}
              aria-label={`Remove ${note || 'password'}`}
            >
              Remove
            </Button>
          </li>
        ))}
      </ul>
      <Form
        key={passwords.length}
        action={isFirst ? 'Set password' : 'Add password'}
        fields={{
          raw_password: {
            label: 'Password',
            isRequired: true,
            hint: 'At least 8 characters. It is not shown again.',
          },
          note: { label: 'Note', placeholder: 'such as: for the agency' },
        }}
        submit={async (fields) => {
          await post(all, { id }, fields)
          say('The password is set. Do not send it together with the link.')
        }}
      />
    </div>
  )
}

/** The field for the last day on which the link works. */
function Expiry({ at, change }: { at: string | null; change: (day: string) => unknown }) {
  const day = at === null ? '' : new Date(at).toLocaleDateString('sv')
  return (
    <TextField
      label="Last day of the link"
      type="date"
      isLazy
      value={day}
      hint="After this day the link opens nothing. Leave it empty for a link that stays."
      change={(next) => void change(next)}
    />
  )
}

/** Returns the last moment of a day in the time zone of this browser. */
function endOf(day: string): string {
  return new Date(`${day}T23:59:59.999`).toISOString()
}
