/**
 * The one table of settings. It feeds the parser of flags, environment and file, the help text, the
 * command `config`, and docs/CONFIGURATION.md (a test compares the two). A new setting is a line in
 * `SettingValues`, a row in `SETTINGS` and a row in the document.
 */
import { addressRange } from '../base/addresses.ts'
import { SCAN_CACHE_BYTES_DEFAULT } from '../base/limits.ts'
import { LOG_FORMATS, LOG_LEVELS, type LogFormat, type LogLevel } from '../base/log.ts'
import {
  boolean,
  bytes,
  choice,
  integer,
  isBaseUrl,
  list,
  optional,
  text,
  type ValueKind,
} from './value-kinds.ts'

/** When a request is answered: after the flush to the disk, or after the commit in memory. */
export const DURABILITIES = ['fsync', 'commit'] as const
/** One of `DURABILITIES`. */
export type Durability = (typeof DURABILITIES)[number]

/** The values of all settings. Meaning, unit, range and default of each: `SETTINGS`. */
export interface SettingValues {
  readonly dataDir: string
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly bodyBytesMax: number
  readonly inFlightBytesMax: number
  readonly backlogBytesMax: number
  readonly processingLagMsMax: number
  /** 0: no limit. */
  readonly eventPropertiesBytesMax: number
  /** Null: as much as `reserveBytesOf` in engine/front/disk-guard.ts says of the disk. */
  readonly diskReserveBytes: number | null
  readonly isNetworkDiskAllowed: boolean
  readonly workerThreads: number
  readonly queryMsMax: number
  readonly queryCacheBytes: number
  readonly durability: Durability
  readonly logLevel: LogLevel
  readonly logFormat: LogFormat
  /** Without a slash at the end; null: taken from each request's Host header. */
  readonly publicUrl: string | null
  readonly trustedProxies: readonly string[]
  readonly isForwardedForTrusted: boolean
  readonly isGetCaptureEnabled: boolean
  /** 0: as many as the process may open files. */
  readonly connectionsMax: number
  /** 0: no limit; so are those below. */
  readonly addressConnectionsPerSecondMax: number
  readonly addressRequestsPerSecondMax: number
  readonly projectRequestsPerSecondMax: number
  readonly projectEventsPerSecondMax: number
  readonly bootstrapProjectKey: string | null
  readonly bootstrapPersonalKey: string | null
}

/** A name in `SettingValues`. */
export type SettingName = keyof SettingValues

/** What defaults depend on. */
export interface Machine {
  readonly coreCount: number
  readonly isTerminal: boolean
}

/** One setting, whose values are `Value`. */
export interface SettingDefinition<Value> {
  /** Without the two hyphens; null for secrets, which other users could read in the process list. */
  readonly flag: string | null
  readonly variable: string
  /** Key in the configuration file. */
  readonly fileKey: string
  readonly kind: ValueKind<Value>
  readonly default: (machine: Machine) => Value
  /** The default in words, where it depends on the machine or is nothing. */
  readonly defaultText?: string
  /** One sentence for help and documents. */
  readonly sentence: string
  /** Never printed; may also come from a file in `$CREDENTIALS_DIRECTORY`. */
  readonly isSecret: boolean
  /** Takes effect without a restart. */
  readonly isReloadable: boolean
}

/** What a project key or a personal key may look like. */
export const KEY_PATTERN = /^[\x21-\x7e]{1,64}$/
/** `KEY_PATTERN` in words. */
export const KEY_ALLOWED = '1 to 64 printable ASCII characters without spaces'

const KIB = 1024
const MIB = 1024 ** 2
const GIB = 1024 ** 3
const TIB = 1024 ** 4
const RATE_MAX = 100_000_000

const SAME = { isSecret: false, isReloadable: false } as const
const KEY = optional(text(KEY_ALLOWED, (value) => KEY_PATTERN.test(value)))

/** Every setting, in the order of help and documents. */
export const SETTINGS: { readonly [Name in SettingName]: SettingDefinition<SettingValues[Name]> } =
  {
    dataDir: {
      ...SAME,
      flag: 'data-dir',
      variable: 'TENREC_DATA_DIR',
      fileKey: 'data_dir',
      kind: text('a path', (value) => value !== '' && !value.includes('\0')),
      default: () => './data',
      sentence: 'Folder that holds everything that is stored.',
    },
    host: {
      ...SAME,
      flag: 'host',
      variable: 'TENREC_HOST',
      fileKey: 'host',
      kind: text('an address or a host name', (value) => /^[\w.:%-]{1,255}$/.test(value)),
      default: () => '127.0.0.1',
      sentence: 'Address to listen on; `0.0.0.0` or `::` for all.',
    },
    port: {
      ...SAME,
      flag: 'port',
      variable: 'TENREC_PORT',
      fileKey: 'port',
      kind: integer(0, 65_535),
      default: () => 8000,
      sentence: 'Port to listen on; with 0 any free one, named in the line `ready`.',
    },
    bodyBytesMax: {
      ...SAME,
      flag: 'body-limit',
      variable: 'TENREC_BODY_LIMIT',
      fileKey: 'body_limit',
      kind: bytes(KIB, 256 * MIB),
      default: () => 20 * MIB,
      sentence: 'Largest body of a request, before and after decompression; beyond: 413.',
    },
    inFlightBytesMax: {
      ...SAME,
      flag: 'inflight-limit',
      variable: 'TENREC_INFLIGHT_LIMIT',
      fileKey: 'inflight_limit',
      kind: bytes(MIB, 64 * GIB),
      default: () => 256 * MIB,
      sentence: 'Bodies held in memory at once, over all requests; beyond: 503 with Retry-After.',
    },
    backlogBytesMax: {
      ...SAME,
      flag: 'backlog-limit',
      variable: 'TENREC_BACKLOG_LIMIT',
      fileKey: 'backlog_limit',
      kind: bytes(MIB, 16 * TIB),
      default: () => 4 * GIB,
      sentence: 'Accepted events on disk that wait to be processed; beyond: 503 with Retry-After.',
    },
    processingLagMsMax: {
      ...SAME,
      flag: 'processing-lag-limit-ms',
      variable: 'TENREC_PROCESSING_LAG_LIMIT_MS',
      fileKey: 'processing_lag_limit_ms',
      kind: integer(1000, 3_600_000),
      default: () => 10_000,
      sentence:
        'Milliseconds until what is accepted now can be read, as estimated; beyond: 503 with Retry-After.',
    },
    eventPropertiesBytesMax: {
      ...SAME,
      flag: 'event-properties-limit',
      variable: 'TENREC_EVENT_PROPERTIES_LIMIT',
      fileKey: 'event_properties_limit',
      kind: bytes(KIB, 256 * MIB, { isZeroAllowed: true }),
      default: () => MIB,
      sentence:
        'Largest properties of one event as JSON; a larger event is dropped with a warning.',
    },
    diskReserveBytes: {
      ...SAME,
      flag: 'disk-reserve',
      variable: 'TENREC_DISK_RESERVE',
      fileKey: 'disk_reserve',
      kind: optional(bytes(MIB, 16 * TIB)),
      default: () => null,
      defaultText: '256MiB, on a disk below 2 GiB an eighth of it',
      sentence: 'Free disk space below which nothing more is accepted: 503 with Retry-After.',
    },
    isNetworkDiskAllowed: {
      ...SAME,
      flag: 'allow-network-disk',
      variable: 'TENREC_ALLOW_NETWORK_DISK',
      fileKey: 'allow_network_disk',
      kind: boolean(),
      default: () => false,
      sentence:
        'Starts although the data directory is on NFS, SMB, FUSE or another network file system, where data may be lost.',
    },
    workerThreads: {
      ...SAME,
      flag: 'workers',
      variable: 'TENREC_WORKERS',
      fileKey: 'workers',
      kind: integer(1, 256),
      default: ({ coreCount }) => Math.min(256, Math.max(1, coreCount - 1)),
      defaultText: 'cores - 1, at least 1',
      sentence:
        'Threads for reading; half as many, at least one, for analytic queries and for each of two kinds of large bodies.',
    },
    queryMsMax: {
      ...SAME,
      flag: 'query-timeout-ms',
      variable: 'TENREC_QUERY_TIMEOUT_MS',
      fileKey: 'query_timeout_ms',
      kind: integer(100, 3_600_000),
      default: () => 30_000,
      sentence: 'Milliseconds that an analytic query may take; beyond: 504.',
    },
    queryCacheBytes: {
      ...SAME,
      flag: 'query-cache',
      variable: 'TENREC_QUERY_CACHE',
      fileKey: 'query_cache',
      kind: bytes(MIB, 64 * GIB),
      default: () => SCAN_CACHE_BYTES_DEFAULT,
      sentence:
        'Memory for what analytic queries have decoded, some 16 bytes an event; beyond: the oldest is decoded again.',
    },
    durability: {
      ...SAME,
      flag: 'durability',
      variable: 'TENREC_DURABILITY',
      fileKey: 'durability',
      kind: choice(DURABILITIES),
      default: () => 'fsync',
      sentence:
        'What 200 means: `fsync`, the events are on the disk; `commit`, they survive a crash of the process, but not of the machine.',
    },
    logLevel: {
      ...SAME,
      flag: 'log-level',
      variable: 'TENREC_LOG_LEVEL',
      fileKey: 'log_level',
      kind: choice(LOG_LEVELS),
      default: () => 'info',
      sentence: 'Least severe lines that are logged.',
    },
    logFormat: {
      ...SAME,
      flag: 'log-format',
      variable: 'TENREC_LOG_FORMAT',
      fileKey: 'log_format',
      kind: choice(LOG_FORMATS),
      default: ({ isTerminal }) => (isTerminal ? 'pretty' : 'json'),
      defaultText: '`json`; on a terminal `pretty`',
      sentence: 'Form of the log on stdout.',
    },
    publicUrl: {
      ...SAME,
      flag: 'public-url',
      variable: 'TENREC_PUBLIC_URL',
      fileKey: 'public_url',
      kind: optional({
        ...text('an address such as https://events.example.com', isBaseUrl),
        parse: (raw) =>
          typeof raw === 'string' && isBaseUrl(raw) ? raw.replace(/\/+$/, '') : undefined,
      }),
      default: () => null,
      defaultText: 'from the Host header',
      sentence: 'Address under which clients reach the daemon, for links in answers.',
    },
    trustedProxies: {
      ...SAME,
      flag: 'trusted-proxies',
      variable: 'TENREC_TRUSTED_PROXIES',
      fileKey: 'trusted_proxies',
      kind: list(
        'IP addresses or ranges such as 10.0.0.0/8, separated by commas',
        (text) => addressRange(text) !== null,
      ),
      default: () => ['127.0.0.0/8', '::1/128'],
      sentence:
        'Proxies whose `X-Forwarded-Proto` and `X-Forwarded-Host` are believed, and `X-Forwarded-For` for limits and the audit log.',
    },
    isForwardedForTrusted: {
      ...SAME,
      flag: 'trust-forwarded-for',
      variable: 'TENREC_TRUST_FORWARDED_FOR',
      fileKey: 'trust_forwarded_for',
      kind: boolean(),
      default: () => true,
      sentence:
        'Takes `$ip` from `X-Forwarded-For`, whoever sends it; off: the address of the connection.',
    },
    isGetCaptureEnabled: {
      ...SAME,
      flag: 'get-capture',
      variable: 'TENREC_GET_CAPTURE',
      fileKey: 'get_capture',
      kind: boolean(),
      default: () => true,
      sentence: 'Accepts events in the query string of GET requests (the pixel).',
    },
    connectionsMax: {
      ...SAME,
      flag: 'connections-limit',
      variable: 'TENREC_CONNECTIONS_LIMIT',
      fileKey: 'connections_limit',
      kind: integer(0, 1_000_000),
      default: () => 0,
      sentence:
        'Open connections of clients; a further one is closed at once. 0 is the limit of open files less 128.',
    },
    addressConnectionsPerSecondMax: {
      ...SAME,
      flag: 'address-connections-per-second',
      variable: 'TENREC_ADDRESS_CONNECTIONS_PER_SECOND',
      fileKey: 'address_connections_per_second',
      kind: integer(0, RATE_MAX),
      default: () => 0,
      sentence:
        'New connections a second from one address that is no trusted proxy; beyond: closed. 0 is no limit.',
    },
    addressRequestsPerSecondMax: {
      ...SAME,
      flag: 'address-requests-per-second',
      variable: 'TENREC_ADDRESS_REQUESTS_PER_SECOND',
      fileKey: 'address_requests_per_second',
      kind: integer(0, RATE_MAX),
      default: () => 0,
      sentence:
        'Requests a second from one address (IPv6: one /64 network); beyond: 429. 0 is no limit.',
    },
    projectRequestsPerSecondMax: {
      ...SAME,
      flag: 'project-requests-per-second',
      variable: 'TENREC_PROJECT_REQUESTS_PER_SECOND',
      fileKey: 'project_requests_per_second',
      kind: integer(0, RATE_MAX),
      default: () => 0,
      sentence: 'Requests a second for one project, whatever they ask; beyond: 429. 0 is no limit.',
    },
    projectEventsPerSecondMax: {
      ...SAME,
      flag: 'project-events-per-second',
      variable: 'TENREC_PROJECT_EVENTS_PER_SECOND',
      fileKey: 'project_events_per_second',
      kind: integer(0, RATE_MAX),
      default: () => 0,
      sentence: 'Events a second for one project, on average; beyond: 429. 0 is no limit.',
    },
    bootstrapProjectKey: {
      flag: null,
      variable: 'TENREC_BOOTSTRAP_PROJECT_KEY',
      fileKey: 'bootstrap_project_key',
      kind: KEY,
      default: () => null,
      defaultText: 'generated',
      sentence: 'Key of project 1, on the first start only.',
      isSecret: true,
      isReloadable: false,
    },
    bootstrapPersonalKey: {
      flag: null,
      variable: 'TENREC_BOOTSTRAP_PERSONAL_KEY',
      fileKey: 'bootstrap_personal_key',
      kind: KEY,
      default: () => null,
      defaultText: 'generated',
      sentence: 'First personal key, on the first start only.',
      isSecret: true,
      isReloadable: false,
    },
  }

/** All names, in the order of the table. */
export const SETTING_NAMES: readonly SettingName[] = Object.keys(SETTINGS).filter(isSettingName)

function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(SETTINGS, name)
}

/** Flag and variable that name the configuration file; they are no setting themselves. */
export const CONFIG_FLAG = 'config'
/** See `CONFIG_FLAG`. */
export const CONFIG_VARIABLE = 'TENREC_CONFIG'

/** The default in words, for help and documents. */
export function describeDefault<Name extends SettingName>(name: Name): string {
  const definition: SettingDefinition<SettingValues[Name]> = SETTINGS[name]
  if (definition.defaultText !== undefined) return definition.defaultText
  const value = definition.default({ coreCount: 1, isTerminal: false })
  return `\`${definition.kind.format(value)}\``
}

/** A value in the form in which it can be set; a secret is masked. */
export function formatSetting<Name extends SettingName>(
  name: Name,
  value: SettingValues[Name],
): string {
  const definition: SettingDefinition<SettingValues[Name]> = SETTINGS[name]
  if (definition.isSecret) return value === null ? '' : '********'
  return definition.kind.format(value)
}
