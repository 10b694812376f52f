/** The page for those who are not logged in: a key, or the link that the daemon printed. */
import { useEffect, useState } from 'preact/hooks'
import { ApiError } from '../base/api.ts'
import { logIn } from '../base/session.ts'
import { Form } from './dialog.tsx'
import { TextField } from './fields.tsx'
import { Failure } from './notice.tsx'

/** Asks for a personal key. A link with `#login=CODE` logs in by itself, and the code leaves the address. */
export function Login() {
  const [key, setKey] = useState('')
  const [error, setError] = useState<ApiError | null>(null)
  useEffect(() => {
    const code = takeCode()
    if (code === null) return
    logIn({ code }).catch((cause) => {
      if (cause instanceof ApiError) setError(cause)
    })
  }, [])
  return (
    <main class="login">
      <h1>Tenrec</h1>
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
      <p>
        No key at hand? On the machine of the daemon this prints a link that logs in once:
        <pre>
          <code>npx tenrec login-link</code>
        </pre>
      </p>
    </main>
  )
}

/** The code of a login link; it is gone from the address and from the history before it is used. */
function takeCode(): string | null {
  const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1]
  if (code === undefined) return null
  history.replaceState(null, '', location.pathname + location.search)
  return code
}
