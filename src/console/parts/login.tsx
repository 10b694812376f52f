/**
 * The login page. A user can log in with a password, an account at an identity provider, a personal key, a login link
 * that `tenrec login-link` has printed, or an invitation.
 */
import { useEffect, useState } from 'preact/hooks'
import { ApiError, get, post } from '../base/api.ts'
import { logIn, loginError, openProvider, sessionEnd } from '../base/session.ts'
import { Button } from './fields.tsx'
import { Form, Once } from './form.tsx'
import { Command, Failure } from './notice.tsx'

/**
 * Asks for email address and password, or for a personal key. If the URL contains `#login=CODE`, the user is logged in
 * without a question. If it contains `#invite=CODE`, a user is created.
 */
export function Login() {
  const [link, setLink] = useState(takeLink)
  useEffect(() => {
    // If a login link is opened in a tab that already shows the login page, only the fragment of the URL changes and
    // the browser loads nothing. The page must therefore react to this change.
    const follow = () => setLink((before) => takeLink() ?? before)
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  return (
    <main class="login">
      <h1>Tenrec</h1>
      {link?.kind === 'invite' ? <Invitation code={link.code} /> : <LoginForms code={link?.code} />}
    </main>
  )
}

const PASSWORD_HINT = 'At least 10 characters.'

function LoginForms({ code }: { code: string | undefined }) {
  const [error, setError] = useState<ApiError | null>(null)
  useEffect(() => {
    if (code === undefined) return
    logIn({ code }).catch((cause: unknown) => {
      if (cause instanceof ApiError) setError(cause)
    })
  }, [code])
  const reason = sessionEnd.value
  const keyHint = 'The key begins with phx_. The browser stores a session, not the key.'
  return (
    <>
      {reason !== null && (
        <p class="notice" role="status">
          {reason}
        </p>
      )}
      {error && <Failure error={error} />}
      {loginError.value && <Failure error={loginError.value} />}
      <ProviderLogin />
      <Form
        action="Log in"
        fields={{
          email: { label: 'E-mail', type: 'email', complete: 'username', isRequired: true },
          password: { label: 'Password', type: 'password', complete: 'current-password', isRequired: true },
        }}
        submit={(given) => logIn(given)}
      />
      <details>
        <summary>Log in with a personal key</summary>
        <Form
          action="Log in with the key"
          fields={{ key: { label: 'Personal API key', type: 'password', hint: keyHint, isRequired: true } }}
          submit={({ key }) => logIn({ key: key.trim() })}
        />
      </details>
      <details>
        <summary>Log in without a password</summary>
        <p>Run this command on the server. It prints a link that logs you in once, within ten minutes:</p>
        <Command text="npx tenrec login-link" />
        <p>Then choose a password in the menu with your name.</p>
      </details>
    </>
  )
}

/** The button that opens the login page of the identity provider. It is shown only if one is configured. */
function ProviderLogin() {
  const [label, setLabel] = useState<string | null>(null)
  useEffect(() => {
    get('console/oidc/').then(
      (provider) => setLabel(provider.label),
      () => {},
    )
  }, [])
  return label && <Form action={label} submit={() => openProvider()} />
}

/**
 * Accepts an invitation: the new user chooses a password and is logged in. If the invitation has limited rights, the
 * new user gets a personal key instead, which is shown once.
 */
function Invitation({ code }: { code: string }) {
  const [key, setKey] = useState<string | null>(null)
  const [isWithKey, setWithKey] = useState(false)
  if (key !== null) {
    return (
      <>
        <Once text={key}>This is your personal key. It is not shown again, so store it in a password manager.</Once>
        <Form action="Log in with this key" submit={() => logIn({ key })} />
      </>
    )
  }
  async function accept(name: string, password?: string) {
    const body = { code, first_name: name, ...(password === undefined ? {} : { password }) }
    const { user, personal_api_key: made } = await post('console/invites/accept/', {}, body)
    if (password !== undefined) await logIn({ email: user.email, password })
    else setKey(made?.value ?? '')
  }
  const name = { label: 'Your first name', isRequired: true } as const
  if (isWithKey) {
    return <Form action="Accept the invitation" fields={{ name }} submit={(given) => accept(given.name)} />
  }
  return (
    <>
      <Form
        action="Accept the invitation"
        fields={{
          name,
          password: {
            label: 'Choose a password',
            type: 'password',
            complete: 'new-password',
            hint: PASSWORD_HINT,
            isRequired: true,
          },
        }}
        submit={(given) => accept(given.name, given.password)}
      />
      <p>
        <Button press={() => setWithKey(true)}>Use a personal key instead of a password</Button>
      </p>
    </>
  )
}

interface Link {
  readonly kind: 'login' | 'invite'
  readonly code: string
}

/**
 * Returns the code in the fragment of the URL. The fragment is removed from the URL and from the history of the browser
 * before the code is used.
 */
function takeLink(): Link | null {
  const [, kind, code] = /^#(login|invite)=([\w-]+)$/.exec(location.hash) ?? []
  if (kind === undefined || code === undefined) return null
  history.replaceState(null, '', location.pathname + location.search)
  return { kind: kind as Link['kind'], code }
}
