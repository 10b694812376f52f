/**
 * The table of all settings. It is read by the parser of flags, environment variables and the configuration file, by
 * the help text, by the command `config`, and by a test that compares it with docs/CONFIGURATION.md. To add a setting,
 * add a row to `TABLE` and a row to that document.
 */
import { addressRange } from '../base/addresses.ts'
import { PARTITION_MAX } from '../base/limits.ts'
import { LOG_FORMATS, LOG_LEVELS } from '../base/log.ts'
import { automaticBudget, MEMORY_BYTES_MIN, type MemoryPlan, memoryPlan } from './memory-plan.ts'
import {
  automatic,
  boolean,
  bytes,
  choice,
  integer,
  isBaseUrl,
  list,
  optional,
  partitions,
  text,
  type ValueKind,
} from './value-kinds.ts'
import { parseWarehouse } from './warehouse-address.ts'

/**
 * The moment at which a request with events is answered: `fsync` after the flush to the disk, `commit` after the commit
 * in memory, `replicated` after a majority of the brokers have stored the events.
 */
const DURABILITIES = ['fsync', 'commit', 'replicated'] as const
/** The HTTP libraries. `auto` chooses the best one that works on the machine. */
const HTTP_SERVERS = ['auto', 'uws', 'node'] as const
/** What happens when a person who is not yet a user logs in with OpenID Connect. */
const NEW_USER_POLICIES = ['refuse', 'viewer'] as const
/** One of `NEW_USER_POLICIES`. */
type NewUserPolicy = (typeof NEW_USER_POLICIES)[number]
/** A value of the setting `http_server`. */
export type HttpServerChoice = (typeof HTTP_SERVERS)[number]
/** The HTTP library that serves requests. */
export type HttpServerName = Exclude<HttpServerChoice, 'auto'>

/** The facts about a machine on which the defaults of settings depend. */
export interface Machine {
  readonly coreCount: number
  readonly isTerminal: boolean
  /** How many bytes of memory the machine and its control groups allow. If absent, there is no such limit. */
  readonly memoryBytes?: number
  /**
   * The budget of working memory, once the setting `memory_max` has been read. If absent, the budget of the value
   * `auto` is used.
   */
  readonly budgetBytes?: number
}

/** A row of the table. `Value` is the type of the setting's values. */
interface SettingRow<Value> {
  /** The key of the setting in the configuration file. */
  readonly fileKey: string
  readonly kind: ValueKind<Value>
  readonly default: (machine: Machine) => Value
  /** The default in words. It is required if the default depends on the machine or is null. */
  readonly defaultText?: string
  /** One sentence about the setting, for the help text and the documents. */
  readonly sentence: string
  /** True if the value is never printed. A secret may also come from a file in `$CREDENTIALS_DIRECTORY`. */
  readonly isSecret?: boolean
  /** True for a setting that may contain a secret but usually does not. Such a setting can also be set with a flag. */
  readonly isFlagAllowed?: boolean
}

/** One setting. `Value` is the type of its values. */
export interface SettingDefinition<Value> extends SettingRow<Value> {
  /** The flag, without the two hyphens. Null for secrets, because other users can read flags in the process list. */
  readonly flag: string | null
  readonly variable: string
  readonly isSecret: boolean
}

/** The form of a project key or a personal key that the operator chooses with a setting. */
export const KEY_PATTERN = /^[\x21-\x7e]{1,64}$/
/** `KEY_PATTERN` in words. */
export const KEY_ALLOWED = '1 to 64 printable ASCII characters without spaces'

const KIB = 1024
const MIB = 1024 ** 2
const GIB = 1024 ** 3
const TIB = 1024 ** 4
const RATE_MAX = 100_000_000

/** Returns the memory plan, from which some settings take their defaults. */
function planOf(machine: Machine): MemoryPlan {
  const { coreCount, budgetBytes = budgetOf(machine) } = machine
  return memoryPlan({ memoryBytesMax: budgetBytes, coreCount })
}

function budgetOf({ memoryBytes = Number.MAX_SAFE_INTEGER, coreCount }: Machine): number {
  return automaticBudget(memoryBytes, coreCount)
}

const PATH = text('a path', (value) => value !== '' && !value.includes('\0'))
const KEY = optional(text(KEY_ALLOWED, (value) => KEY_PATTERN.test(value)))

/**
 * Returns true if a text may be the URL of an OpenID Connect provider: an https URL, or an http URL of this machine.
 * The secrets of a login travel between the provider and Tenrec, so plain http is allowed only within the machine.
 */
function isIssuer(value: string): boolean {
  if (!isBaseUrl(value)) return false
  const { protocol, hostname } = new URL(value)
  return protocol === 'https:' || /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
}

function isConsolePath(path: string): boolean {
  return path.length <= 100 && /^\/(?!api(?:\/|$))(?:[\w~-]+(?:\/[\w~-]+)*\/?)?$/.test(path)
}

/**
 * Returns a row with the names that follow from its key: for `body_limit`, the flag `--body-limit` and the variable
 * `TENREC_BODY_LIMIT`.
 */
function setting<const Value>(row: SettingRow<Value>): SettingDefinition<Value> {
  const { fileKey, isSecret = false, isFlagAllowed = !isSecret } = row
  const flag = isFlagAllowed ? fileKey.replaceAll('_', '-') : null
  return { ...row, flag, variable: `TENREC_${fileKey.toUpperCase()}`, isSecret }
}

/** The largest port number. Ports have 16 bits. */
export const LAST_PORT = 65_535

/** The rows, in the order of the help text and the documents. */
const TABLE = {
  dataDir: setting({
    fileKey: 'data_dir',
    kind: PATH,
    default: () => './data',
    sentence: 'Directory that holds all stored data.',
  }),
  host: setting({
    fileKey: 'host',
    kind: text('an address or a host name', (value) => /^[\w.:%-]{1,255}$/.test(value)),
    default: () => '127.0.0.1',
    sentence: 'Address to listen on. Use `0.0.0.0` or `::` to listen on all addresses.',
  }),
  port: setting({
    fileKey: 'port',
    kind: integer(0, LAST_PORT),
    default: () => 8000,
    sentence:
      'Port to listen on. With 0, the daemon chooses a free port and names it in the log line `ready`.',
  }),
  httpServer: setting({
    fileKey: 'http_server',
    kind: choice(HTTP_SERVERS),
    default: (): HttpServerChoice => 'auto',
    sentence:
      'HTTP library: `uws` is uWebSockets.js, and `node` is the HTTP server of Node.js. `auto` uses uWebSockets.js if it can be loaded, and the server of Node.js otherwise.',
  }),
  memoryBytesMax: setting({
    fileKey: 'memory_max',
    kind: automatic(bytes(MEMORY_BYTES_MIN, 16 * TIB)),
    default: budgetOf,
    defaultText:
      '`auto`, which stands for 640MiB plus 64MiB for each core after the second, but at most three quarters of the memory of the machine or its control group',
    sentence:
      'Budget for the working memory of the process. It determines the number of threads and the sizes of their heaps and caches. Memory-mapped files do not count.',
  }),
  bodyBytesMax: setting({
    fileKey: 'body_limit',
    kind: bytes(KIB, 256 * MIB),
    default: () => 20 * MIB,
    sentence:
      'Maximum size of a request body, before and after decompression. The daemon refuses a larger body with 413.',
  }),
  inFlightBytesMax: setting({
    fileKey: 'inflight_limit',
    kind: bytes(MIB, 64 * GIB),
    default: (machine) => planOf(machine).inFlightBytes,
    defaultText: '256MiB, less if `memory_max` is small',
    sentence:
      'Maximum size of all request bodies in memory at once. The daemon refuses further bodies with 503 and Retry-After.',
  }),
  backlogBytesMax: setting({
    fileKey: 'backlog_limit',
    kind: bytes(MIB, 16 * TIB),
    default: () => 4 * GIB,
    sentence:
      'Maximum size of accepted events on disk that wait to be processed. The daemon refuses further events with 503 and Retry-After.',
  }),
  processingLagMsMax: setting({
    fileKey: 'processing_lag_limit_ms',
    kind: integer(1000, 3_600_000),
    default: () => 30_000,
    sentence:
      'Maximum estimated time, in milliseconds, until an event that is accepted now can be read. If the estimate is longer, the daemon refuses events with 503 and Retry-After.',
  }),
  eventPropertiesBytesMax: setting({
    fileKey: 'event_properties_limit',
    kind: bytes(KIB, 256 * MIB, { isZeroAllowed: true }),
    default: () => MIB,
    sentence:
      'Maximum size of the properties of one event, as JSON. An event with larger properties is dropped with a warning.',
  }),
  aiEventPropertiesBytesMax: setting({
    fileKey: 'ai_event_properties_limit',
    kind: bytes(KIB, 256 * MIB, { isZeroAllowed: true }),
    default: () => 8 * MIB,
    sentence:
      'Maximum size of the properties of one event whose name begins with `$ai_`. Such events carry the prompts and answers of language models. If `event_properties_limit` is larger or 0, it applies instead.',
  }),
  /**
   * The free disk space to keep. If null, it depends on the size of the disk (`reserveBytesOf` in
   * engine/front/disk-reserve.ts).
   */
  diskReserveBytes: setting({
    fileKey: 'disk_reserve',
    kind: optional(bytes(MIB, 16 * TIB)),
    default: () => null,
    defaultText: '256MiB, or one eighth of a disk that is smaller than 2GiB',
    sentence:
      'Free disk space to keep. With less free space, the daemon accepts no more data and answers 503 with Retry-After.',
  }),
  isNetworkDiskAllowed: setting({
    fileKey: 'allow_network_disk',
    kind: boolean(),
    default: () => false,
    sentence:
      'Allows the data directory to be on NFS, SMB, FUSE or another network file system, where data may be lost.',
  }),
  workerThreads: setting({
    fileKey: 'workers',
    kind: integer(1, 256),
    default: (machine) => planOf(machine).workerThreads,
    defaultText: 'number of cores minus 1, at least 1, fewer if `memory_max` is small',
    sentence:
      'Number of threads that answer reads. Long reads and two kinds of large request bodies have threads of their own: for each of these three, half as many, at least one.',
  }),
  analyticsThreads: setting({
    fileKey: 'analytics_threads',
    kind: integer(1, 64),
    default: (machine) => planOf(machine).analyticsThreads,
    defaultText: 'number of cores, at most 16, fewer if `memory_max` is small',
    sentence:
      'Number of threads for analytic queries. They run at low priority, and a query over many events is divided among them.',
  }),
  queryMsMax: setting({
    fileKey: 'query_timeout_ms',
    kind: integer(100, 3_600_000),
    default: () => 30_000,
    sentence:
      'Maximum time, in milliseconds, for an analytic query. A query that takes longer fails with 504.',
  }),
  queryCacheBytes: setting({
    fileKey: 'query_cache',
    kind: bytes(MIB, 64 * GIB),
    default: (machine) => planOf(machine).queryCacheBytes,
    defaultText: '160MiB, less or more depending on `memory_max`',
    sentence:
      'Memory for decoded columns of analytic queries, about 16 bytes for each event. When it is full, the oldest columns are evicted and decoded again when they are needed.',
  }),
  durability: setting({
    fileKey: 'durability',
    kind: choice(DURABILITIES),
    default: () => 'fsync',
    sentence:
      'When the daemon answers 200: with `fsync`, once the events are on the disk; with `commit`, once they would survive a crash of the process, but not of the machine; with `replicated`, in a cluster, once they are also on a majority of brokers, and otherwise the events are refused.',
  }),
  cluster: setting({
    fileKey: 'cluster',
    kind: list('addresses such as nats://host:4222, separated by commas', (item) =>
      /^(nats|tls):\/\/[\w.:[\]-]{1,255}$/.test(item),
    ),
    default: () => [],
    defaultText: 'none (a single machine)',
    sentence:
      'NATS servers with JetStream, through which the machines of a cluster share one log and one catalogue.',
  }),
  clusterCopies: setting({
    fileKey: 'cluster_copies',
    kind: integer(1, 16),
    default: () => 2,
    sentence:
      'Number of machines of a cluster that must have stored an event before the machine that accepted it may delete its own copy.',
  }),
  partitions: setting({
    fileKey: 'partitions',
    kind: partitions(PARTITION_MAX),
    default: () => [0],
    sentence:
      'Partitions of events that this machine of a cluster stores. The first one is in the data directory itself, and each other one is in a subdirectory. With `none`, the machine accepts events and evaluates flags, and sends all other requests to the other machines.',
  }),
  warehouse: setting({
    fileKey: 'warehouse',
    kind: optional(
      text(
        'an address such as http://user:password@host:8123/database',
        (value) => parseWarehouse(value) !== null,
      ),
    ),
    default: () => null,
    defaultText: 'none',
    sentence:
      'ClickHouse database that receives a copy of all events. If the address contains a password, do not give it as a flag, because other users can read flags in the process list.',
    isSecret: true,
    isFlagAllowed: true,
  }),
  warehouseKeepDays: setting({
    fileKey: 'warehouse_keep_days',
    kind: optional(integer(0, 36_500)),
    default: () => null,
    defaultText: 'forever',
    sentence:
      'Days for which the store keeps the properties of events that are also in the warehouse. Older properties are read from the warehouse.',
  }),
  logLevel: setting({
    fileKey: 'log_level',
    kind: choice(LOG_LEVELS),
    default: () => 'info',
    sentence: 'Lowest severity that is logged.',
  }),
  logFormat: setting({
    fileKey: 'log_format',
    kind: choice(LOG_FORMATS),
    default: ({ isTerminal }) => (isTerminal ? 'pretty' : 'json'),
    defaultText: '`json`, or `pretty` on a terminal',
    sentence: 'Format of the log on standard output.',
  }),
  /** A URL without a slash at the end. If null, the URL is taken from the Host header of each request. */
  publicUrl: setting({
    fileKey: 'public_url',
    kind: optional({
      ...text('an address such as https://events.example.com', isBaseUrl),
      parse: (raw) =>
        typeof raw === 'string' && isBaseUrl(raw) ? raw.replace(/\/+$/, '') : undefined,
    }),
    default: () => null,
    defaultText: 'from the `Host` header',
    sentence:
      'Address under which clients reach the daemon, used for links in answers. It may have a path only if the console is off.',
  }),
  trustedProxies: setting({
    fileKey: 'trusted_proxies',
    kind: list(
      'IP addresses or ranges such as 10.0.0.0/8, separated by commas',
      (text) => addressRange(text) !== null,
    ),
    default: () => ['127.0.0.0/8', '::1/128'],
    sentence:
      'Proxies whose `X-Forwarded-Proto` and `X-Forwarded-Host` headers are trusted. Their `X-Forwarded-For` header is used for rate limits and for the audit log.',
  }),
  isConsoleOn: setting({
    fileKey: 'console',
    kind: boolean(),
    default: () => true,
    sentence:
      'Serves the console, the web interface of Tenrec. If it is off, its paths and session routes answer 404.',
  }),
  /** A path that begins and ends with a slash. */
  consolePath: setting({
    fileKey: 'console_path',
    kind: {
      ...text('a path such as / or /console/, but not below /api/', isConsolePath),
      parse: (raw) =>
        typeof raw === 'string' && isConsolePath(raw) ? raw.replace(/\/*$/, '/') : undefined,
    },
    default: () => '/',
    sentence: 'Path under which the console is served.',
  }),
  /** The URL of the provider. If null, users cannot log in with OpenID Connect. */
  oidcIssuer: setting({
    fileKey: 'oidc_issuer',
    kind: optional(
      text(
        'an https address such as https://login.example.com, or an http address of this machine',
        isIssuer,
      ),
    ),
    default: () => null,
    defaultText: 'none',
    sentence:
      'OpenID Connect provider with which users can log in to the console. Give the address that the provider calls its issuer.',
  }),
  oidcClientId: setting({
    fileKey: 'oidc_client_id',
    kind: optional(
      text('1 to 256 printable ASCII characters', (value) => /^[\x20-\x7e]{1,256}$/.test(value)),
    ),
    default: () => null,
    defaultText: 'none',
    sentence: 'Client ID that the provider gave to Tenrec. It is required with `oidc_issuer`.',
  }),
  oidcClientSecret: setting({
    fileKey: 'oidc_client_secret',
    kind: optional(
      text('1 to 1024 printable ASCII characters', (value) => /^[\x20-\x7e]{1,1024}$/.test(value)),
    ),
    default: () => null,
    defaultText: 'none',
    sentence:
      'Client secret that the provider gave to Tenrec. Without it, Tenrec is a public client, which only PKCE protects.',
    isSecret: true,
  }),
  oidcLabel: setting({
    fileKey: 'oidc_label',
    kind: text('1 to 60 characters', (value) => /^[^\p{Cc}]{1,60}$/u.test(value)),
    default: () => 'Log in with single sign-on',
    sentence: 'Label of the button on the login page that leads to the provider.',
  }),
  oidcNewUsers: setting({
    fileKey: 'oidc_new_users',
    kind: choice(NEW_USER_POLICIES),
    default: (): NewUserPolicy => 'refuse',
    sentence:
      'What happens when somebody whose e-mail address belongs to no user and to no invitation logs in with the provider: `refuse` refuses the login, and `viewer` creates a user who is a viewer. `viewer` requires `oidc_email_domains`.',
  }),
  oidcEmailDomains: setting({
    fileKey: 'oidc_email_domains',
    kind: list(
      'domains such as example.com, separated by commas, or * for every domain',
      (item) => item === '*' || /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/.test(item),
    ),
    default: () => [],
    defaultText: 'none (every domain)',
    sentence:
      'Domains of the e-mail addresses that may log in with the provider. Subdomains are not included.',
  }),
  isForwardedForTrusted: setting({
    fileKey: 'trust_forwarded_for',
    kind: boolean(),
    default: () => true,
    sentence:
      'Takes `$ip` from the header `X-Forwarded-For`, no matter which client sends it. If it is off, `$ip` is the address of the connection.',
  }),
  isGetCaptureEnabled: setting({
    fileKey: 'get_capture',
    kind: boolean(),
    default: () => true,
    sentence: 'Accepts events in the query string of GET requests (the tracking pixel).',
  }),
  isBotTagged: setting({
    fileKey: 'tag_bots',
    kind: boolean(),
    default: () => false,
    sentence: 'Sets `$is_bot` on events whose user agent belongs to a bot.',
  }),
  isUserAgentParsed: setting({
    fileKey: 'parse_user_agents',
    kind: boolean(),
    default: () => false,
    sentence:
      'Sets `$browser`, `$os` and `$device_type` from the user agent on events that have none of these properties.',
  }),
  geoIpDatabase: setting({
    fileKey: 'geoip_database',
    kind: optional(PATH),
    default: () => null,
    defaultText: 'none',
    sentence:
      'GeoIP database (`.mmdb`) that provides the `$geoip_*` properties of events from their `$ip`.',
  }),
  connectionsMax: setting({
    fileKey: 'connections_limit',
    kind: integer(0, 1_000_000),
    default: () => 0,
    sentence:
      'Maximum number of open client connections. Further connections are closed at once. 0 stands for the limit of open files minus 128, at least 4.',
  }),
  flagListenersMax: setting({
    fileKey: 'flag_listeners_limit',
    kind: integer(0, 1_000_000),
    default: () => 20_000,
    sentence:
      'Maximum number of clients that listen for changes of flags at a time. Further ones are answered 503. 0 turns the streams off.',
  }),
  addressConnectionsPerSecondMax: setting({
    fileKey: 'address_connections_per_second',
    kind: integer(0, RATE_MAX),
    default: () => 0,
    sentence:
      'Maximum number of new connections per second from one address that is not a trusted proxy. Further connections are closed. 0 means no limit.',
  }),
  addressRequestsPerSecondMax: setting({
    fileKey: 'address_requests_per_second',
    kind: integer(0, RATE_MAX),
    default: () => 0,
    sentence:
      'Maximum number of requests per second from one address (for IPv6, from one /64 network). Further requests are refused with 429. 0 means no limit.',
  }),
  projectRequestsPerSecondMax: setting({
    fileKey: 'project_requests_per_second',
    kind: integer(0, RATE_MAX),
    default: () => 0,
    sentence:
      'Maximum number of requests per second for one project, of any kind. Further requests are refused with 429. 0 means no limit.',
  }),
  projectEventsPerSecondMax: setting({
    fileKey: 'project_events_per_second',
    kind: integer(0, RATE_MAX),
    default: () => 0,
    sentence:
      'Maximum number of events per second for one project, on average. Further events are refused with 429. 0 means no limit.',
  }),
  bootstrapProjectKey: setting({
    fileKey: 'bootstrap_project_key',
    kind: KEY,
    default: () => null,
    defaultText: 'generated',
    sentence: 'Project key of project 1. It is used on the first start only.',
    isSecret: true,
  }),
  bootstrapPersonalKey: setting({
    fileKey: 'bootstrap_personal_key',
    kind: KEY,
    default: () => null,
    defaultText: 'generated',
    sentence: 'First personal key. It is used on the first start only.',
    isSecret: true,
  }),
}

/** The values of all settings. `SETTINGS` contains the meaning, unit, range and default of each. */
export type SettingValues = {
  readonly [Name in keyof typeof TABLE]: ReturnType<(typeof TABLE)[Name]['default']>
}

/** A name in `SettingValues`. */
export type SettingName = keyof SettingValues

/** All settings, in the order of the help text and the documents. */
export const SETTINGS: { readonly [Name in SettingName]: SettingDefinition<SettingValues[Name]> } =
  TABLE

/** All names, in the order of the table. */
export const SETTING_NAMES: readonly SettingName[] = Object.keys(SETTINGS).filter(isSettingName)

function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(SETTINGS, name)
}

/** The flag that names the configuration file. It is not a setting itself. */
export const CONFIG_FLAG = 'config'
/** The environment variable that names the configuration file. It is not a setting itself. */
export const CONFIG_VARIABLE = 'TENREC_CONFIG'

/** Returns the default of a setting in words, for the help text and the documents. */
export function describeDefault<Name extends SettingName>(name: Name): string {
  const definition: SettingDefinition<SettingValues[Name]> = SETTINGS[name]
  if (definition.defaultText !== undefined) return definition.defaultText
  const value = definition.default({ coreCount: 1, isTerminal: false })
  return `\`${definition.kind.format(value)}\``
}

/** Returns a value in the form in which it can be set. A secret is masked. */
export function formatSetting<Name extends SettingName>(
  name: Name,
  value: SettingValues[Name],
): string {
  const definition: SettingDefinition<SettingValues[Name]> = SETTINGS[name]
  if (definition.isSecret) return value === null ? '' : '********'
  return definition.kind.format(value)
}
