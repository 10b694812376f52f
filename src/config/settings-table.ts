/**
 * The table of all settings. The parsers of flags, environment and file, the help text, the command `config` and
 * docs/CONFIGURATION.md are based on it (a test compares the table with the document). A new setting is a row in
 * `TABLE` and a row in the document.
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
 * The moments at which a request can be answered: after the flush to disk, after the commit in memory, or after
 * replication.
 */
const DURABILITIES = ['fsync', 'commit', 'replicated'] as const
/** The choice of HTTP libraries. */
const HTTP_SERVERS = ['auto', 'uws', 'node'] as const
/** A value of the setting `http_server`. */
export type HttpServerChoice = (typeof HTTP_SERVERS)[number]
/** The HTTP library in use. */
export type HttpServerName = Exclude<HttpServerChoice, 'auto'>

/** The facts that defaults depend on. */
export interface Machine {
  readonly coreCount: number
  readonly isTerminal: boolean
  /** The bytes that the machine and its control groups allow. Absent: no limit. */
  readonly memoryBytes?: number
  /** The budget of working memory, after the setting `memory_max` is resolved. Absent: the value of `auto`. */
  readonly budgetBytes?: number
}

/** A row of the table, for a setting with values of type `Value`. */
interface SettingRow<Value> {
  /** The key in the configuration file. */
  readonly fileKey: string
  readonly kind: ValueKind<Value>
  readonly default: (machine: Machine) => Value
  /** The default in words, if it depends on the machine or is no value. */
  readonly defaultText?: string
  /** One sentence for help and documents. */
  readonly sentence: string
  /** True if the value is never printed. It may also come from a file in `$CREDENTIALS_DIRECTORY`. */
  readonly isSecret?: boolean
  /** True if a secret has a flag nevertheless, because its value does not always contain a secret. */
  readonly isFlagAllowed?: boolean
}

/** A setting with values of type `Value`. */
export interface SettingDefinition<Value> extends SettingRow<Value> {
  /** The flag without its two hyphens. Null for secrets, because other users could read them in the process list. */
  readonly flag: string | null
  readonly variable: string
  readonly isSecret: boolean
}

/** The allowed form of project keys and personal keys. */
export const KEY_PATTERN = /^[\x21-\x7e]{1,64}$/
/** `KEY_PATTERN` in words. */
export const KEY_ALLOWED = '1 to 64 printable ASCII characters without spaces'

const KIB = 1024
const MIB = 1024 ** 2
const GIB = 1024 ** 3
const TIB = 1024 ** 4
const RATE_MAX = 100_000_000

/** Returns the memory plan, which gives the defaults of settings that depend on the budget. */
function planOf(machine: Machine): MemoryPlan {
  const { coreCount, budgetBytes = budgetOf(machine) } = machine
  return memoryPlan({ memoryBytesMax: budgetBytes, coreCount })
}

function budgetOf({ memoryBytes = Number.MAX_SAFE_INTEGER, coreCount }: Machine): number {
  return automaticBudget(memoryBytes, coreCount)
}

const PATH = text('a path', (value) => value !== '' && !value.includes('\0'))
const KEY = optional(text(KEY_ALLOWED, (value) => KEY_PATTERN.test(value)))

function isConsolePath(path: string): boolean {
  return path.length <= 100 && /^\/(?!api(?:\/|$))(?:[\w~-]+(?:\/[\w~-]+)*\/?)?$/.test(path)
}

/** Creates a row and the names that follow from its key: `body_limit`, `--body-limit`, `TENREC_BODY_LIMIT`. */
function setting<const Value>(row: SettingRow<Value>): SettingDefinition<Value> {
  const { fileKey, isSecret = false, isFlagAllowed = !isSecret } = row
  const flag = isFlagAllowed ? fileKey.replaceAll('_', '-') : null
  return { ...row, flag, variable: `TENREC_${fileKey.toUpperCase()}`, isSecret }
}

/** The largest port: ports are 16-bit numbers. */
export const LAST_PORT = 65_535

/** The rows, in the order of help and documents. */
const TABLE = {
  dataDir: setting({
    fileKey: 'data_dir',
    kind: PATH,
    default: () => './data',
    sentence: 'Folder that holds all stored data.',
  }),
  host: setting({
    fileKey: 'host',
    kind: text('an address or a host name', (value) => /^[\w.:%-]{1,255}$/.test(value)),
    default: () => '127.0.0.1',
    sentence: 'Address to listen on. `0.0.0.0` or `::` means all addresses.',
  }),
  port: setting({
    fileKey: 'port',
    kind: integer(0, LAST_PORT),
    default: () => 8000,
    sentence:
      'Port to listen on. With 0, any free port is used, and the log line `ready` names it.',
  }),
  httpServer: setting({
    fileKey: 'http_server',
    kind: choice(HTTP_SERVERS),
    default: (): HttpServerChoice => 'auto',
    sentence:
      'HTTP library. `uws` is uWebSockets.js, `node` is the HTTP server of Node.js. `auto` uses uWebSockets.js if it can be loaded.',
  }),
  memoryBytesMax: setting({
    fileKey: 'memory_max',
    kind: automatic(bytes(MEMORY_BYTES_MIN, 16 * TIB)),
    default: budgetOf,
    defaultText:
      '`auto`: 640MiB plus 64MiB for each core after the second, but at most three quarters of the memory of the machine or its control group',
    sentence:
      'Working memory of the process. The number of threads, their heaps and their caches follow from it. Mapped files do not count.',
  }),
  bodyBytesMax: setting({
    fileKey: 'body_limit',
    kind: bytes(KIB, 256 * MIB),
    default: () => 20 * MIB,
    sentence:
      'Largest body of a request, before and after decompression. Larger bodies are refused with 413.',
  }),
  inFlightBytesMax: setting({
    fileKey: 'inflight_limit',
    kind: bytes(MIB, 64 * GIB),
    default: (machine) => planOf(machine).inFlightBytes,
    defaultText: '256MiB, less where `memory_max` is small',
    sentence:
      'Memory for the bodies of all open requests. Further requests are refused with 503 and Retry-After.',
  }),
  backlogBytesMax: setting({
    fileKey: 'backlog_limit',
    kind: bytes(MIB, 16 * TIB),
    default: () => 4 * GIB,
    sentence:
      'Accepted events on disk that wait to be processed. Beyond the limit, events are refused with 503 and Retry-After.',
  }),
  processingLagMsMax: setting({
    fileKey: 'processing_lag_limit_ms',
    kind: integer(1000, 3_600_000),
    default: () => 30_000,
    sentence:
      'Estimated milliseconds until an event that is accepted now can be read. Beyond the limit, events are refused with 503 and Retry-After.',
  }),
  eventPropertiesBytesMax: setting({
    fileKey: 'event_properties_limit',
    kind: bytes(KIB, 256 * MIB, { isZeroAllowed: true }),
    default: () => MIB,
    sentence: 'Largest properties of one event, as JSON. A larger event is dropped with a warning.',
  }),
  /** Null: `reserveBytesOf` in engine/front/disk-guard.ts chooses the reserve by the size of the disk. */
  diskReserveBytes: setting({
    fileKey: 'disk_reserve',
    kind: optional(bytes(MIB, 16 * TIB)),
    default: () => null,
    defaultText: '256MiB, or an eighth of the disk if it is smaller than 2 GiB',
    sentence:
      'Free disk space below which no more events are accepted. They are refused with 503 and Retry-After.',
  }),
  isNetworkDiskAllowed: setting({
    fileKey: 'allow_network_disk',
    kind: boolean(),
    default: () => false,
    sentence:
      'Allows a data directory on NFS, SMB, FUSE or another network file system, where data may be lost.',
  }),
  workerThreads: setting({
    fileKey: 'workers',
    kind: integer(1, 256),
    default: (machine) => planOf(machine).workerThreads,
    defaultText: 'cores - 1, at least 1, as far as `memory_max` allows',
    sentence:
      'Worker threads for reads. Half as many, but at least one, are used for long reads and for each of two kinds of large bodies.',
  }),
  analyticsThreads: setting({
    fileKey: 'analytics_threads',
    kind: integer(1, 64),
    default: (machine) => planOf(machine).analyticsThreads,
    defaultText: 'cores, at most 16, as far as `memory_max` allows',
    sentence:
      'Worker threads for analytic queries, with low priority. A query about many events is divided among them.',
  }),
  queryMsMax: setting({
    fileKey: 'query_timeout_ms',
    kind: integer(100, 3_600_000),
    default: () => 30_000,
    sentence: 'Milliseconds that an analytic query may take. A longer query is refused with 504.',
  }),
  queryCacheBytes: setting({
    fileKey: 'query_cache',
    kind: bytes(MIB, 64 * GIB),
    default: (machine) => planOf(machine).queryCacheBytes,
    defaultText: '160MiB, or less or more, depending on `memory_max`',
    sentence:
      'Memory for the decoded columns of analytic queries, about 16 bytes per event. Beyond the limit, the oldest columns are evicted.',
  }),
  durability: setting({
    fileKey: 'durability',
    kind: choice(DURABILITIES),
    default: () => 'fsync',
    sentence:
      'What an answer of 200 guarantees. `fsync`: the events are on disk. `commit`: the events survive a crash of the process, but not of the machine. `replicated`: in a cluster, the events are also stored by a majority of brokers, or the request is refused.',
  }),
  cluster: setting({
    fileKey: 'cluster',
    kind: list('addresses such as nats://host:4222, separated by commas', (item) =>
      /^(nats|tls):\/\/[\w.:[\]-]{1,255}$/.test(item),
    ),
    default: () => [],
    defaultText: 'none (a single machine)',
    sentence:
      'NATS servers with JetStream through which several machines share one log and one catalogue.',
  }),
  clusterCopies: setting({
    fileKey: 'cluster_copies',
    kind: integer(1, 16),
    default: () => 2,
    sentence:
      'Number of machines of a cluster that must have stored an event before the machine that accepted it releases it.',
  }),
  partitions: setting({
    fileKey: 'partitions',
    kind: partitions(PARTITION_MAX),
    default: () => [0],
    sentence:
      'The partitions of events that a machine of a cluster stores. The first is in the data directory, each other one in a folder of it. With `none`, the machine accepts events and evaluates flags, and asks the other machines for everything else.',
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
      'ClickHouse server that gets a copy of all events. If the address has a password, do not pass it as a flag, because other users can read it in the process list.',
    isSecret: true,
    isFlagAllowed: true,
  }),
  warehouseKeepDays: setting({
    fileKey: 'warehouse_keep_days',
    kind: optional(integer(0, 36_500)),
    default: () => null,
    defaultText: 'forever',
    sentence:
      'Days for which the store keeps the properties of events that ClickHouse has, too. Older properties are read from ClickHouse.',
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
    sentence: 'Format of the log on stdout.',
  }),
  /** The URL without a slash at the end. Null: taken from the Host header of each request. */
  publicUrl: setting({
    fileKey: 'public_url',
    kind: optional({
      ...text('an address such as https://events.example.com', isBaseUrl),
      parse: (raw) =>
        typeof raw === 'string' && isBaseUrl(raw) ? raw.replace(/\/+$/, '') : undefined,
    }),
    default: () => null,
    defaultText: 'from the Host header',
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
      'Proxies whose `X-Forwarded-Proto` and `X-Forwarded-Host` are trusted, and whose `X-Forwarded-For` is used for limits and the audit log.',
  }),
  isConsoleOn: setting({
    fileKey: 'console',
    kind: boolean(),
    default: () => true,
    sentence: 'Serves the console for browsers. If it is off, its paths and sessions answer 404.',
  }),
  /** The path begins and ends with a slash. */
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
  isForwardedForTrusted: setting({
    fileKey: 'trust_forwarded_for',
    kind: boolean(),
    default: () => true,
    sentence:
      'Takes `$ip` from `X-Forwarded-For` of any client. If it is off, `$ip` is the address of the connection.',
  }),
  isGetCaptureEnabled: setting({
    fileKey: 'get_capture',
    kind: boolean(),
    default: () => true,
    sentence: 'Accepts events in the query string of GET requests (tracking pixel).',
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
      'Sets `$browser`, `$os` and `$device_type` from the user agent, on events that have none of them.',
  }),
  geoIpDatabase: setting({
    fileKey: 'geoip_database',
    kind: optional(PATH),
    default: () => null,
    defaultText: 'none',
    sentence: 'GeoIP database (`.mmdb`) that adds `$geoip_*` to events by their `$ip`.',
  }),
  connectionsMax: setting({
    fileKey: 'connections_limit',
    kind: integer(0, 1_000_000),
    default: () => 0,
    sentence:
      'Open client connections. Further connections are closed at once. 0 means the limit of open files minus 128, but at least 4.',
  }),
  addressConnectionsPerSecondMax: setting({
    fileKey: 'address_connections_per_second',
    kind: integer(0, RATE_MAX),
    default: () => 0,
    sentence:
      'New connections per second from one address that is not a trusted proxy. Further connections are closed. 0 means no limit.',
  }),
  addressRequestsPerSecondMax: setting({
    fileKey: 'address_requests_per_second',
    kind: integer(0, RATE_MAX),
    default: () => 0,
    sentence:
      'Requests per second from one address (for IPv6, one /64 network). Further requests are refused with 429. 0 means no limit.',
  }),
  projectRequestsPerSecondMax: setting({
    fileKey: 'project_requests_per_second',
    kind: integer(0, RATE_MAX),
    default: () => 0,
    sentence:
      'Requests per second for one project, of any kind. Further requests are refused with 429. 0 means no limit.',
  }),
  projectEventsPerSecondMax: setting({
    fileKey: 'project_events_per_second',
    kind: integer(0, RATE_MAX),
    default: () => 0,
    sentence:
      'Events per second for one project, on average. Further events are refused with 429. 0 means no limit.',
  }),
  bootstrapProjectKey: setting({
    fileKey: 'bootstrap_project_key',
    kind: KEY,
    default: () => null,
    defaultText: 'generated',
    sentence: 'Key of project 1. Used on the first start only.',
    isSecret: true,
  }),
  bootstrapPersonalKey: setting({
    fileKey: 'bootstrap_personal_key',
    kind: KEY,
    default: () => null,
    defaultText: 'generated',
    sentence: 'First personal key. Used on the first start only.',
    isSecret: true,
  }),
}

/** The values of all settings. `SETTINGS` defines the meaning, unit, range and default of each. */
export type SettingValues = {
  readonly [Name in keyof typeof TABLE]: ReturnType<(typeof TABLE)[Name]['default']>
}

/** A name in `SettingValues`. */
export type SettingName = keyof SettingValues

/** Every setting, in the order of help and documents. */
export const SETTINGS: { readonly [Name in SettingName]: SettingDefinition<SettingValues[Name]> } =
  TABLE

/** All names, in the order of the table. */
export const SETTING_NAMES: readonly SettingName[] = Object.keys(SETTINGS).filter(isSettingName)

function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(SETTINGS, name)
}

/** The flag and the variable that name the configuration file. They are not settings themselves. */
export const CONFIG_FLAG = 'config'
/** See `CONFIG_FLAG`. */
export const CONFIG_VARIABLE = 'TENREC_CONFIG'

/** Returns the default in words, for help and documents. */
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
