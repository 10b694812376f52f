/** The login page. It accepts a personal key, a login link that the daemon printed, or an invitation. */
import { useEffect, useState } from 'preact/hooks'
import { ApiError, post } from '../base/api.ts'
import { logIn, sessionEnd } from '../base/session.ts'
import { Form, Once } from './form.tsx'
import { Command, Failure } from './notice.tsx'

/**
 * Asks for a personal key. A link with `#login=CODE` logs in directly, and a link with `#invite=CODE` creates a user.
 */
export function Login() {
  const [link] = useState(takeLink)
  return (
    <main class="login">
      <h1>Tenrec</h1>
      {link?.kind === 'invite' ? <Invitation code={link.code} /> : <KeyForm code={link?.code} />}
    </main>
  )
}

function KeyForm({ code }: { code: string | undefined }) {
  const [error, setError] = useState<ApiError | null>(null)
  useEffect(() => {
    if (code === undefined) return
    logIn({ code }).catch((cause: unknown) => {
      if (cause instanceof ApiError) setError(cause)
    })
  }, [code])
  const reason = sessionEnd.value
  const hint = 'It begins with phx_. The browser keeps a session instead of the key.'
  return (
    <>
      {reason !== null && (
        <p class="notice" role="status">
          {reason}
        </p>
      )}
      {error && <Failure error={error} />}
      <Form
        action="Log in"
        fields={{ key: { label: 'Personal API key', type: 'password', hint, isRequired: true } }}
        submit={({ key }) => logIn({ key: key.trim() })}
      />
      <p>No key at hand? Run this command on the server. It prints a link that logs you in once, within ten minutes:</p>
      <Command text="npx tenrec login-link" />
    </>
  )
}

/** Accepts an invitation and shows the key of the new user, which cannot be shown again. */
function Invitation({ code }: { code: string }) {
  const [key, setKey] = useState<string | null>(null)
  if (key !== null) {
    return (
      <>
        <Once text={key}>This is your personal key. It is not shown again, so store it in a password manager.</Once>
        <Form action="Log in with it" submit={() => logIn({ key })} />
      </>
    )
  }
  return (
    <Form
      action="Accept the invitation"
      fields={{ name: { label: 'Your first name', isRequired: true } }}
      submit={async ({ name }) => {
        const made = await post('console/invites/accept/', {}, { code, first_name: name })
        setKey(made.personal_api_key.value)
      }}
    />
  )
}

interface Link {
  readonly kind: 'login' | 'invite'
  readonly code: string
}

/** Returns the code of a link, and removes it from the URL and the history before it is used. */
function takeLink(): Link | null {
  const [, kind, code] = /^#(login|invite)=([\w-]+)$/.exec(location.hash) ?? []
  if (kind === undefined || code === undefined) return null
  history.replaceState(null, '', location.pathname + location.search)
  return { kind: kind as Link['kind'], code }
}
