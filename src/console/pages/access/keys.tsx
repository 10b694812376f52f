/** Personal keys of whoever is logged in, the secret keys of the project, and browsers that are logged in. */
import { Ask, List, listOf, may, Once, post, remove, session } from '../../kit.ts'

/** A new key: its text is never shown again. */
function NewKey({ value }: { value: string | null }) {
  return <Once text={value ?? ''}>It is shown once. Keep it where secrets are kept.</Once>
}

/** The keys of whoever is logged in. */
export function Keys() {
  const canWrite = may('personal_api_key:write')
  return (
    <List
      title="My personal keys"
      route="personal_api_keys/"
      aside={canWrite && <NewPersonalKey />}
      columns={[
        ['Label', 'label'],
        ['Key', 'mask_value', 'minor code'],
        ['May', ({ scopes }) => (scopes.includes('*') ? 'everything' : scopes.join(', '))],
        ['Made', 'created_at', 'minor ago'],
        ['Until', ({ expires_at: at }) => at ?? '', 'minor day'],
        ['', ({ id, label }) => canWrite && <Revoke id={id} label={label} />, 'number'],
      ]}
    />
  )
}

function Revoke({ id, label }: { id: number; label: string }) {
  return (
    <Ask label="Revoke" title={`Revoke “${label}”?`} submit={() => remove('personal_api_keys/{id}/', { id })}>
      Whatever uses it is refused from now on; sessions that it opened end.
    </Ask>
  )
}

function NewPersonalKey() {
  const own = (session.value?.scopes ?? []).join(', ')
  const hint = 'Between commas: query:read, feature_flag:write; * is everything that you may.'
  return (
    <Ask
      label="New key"
      title="A new personal key"
      action="Make it"
      fields={{
        label: { label: 'Label', isRequired: true },
        scopes: { label: 'Scopes', value: own, isRequired: true, hint },
      }}
      submit={async ({ label, scopes }) => {
        const { value } = await post('personal_api_keys/', {}, { label, scopes: listOf(scopes) })
        return <NewKey value={value} />
      }}
    />
  )
}

/** Keys with which servers read definitions of flags. */
export function SecretKeys() {
  const canWrite = may('project:write')
  return (
    <List
      title="Secret keys of the project, for servers that decide flags"
      route="project/secret_keys/"
      aside={canWrite && <NewSecretKey />}
      none="None. A server needs one to decide flags by itself."
      columns={[
        ['Label', 'label'],
        ['Key', 'mask_value', 'code'],
        ['Made', 'created_at', 'minor ago'],
        ['', ({ id }) => canWrite && <RevokeSecret id={id} />, 'number'],
      ]}
    />
  )
}

function RevokeSecret({ id }: { id: number }) {
  return (
    <Ask label="Revoke" title="Revoke this key?" submit={() => remove('project/secret_keys/{id}/', { id })}>
      Servers that use it keep the flags that they have, and get no newer ones.
    </Ask>
  )
}

function NewSecretKey() {
  return (
    <Ask
      label="New key"
      title="A new secret key"
      action="Make it"
      fields={{ label: { label: 'Label' } }}
      submit={async ({ label }) => {
        const { value } = await post('project/secret_keys/', {}, { label })
        return <NewKey value={value} />
      }}
    />
  )
}

/** Browsers that are logged in to the console, and the way to end each. */
export function Sessions() {
  return (
    <List
      title="Sessions of this console"
      route="console/sessions/"
      columns={[
        ['Opened with', ({ key_label: label }) => label ?? 'a login link'],
        ['From', 'address'],
        ['Browser', 'user_agent', 'minor'],
        ['Seen', 'last_seen_at', 'number ago'],
        ['', ({ id, is_current: isCurrent }) => (isCurrent ? 'this one' : <EndSession id={id} />), 'number'],
      ]}
    />
  )
}

function EndSession({ id }: { id: number }) {
  return (
    <Ask label="End" title="End this session?" submit={() => remove('console/sessions/{id}/', { id })}>
      Whoever uses it has to log in again.
    </Ask>
  )
}
