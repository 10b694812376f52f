/** The page for those who are not logged in: a key, the link that the daemon printed, or an invitation. */
import { useEffect, useState } from 'preact/hooks'
import { ApiError, post } from '../base/api.ts'
import { logIn } from '../base/session.ts'
import { CopyButton } from './copy.tsx'
import { Form } from './dialog.tsx'
import { TextField } from './fields.tsx'
import { Failure } from './notice.tsx'

/** Asks for a personal key. A link with `#login=CODE` logs in by itself, one with `#invite=CODE` makes a user. */
export function Login() {
  const [link] = useState(takeLink)
  return (
    <main class="login">
      <h1>Tenrec</h1>
      {link?.kind === 'invite' ? <Invitation code={link.code} /> : <KeyForm code={link?.code} />}
    </main>
  )
}

function KeyForm({ code }: { readonly code: string | undefined }) {
  const [key, setKey] = useState('')
  const [error, setError] = useState<ApiError | null>(null)
  useEffect(() => {
    if (code === undefined) return
    logIn({ code }).catch((cause: unknown) => {
      if (cause instanceof ApiError) setError(cause)
    })
  }, [code])
  return (
    <>
      {error === null ? null : <Failure error={error} />}
      <Form action="Log in" submit={() => logIn({ key: key.trim() })}>
        <TextField
          label="Personal API key"
          type="password"
          value={key}
          change={setKey}
          isRequired
          hint="It begins with phx_. The browser keeps a session in its place, never the key."
        />
      </Form>
      <p>No key at hand? On the machine of the daemon this prints a link that logs in once:</p>
      <pre>
        <code>npx tenrec login-link</code>
      </pre>
    </>
  )
}

/** Makes the invited user and shows the key, which nothing shows again. */
function Invitation({ code }: { readonly code: string }) {
  const [name, setName] = useState('')
  const [key, setKey] = useState<string | null>(null)
  async function accept() {
    const body = { code, first_name: name }
    const { personal_api_key: made } = await post('console/invites/accept/', {}, body)
    setKey(made.value)
  }
  if (key === null) {
    return (
      <Form action="Accept the invitation" submit={accept}>
        <TextField label="Your first name" value={name} change={setName} isRequired />
      </Form>
    )
  }
  return (
    <>
      <p>This is your personal key. It is shown once: keep it where secrets are kept.</p>
      <pre>
        <code>{key}</code>
        <CopyButton text={key} />
      </pre>
      <Form action="Log in with it" submit={() => logIn({ key })} />
    </>
  )
}

interface Link {
  readonly kind: 'login' | 'invite'
  readonly code: string
}

/** The code of a link; it is gone from the address and from the history before it is used. */
function takeLink(): Link | null {
  const [, kind, code] = /^#(login|invite)=([\w-]+)$/.exec(location.hash) ?? []
  if (kind === undefined || code === undefined) return null
  history.replaceState(null, '', location.pathname + location.search)
  return { kind: kind as Link['kind'], code }
}
