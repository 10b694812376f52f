/** The personal keys of the logged-in user, the secret keys of the project, and the browsers that are logged in. */
import { ago, List, listOf, Once, post, remove, session } from '../../kit.ts'

/** Shows the text of a new key, which cannot be shown again. */
function NewKey({ value }: { value: string | null }) {
  return <Once text={value ?? ''}>It is shown once. Keep it where secrets are kept.</Once>
}

/** The personal keys of the logged-in user. */
export function Keys() {
  const own = (session.value?.scopes ?? []).join(', ')
  const hint = 'Between commas: query:read, feature_flag:write; * is everything that you may.'
  return (
    <List
      title="My personal keys"
      route="personal_api_keys/"
      scope="personal_api_key:write"
      columns={[
        ['Label', 'label'],
        ['Key', 'mask_value', 'minor code'],
        ['May', ({ scopes }) => (scopes.includes('*') ? 'everything' : scopes.join(', '))],
        ['Made', 'created_at', 'minor ago'],
        ['Until', 'expires_at', 'minor day'],
      ]}
      make={{
        label: 'New key',
        title: 'A new personal key',
        action: 'Make it',
        fields: {
          label: { label: 'Label', isRequired: true },
          scopes: { label: 'Scopes', value: own, isRequired: true, hint },
        },
        submit: async ({ label, scopes }) => {
          const { value } = await post('personal_api_keys/', {}, { label, scopes: listOf(scopes) })
          return <NewKey value={value} />
        },
      }}
      drop={{
        label: 'Revoke',
        title: ({ label }) => `Revoke “${label}”?`,
        words: 'Whatever uses it is refused from now on; sessions that it opened end.',
        submit: ({ id }) => remove('personal_api_keys/{id}/', { id }),
      }}
    />
  )
}

/** The secret keys, with which servers read flag definitions. */
export function SecretKeys() {
  return (
    <List
      title="Secret keys of the project, for servers that decide flags"
      route="project/secret_keys/"
      scope="project:write"
      none="None. A server needs one to decide flags by itself."
      columns={[
        ['Label', 'label'],
        ['Key', 'mask_value', 'code'],
        ['Made', 'created_at', 'minor ago'],
      ]}
      make={{
        label: 'New key',
        title: 'A new secret key',
        action: 'Make it',
        fields: { label: { label: 'Label', isRequired: true } },
        submit: async ({ label }) => {
          const { value } = await post('project/secret_keys/', {}, { label })
          return <NewKey value={value} />
        },
      }}
      drop={{
        label: 'Revoke',
        title: () => 'Revoke this key?',
        words: 'Servers that use it keep the flags that they have, and get no newer ones.',
        submit: ({ id }) => remove('project/secret_keys/{id}/', { id }),
      }}
    />
  )
}

/** The browsers that are logged in to the console. All sessions but the current one can be ended here. */
export function Sessions() {
  return (
    <List
      title="Sessions of this console"
      route="console/sessions/"
      scope="personal_api_key:read"
      columns={[
        ['Opened with', ({ key_label: label }) => label ?? 'a login link'],
        ['From', 'address', 'minor'],
        ['Browser', 'user_agent', 'minor'],
        ['Seen', ({ is_current: isCurrent, last_seen_at: at }) => (isCurrent ? 'in this one' : ago(at)), 'number'],
      ]}
      drop={{
        label: 'End',
        title: ({ is_current: isCurrent }) => (isCurrent ? null : 'End this session?'),
        words: 'Whoever uses it has to log in again.',
        submit: ({ id }) => remove('console/sessions/{id}/', { id }),
      }}
    />
  )
}
