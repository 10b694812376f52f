/** Personal keys of whoever is logged in, and the secret keys of the project. */

import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import {
  ago,
  Card,
  ConfirmButton,
  CopyButton,
  Dialog,
  Form,
  may,
  post,
  remove,
  Shown,
  session,
  Table,
  TextField,
  time,
  useGet,
} from '../../kit.ts'

/** A key that was just made: its text is never shown again. */
function NewKey({ value, close }: { readonly value: string; readonly close: () => void }) {
  return (
    <Dialog title="The new key" close={close}>
      <p>It is shown once. Keep it where secrets are kept.</p>
      <pre>
        <code>{value}</code>
        <CopyButton text={value} />
      </pre>
    </Dialog>
  )
}

/** A button that makes a key in a dialog; the fields are its children, the text of the key comes from `make`. */
function MakeKey({
  title,
  make,
  children,
}: {
  readonly title: string
  readonly make: () => Promise<string | null>
  readonly children: ComponentChildren
}) {
  const [state, setState] = useState<'closed' | 'open' | { value: string }>('closed')
  const close = () => setState('closed')
  return (
    <>
      <button type="button" class="small" onClick={() => setState('open')}>
        New key
      </button>
      {state === 'open' ? (
        <Dialog title={title} close={close}>
          <Form action="Make it" submit={async () => setState({ value: (await make()) ?? '' })}>
            {children}
          </Form>
        </Dialog>
      ) : null}
      {typeof state === 'object' ? <NewKey value={state.value} close={close} /> : null}
    </>
  )
}

/** The keys of whoever is logged in. */
export function Keys() {
  const loaded = useGet('personal_api_keys/', {})
  const canWrite = may('personal_api_key:write')
  return (
    <Card title="My personal keys" aside={canWrite ? <NewPersonalKey reload={loaded.reload} /> : null}>
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Personal keys"
            rows={results}
            keyOf={({ id }) => id}
            columns={[
              { head: 'Label', cell: ({ label }) => label },
              { head: 'Key', isMinor: true, cell: ({ mask_value: mask }) => <code>{mask}</code> },
              {
                head: 'May',
                cell: ({ scopes }) => (scopes.includes('*') ? 'everything' : scopes.join(', ')),
              },
              { head: 'Made', isMinor: true, cell: ({ created_at: at }) => ago(at) },
              {
                head: 'Until',
                isMinor: true,
                cell: ({ expires_at: at }) => (at === null ? '' : time(at, 'day')),
              },
              {
                head: '',
                isNumber: true,
                cell: ({ id, label }) =>
                  canWrite ? (
                    <ConfirmButton
                      label="Revoke"
                      title={`Revoke “${label}”?`}
                      submit={async () => {
                        await remove('personal_api_keys/{id}/', { id })
                        loaded.reload()
                      }}
                    >
                      <p>Whatever uses it is refused from now on; sessions that it opened end.</p>
                    </ConfirmButton>
                  ) : null,
              },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}

function NewPersonalKey({ reload }: { readonly reload: () => void }) {
  const own = (session.value?.scopes ?? []).join(', ')
  const [label, setLabel] = useState('')
  const [scopes, setScopes] = useState(own)
  return (
    <MakeKey
      title="A new personal key"
      make={async () => {
        const list = scopes
          .split(',')
          .map((one) => one.trim())
          .filter((one) => one !== '')
        const { value } = await post('personal_api_keys/', {}, { label, scopes: list })
        reload()
        return value
      }}
    >
      <TextField label="Label" value={label} change={setLabel} isRequired />
      <TextField
        label="Scopes"
        value={scopes}
        change={setScopes}
        hint="Between commas: query:read, feature_flag:write; * is everything that you may."
        isRequired
      />
    </MakeKey>
  )
}

/** Keys with which servers read definitions of flags. */
export function SecretKeys() {
  const [label, setLabel] = useState('')
  const loaded = useGet('project/secret_keys/', {})
  const canWrite = may('project:write')
  async function make() {
    const { value } = await post('project/secret_keys/', {}, { label })
    loaded.reload()
    return value
  }
  const fields = <TextField label="Label" value={label} change={setLabel} />
  return (
    <Card
      title="Secret keys of the project, for servers that decide flags"
      aside={
        canWrite ? (
          <MakeKey title="A new secret key" make={make}>
            {fields}
          </MakeKey>
        ) : null
      }
    >
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Secret keys"
            rows={results}
            keyOf={({ id }) => id}
            none="None. A server needs one to decide flags by itself."
            columns={[
              { head: 'Label', cell: ({ label: words }) => words },
              { head: 'Key', cell: ({ mask_value: mask }) => <code>{mask}</code> },
              { head: 'Made', isMinor: true, cell: ({ created_at: at }) => ago(at) },
              {
                head: '',
                isNumber: true,
                cell: ({ id }) =>
                  canWrite ? (
                    <ConfirmButton
                      label="Revoke"
                      title="Revoke this key?"
                      submit={async () => {
                        await remove('project/secret_keys/{id}/', { id })
                        loaded.reload()
                      }}
                    >
                      <p>Servers that use it keep the flags that they have, and get no newer ones.</p>
                    </ConfirmButton>
                  ) : null,
              },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}
