/** The personal keys of the logged-in user, the secret keys of the project, and the browsers that are logged in. */
import { useState } from 'preact/hooks'
import { Ask, ago, Check, List, may, Once, type Options, post, projects, remove, type Shapes, time } from '../../kit.ts'
import { type Access, canBeChanged, SCOPE_AREAS, SCOPE_PRESETS, type ScopePreset, scopesOfArea } from './scope-areas.ts'

/** Shows the text of a new key. It is not shown again later. */
function NewKey({ value }: { value: string | null }) {
  return <Once text={value ?? ''}>Copy the key now. It is not shown again, so store it in a password manager.</Once>
}

/** The personal keys of the logged-in user. */
export function Keys() {
  return (
    <List
      title="My personal keys"
      route="personal_api_keys/"
      scope="personal_api_key:write"
      aside={may('personal_api_key:write') && <CreateKey />}
      columns={[
        ['Label', 'label'],
        ['Key', 'mask_value', 'minor code'],
        ['Scopes', ({ scopes }) => <Scopes scopes={scopes} />],
        ['Projects', ({ scoped_teams: ids }) => projectNames(ids), 'minor'],
        ['Created', 'created_at', 'minor ago'],
        ['Expires', ({ expires_at: at }) => (at === null ? 'never' : time(at, 'day')), 'minor'],
      ]}
      drop={{
        label: 'Revoke',
        title: ({ label }) => `Revoke “${label}”?`,
        words: 'Programs that use this key are refused from now on, and sessions that it opened end.',
        submit: ({ id }) => remove('personal_api_keys/{id}/', { id }),
      }}
    />
  )
}

const SCOPES_SHOWN = 3

/** Shows a few scopes, or the name of the preset that contains exactly these scopes. The tooltip lists all scopes. */
function Scopes({ scopes }: { scopes: readonly string[] }) {
  const isSame = (one: ScopePreset) =>
    one.scopes.length === scopes.length && one.scopes.every((scope) => scopes.includes(scope))
  const preset = SCOPE_PRESETS.find(isSame)
  const more = scopes.length - SCOPES_SHOWN
  const words = more > 0 ? `${scopes.slice(0, SCOPES_SHOWN).join(', ')} and ${more} more` : scopes.join(', ')
  return <span title={scopes.join(', ')}>{scopes.includes('*') ? 'Everything' : (preset?.name ?? words)}</span>
}

function projectNames(ids: readonly number[] | null): string {
  if (ids === null) return 'all'
  return ids.map((id) => projects.value.find((one) => one.id === id)?.name ?? `project ${id}`).join(', ')
}

/** The choices for when a new key expires. The value is a number of days. */
const EXPIRIES: Options = [
  ['', 'Never'],
  ['7', 'In 7 days'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
]
const DAY_MS = 86_400_000

function CreateKey() {
  // A session cannot create a key with a scope that the session does not have.
  const offered = SCOPE_PRESETS.filter((one) => one.scopes.every(may))
  const [preset, setPreset] = useState(offered[0]?.id ?? 'own')
  const [accesses, setAccesses] = useState<Readonly<Record<string, Access>>>({})
  const [onlyIn, setOnlyIn] = useState<readonly number[]>([])
  const chosen = offered.find(({ id }) => id === preset)
  const ofAreas = () => SCOPE_AREAS.flatMap((area) => scopesOfArea(area, accesses[area.name] ?? 'none'))
  const scopes = chosen?.scopes ?? ofAreas().filter(may)
  return (
    <Ask
      label="New key"
      title="New personal key"
      action="Create key"
      fields={{
        label: { label: 'Label', placeholder: 'What the key is for', isRequired: true },
        days: { kind: 'choice', label: 'Expires', value: '', options: EXPIRIES },
      }}
      submit={async ({ label, days }) => {
        const { value } = await post(
          'personal_api_keys/',
          {},
          {
            label,
            scopes: [...scopes],
            scoped_teams: onlyIn.length === 0 ? null : [...onlyIn],
            expires_at: days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString(),
          },
        )
        return <NewKey value={value} />
      }}
    >
      <fieldset class="choices">
        <legend>What may the key do?</legend>
        {[...offered, { id: 'own', name: 'Choose by area' }].map(({ id, name }) => (
          <label key={id} class="check">
            <input type="radio" name="preset" checked={id === preset} onChange={() => setPreset(id)} />
            {name}
          </label>
        ))}
        {chosen === undefined && (
          <Areas accesses={accesses} change={(name, access) => setAccesses({ ...accesses, [name]: access })} />
        )}
      </fieldset>
      {projects.value.length > 1 && (
        <fieldset class="choices">
          <legend>Only in these projects</legend>
          {projects.value.map(({ id, name }) => (
            <Check
              key={id}
              label={name}
              value={onlyIn.includes(id)}
              change={(is) => setOnlyIn(is ? [...onlyIn, id] : onlyIn.filter((one) => one !== id))}
            />
          ))}
          <small>If you choose none, the key works in all projects that you may use.</small>
        </fieldset>
      )}
    </Ask>
  )
}

interface AreasProps {
  readonly accesses: Readonly<Record<string, Access>>
  readonly change: (name: string, access: Access) => void
}

/** A table with checkboxes for each area of the API: one for reading, and one for changing, which includes reading. */
function Areas({ accesses, change }: AreasProps) {
  return (
    <table class="areas">
      <thead>
        <tr>
          <th scope="col">Area</th>
          <th scope="col">Read</th>
          <th scope="col">Change</th>
        </tr>
      </thead>
      <tbody>
        {SCOPE_AREAS.map((area) => {
          const { name } = area
          const access = accesses[name] ?? 'none'
          return (
            <tr key={name}>
              <th scope="row" title={scopesOfArea(area, 'read').join(', ')}>
                {name}
              </th>
              <td>
                <Check
                  isQuiet
                  label={`Read ${name}`}
                  value={access !== 'none'}
                  change={(is) => change(name, is ? 'read' : 'none')}
                />
              </td>
              <td>
                {canBeChanged(area) && (
                  <Check
                    isQuiet
                    label={`Change ${name}`}
                    value={access === 'write'}
                    change={(is) => change(name, is ? 'write' : 'read')}
                  />
                )}
              </td>
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

/** The secret keys of the project. Servers use them to read flag definitions. */
export function SecretKeys() {
  return (
    <List
      title="Secret keys of the project, for servers that evaluate flags locally"
      route="project/secret_keys/"
      scope="project:write"
      none="No secret keys yet. A server needs one to evaluate flags locally."
      columns={[
        ['Label', 'label'],
        ['Key', 'mask_value', 'code'],
        ['Created', 'created_at', 'minor ago'],
      ]}
      make={{
        label: 'New key',
        title: 'New secret key',
        action: 'Create key',
        fields: { label: { label: 'Label', isRequired: true } },
        submit: async ({ label }) => {
          const { value } = await post('project/secret_keys/', {}, { label })
          return <NewKey value={value} />
        },
      }}
      drop={{
        label: 'Revoke',
        title: () => 'Revoke this key?',
        words: 'Servers that use this key keep the flag definitions that they have, and get no newer ones.',
        submit: ({ id }) => remove('project/secret_keys/{id}/', { id }),
      }}
    />
  )
}

/** The browsers that are logged in to the console. All sessions except the current one can be ended here. */
export function Sessions() {
  return (
    <List
      title="Open sessions of this console"
      route="console/sessions/"
      scope="personal_api_key:read"
      columns={[
        ['Opened with', openedWith],
        ['Address', 'address', 'minor'],
        ['Browser', ({ user_agent: agent }) => <span title={agent}>{browserOf(agent)}</span>, 'minor'],
        [
          'Last used',
          ({ is_current: isCurrent, last_seen_at: at }) => (isCurrent ? 'this session' : ago(at)),
          'number',
        ],
      ]}
      drop={{
        label: 'End session',
        title: ({ is_current: isCurrent }) => (isCurrent ? null : 'End this session?'),
        words: 'The browser with this session has to log in again.',
        submit: ({ id }) => remove('console/sessions/{id}/', { id }),
      }}
    />
  )
}

type OpenSession = Shapes['OpenConsoleSession']

/** Returns in words what a session was started with. */
function openedWith({ key_label: label, started_with: kind }: OpenSession): string {
  if (kind === 'password') return 'the password'
  if (kind === 'oidc') return 'single sign-on'
  return kind === 'link' ? 'a login link' : (label ?? 'a personal key')
}

const BROWSERS = [
  ['Edge', /\bEdg\/(\d+)/],
  ['Opera', /\bOPR\/(\d+)/],
  ['Firefox', /\bFirefox\/(\d+)/],
  ['Chrome', /\bChrome\/(\d+)/],
  ['Safari', /\bVersion\/(\d+).* Safari\//],
] as const
const SYSTEMS = [
  ['iOS', /iPhone|iPad/],
  ['Android', /Android/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['Linux', /Linux/],
] as const

/**
 * Returns the name of a browser and of its system: `Firefox 128 on Linux`. If the user agent is unknown, returns it
 * unchanged.
 */
function browserOf(agent: string): string {
  for (const [name, pattern] of BROWSERS) {
    const version = pattern.exec(agent)?.[1]
    if (version === undefined) continue
    const [system] = SYSTEMS.find(([, one]) => one.test(agent)) ?? []
    return system === undefined ? `${name} ${version}` : `${name} ${version} on ${system}`
  }
  return agent
}
