/**
 * Determines the value of each setting. A command-line flag has precedence over the environment, the environment over
 * the configuration file, and the file over the default. For an unknown or invalid setting, it throws a `UsageError`
 * that names the setting, the value, where the value came from, and the allowed values.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from '../base/errors.ts'
import { ConfigFile } from './config-file.ts'
import {
  CONFIG_VARIABLE,
  LAST_PORT,
  type Machine,
  SETTING_NAMES,
  SETTINGS,
  type SettingDefinition,
  type SettingName,
  type SettingValues,
} from './settings-table.ts'
import { didYouMean } from './suggestion.ts'
import { formatBytes } from './value-kinds.ts'

/** Where the value of a setting came from. */
export interface Origin {
  readonly kind: 'flag' | 'environment' | 'credential' | 'file' | 'default'
  /** The origin in words for messages: `--port`, `TENREC_PORT`, `tenrec.toml line 3`, `default`. */
  readonly text: string
}

/** The checked values of all settings, and the origin of each. The object is frozen. */
export interface Settings extends SettingValues {
  readonly origins: Readonly<Record<SettingName, Origin>>
}

/** The sources from which settings are read. */
export interface SettingsInput {
  /** The values of the flags on the command line. A key is a flag without its two hyphens, such as `port`. */
  readonly flags: ReadonlyMap<string, string>
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The configuration file that `--config` names. Without it, the variable `TENREC_CONFIG` may name the file. */
  readonly configPath?: string | undefined
  readonly machine: Machine
}

/** Variables that begin with `TENREC_` but are not settings. */
const OTHER_VARIABLES: readonly string[] = [
  CONFIG_VARIABLE,
  // The browser that tests use. See docs/CONTRIBUTING.md.
  'TENREC_CHROMIUM',
  // The folder in which the single executable keeps its files. See src/executable/program-cache.ts.
  'TENREC_CACHE_DIR',
]
const VARIABLE_PREFIX = 'TENREC_'
const CREDENTIALS_VARIABLE = 'CREDENTIALS_DIRECTORY'
const BY_DEFAULT: Origin = { kind: 'default', text: 'default' }

interface Found {
  readonly raw: unknown
  readonly origin: Origin
}

/**
 * Determines the values of all settings. Reads the configuration file and the files with credentials. Throws
 * `UsageError`.
 */
export function loadSettings(input: SettingsInput): Settings {
  refuseUnknownVariables(input.environment)
  const configPath = input.configPath ?? (input.environment[CONFIG_VARIABLE] || undefined)
  const file = configPath === undefined ? null : ConfigFile.read(configPath)
  const found = SETTING_NAMES.map((name) => [name, find(name, input, file)] as const)
  // The memory budget is determined first, because the defaults of other settings depend on it.
  const budget = SETTING_NAMES.indexOf('memoryBytesMax')
  const budgetBytes =
    resolve('memoryBytesMax', found[budget]?.[1] ?? null, input.machine) ||
    SETTINGS.memoryBytesMax.default(input.machine)
  const machine = { ...input.machine, budgetBytes }
  const values = found.map(
    ([name, value]) =>
      [name, name === 'memoryBytesMax' ? budgetBytes : resolve(name, value, machine)] as const,
  )
  const origins = found.map(([name, value]) => [name, value?.origin ?? BY_DEFAULT] as const)
  // The cast below is safe: `fields` contains a value of the right kind for every setting in the table.
  const fields: unknown = {
    ...Object.fromEntries(values),
    origins: Object.freeze(Object.fromEntries(origins)),
  }
  const settings = Object.freeze(fields as Settings)
  refuseContradictions(settings)
  return settings
}

function find(name: SettingName, input: SettingsInput, file: ConfigFile | null): Found | null {
  const { flag, variable, fileKey, isSecret } = SETTINGS[name]
  if (flag !== null) {
    const raw = input.flags.get(flag)
    if (raw !== undefined) return { raw, origin: { kind: 'flag', text: `--${flag}` } }
  }
  const raw = input.environment[variable]
  // An empty value, as in `TENREC_PORT=` in an environment file, means that the setting is not set.
  if (raw !== undefined && raw !== '')
    return { raw, origin: { kind: 'environment', text: variable } }
  const credential = isSecret ? readCredential(fileKey, input.environment) : null
  if (credential !== null) return credential
  const entry = file?.get(fileKey)
  if (entry === undefined) return null
  return { raw: entry.value, origin: { kind: 'file', text: entry.place } }
}

/**
 * Returns a secret that the service manager passes as a file, or null. The file has the name of the setting, with
 * hyphens instead of underscores.
 */
function readCredential(fileKey: string, environment: SettingsInput['environment']): Found | null {
  const folder = environment[CREDENTIALS_VARIABLE]
  if (folder === undefined || folder === '') return null
  const path = join(folder, fileKey.replaceAll('_', '-'))
  try {
    const raw = readFileSync(path, 'utf8').trim()
    return { raw, origin: { kind: 'credential', text: path } }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw new UsageError(`The credential ${path} cannot be read: ${String(error)}.`)
  }
}

function resolve<Name extends SettingName>(
  name: Name,
  found: Found | null,
  machine: Machine,
): SettingValues[Name] {
  const definition: SettingDefinition<SettingValues[Name]> = SETTINGS[name]
  if (found === null) return definition.default(machine)
  const value = definition.kind.parse(found.raw)
  if (value !== undefined) return value
  const shown = definition.isSecret ? '(hidden)' : showRaw(found.raw)
  throw new UsageError(
    `Setting \`${definition.fileKey}\`: ${shown} from ${found.origin.text} is not allowed. ` +
      `Allowed: ${definition.kind.allowed}.`,
  )
}

function showRaw(raw: unknown): string {
  const shown = JSON.stringify(raw) ?? String(raw)
  return shown.length > 80 ? `${shown.slice(0, 80)}...` : shown
}

function refuseUnknownVariables(environment: SettingsInput['environment']): void {
  const known = [...SETTING_NAMES.map((name) => SETTINGS[name].variable), ...OTHER_VARIABLES]
  for (const [variable, value] of Object.entries(environment)) {
    if (!variable.startsWith(VARIABLE_PREFIX) || known.includes(variable)) continue
    if (value === undefined || value === '') continue
    throw new UsageError(
      `Unknown setting \`${variable}\` in the environment${didYouMean(variable, known)} ` +
        "Run 'tenrec help serve' to see all settings.",
    )
  }
}

/**
 * Returns the settings of all daemons of a process: one for each partition that the process stores. The first daemon
 * serves clients. Each of the others has a folder inside the data directory, and listens on a loopback port so that it
 * can be monitored.
 */
export function daemonSettings(settings: Settings): readonly [Settings, ...Settings[]] {
  const [first, ...others] = settings.partitions
  if (first === undefined) return [settings]
  const of = (partition: number): Settings => ({
    ...settings,
    partitions: [partition],
    // All daemons run in one process, so they share its memory budget.
    memoryBytesMax: Math.floor(settings.memoryBytesMax / settings.partitions.length),
    warehouse: partition === 0 ? settings.warehouse : null,
  })
  const beside = (partition: number, index: number): Settings => ({
    ...of(partition),
    dataDir: join(settings.dataDir, `partition-${partition}`),
    host: '127.0.0.1',
    port: settings.port === 0 ? 0 : settings.port + index + 1,
    isConsoleOn: false,
  })
  return [of(first), ...others.map(beside)]
}

function refuseContradictions(settings: Settings): void {
  if (settings.warehouseKeepDays !== null && settings.cluster.length > 0) {
    throw new UsageError(
      `The setting \`warehouse_keep_days\` (from ${settings.origins.warehouseKeepDays.text}) is not allowed ` +
        'in a cluster, because the machines of a cluster erase events at different times.',
    )
  }
  const { partitions, origins } = settings
  const isOneBox = partitions.length === 1 && partitions[0] === 0
  if (!isOneBox && settings.cluster.length === 0) {
    throw new UsageError(
      `The setting \`partitions\` (from ${origins.partitions.text}) is allowed only in a cluster. ` +
        'A single machine stores all of its events itself.',
    )
  }
  if (!partitions.includes(0) && settings.warehouse !== null) {
    throw new UsageError(
      `The setting \`warehouse\` (from ${origins.warehouse.text}) is not allowed on a machine without partition 0, ` +
        'because only events of partition 0 are copied.',
    )
  }
  refusePublicPath(settings)
  refuseOpenProvider(settings)
  const lastPort = settings.port + Math.max(0, partitions.length - 1)
  if (lastPort > LAST_PORT) {
    throw new UsageError(
      `Setting \`port\`: ${settings.port} from ${origins.port.text} is too high for the number of partitions. ` +
        `Each partition after the first uses the next port, and the last port would be ${lastPort}.`,
    )
  }
  if (settings.inFlightBytesMax >= settings.bodyBytesMax) return
  throw new UsageError(
    `Setting \`inflight_limit\`: ${formatBytes(settings.inFlightBytesMax)} from ` +
      `${settings.origins.inFlightBytesMax.text} is not allowed. It must be at least \`body_limit\`, ` +
      `which is ${formatBytes(settings.bodyBytesMax)} (from ${settings.origins.bodyBytesMax.text}).`,
  )
}

/**
 * Throws `UsageError` if OpenID Connect is configured without a client ID. Also throws if new users are accepted but
 * the operator has not limited their email domains: everybody with an account at the provider would become a user.
 */
function refuseOpenProvider(settings: Settings): void {
  const { oidcIssuer, oidcClientId, oidcNewUsers, oidcEmailDomains, origins } = settings
  if (oidcIssuer === null) return
  if (oidcClientId === null) {
    throw new UsageError(
      `The setting \`oidc_issuer\` (from ${origins.oidcIssuer.text}) requires \`oidc_client_id\`. ` +
        'Register Tenrec at the provider, and set the client ID that it gives you.',
    )
  }
  if (oidcNewUsers === 'refuse' || oidcEmailDomains.length > 0) return
  throw new UsageError(
    `The setting \`oidc_new_users\` (from ${origins.oidcNewUsers.text}) requires \`oidc_email_domains\`, because ` +
      'everybody with an account at the provider would become a user. Set the domains of your organization, ' +
      'or `*` if only your organization can have accounts there.',
  )
}

/**
 * Throws `UsageError` if the public URL has a path and the console is on. The console loads its files and calls the API
 * from the root of its host, so it cannot be served below a path.
 */
function refusePublicPath({ publicUrl, isConsoleOn, origins }: Settings): void {
  if (publicUrl === null || !isConsoleOn || new URL(publicUrl).pathname === '/') return
  throw new UsageError(
    `Setting \`public_url\`: ${JSON.stringify(publicUrl)} from ${origins.publicUrl.text} is not allowed, because the ` +
      'console cannot be served below a path. Use an address without a path, such as https://events.example.com, ' +
      'or turn the console off with `console = false`.',
  )
}
