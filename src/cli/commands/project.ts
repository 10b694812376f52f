/** `tenrec project ...`: projects and their settings. A running daemon applies changes within a second. */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { given, isObject, type JsonObject } from '../../base/json.ts'
import { PARTITION_MAX } from '../../base/limits.ts'
import { bytes, integer, type ValueKind } from '../../config/value-kinds.ts'
import type { Project, ProjectChanges } from '../../rules/access/organization.ts'
import { channelRuleFault } from '../../rules/web/channel-type.ts'
import {
  type CommandInput,
  type Commands,
  demandChanges,
  JSON_OPTION,
  type OptionTexts,
} from '../lib/command.ts'
import { isoTime } from '../lib/output.ts'
import { changeOrganization, projectOf, readOrganization } from '../lib/with-store.ts'
import { DAILY_BYTES_LIMIT_MAX, DAILY_EVENTS_LIMIT_MAX } from '../limits.ts'

const NAME = 'Name of the project.'
const KEY_OPTION: OptionTexts = {
  '--project-key KEY':
    'Project key, which SDKs send with every request. A new project without it gets a random key.',
}
const CHANGE_OPTIONS: OptionTexts = {
  '--private BOOLEAN':
    'Whether only its members, and administrators of the organization, may use the project. Default: false.',
  '--group-types-closed BOOLEAN': 'Whether events cannot create new group types. Default: false.',
  '--autocapture-opt-out BOOLEAN':
    'Whether automatic capture of clicks, changes and form submissions in browsers is off.',
  '--autocapture-exceptions-opt-in BOOLEAN': 'Whether browsers capture exceptions.',
  '--autocapture-web-vitals-opt-in BOOLEAN': 'Whether browsers capture web vitals.',
  '--daily-events-limit NUMBER':
    'Maximum number of events that are stored per day, counted from midnight UTC, or none for no limit. Further events are answered with 200 and dropped.',
  '--daily-bytes-limit BYTES':
    'Maximum size of the events that are stored per day, such as 500MiB or 2GB, or none for no limit.',
  '--timezone ZONE': 'Time zone of the project, such as Europe/Berlin. Default: UTC.',
  '--test-account-filters JSON':
    'List of property filters that exclude the events of your own team.',
  '--path-cleaning-filters JSON':
    'Rules that replace the variable parts of paths, such as [{"regex": "/users/[0-9]+", "alias": "/users/:id"}].',
  '--custom-channel-type-rules JSON':
    'Rules that assign channel types to sessions, such as [{"channel_type": "Ads", "combiner": "AND", "items": [{"key": "utm_source", "op": "exact", "value": "ads"}]}].',
  ...JSON_OPTION,
}

/** `tenrec project ...`. */
export const COMMANDS: Commands = [
  {
    name: 'project create',
    sentence: 'Create a project, and print it with its key.',
    options: {
      '--name NAME': { sentence: NAME, isRequired: true },
      ...KEY_OPTION,
      '--anonymize-ips': 'Do not store the IP addresses of senders.',
      '--partition NUMBER':
        'In a cluster: the partition that stores the events of the project. It cannot be changed later. Default: 0.',
      ...CHANGE_OPTIONS,
    },
    async run(input) {
      const partition = await readPartition(input)
      const request = { ...readChanges(input), ...partition, name: input.text('name') ?? '' }
      return changeOrganization(input, ({ projects }) =>
        describeProject(projects.createProject(request)),
      )
    },
  },
  {
    name: 'project list',
    sentence: 'List all projects.',
    options: JSON_OPTION,
    run: (input) =>
      readOrganization(input, ({ projects }) => projects.listProjects().map(describeProject)),
  },
  {
    name: 'project set',
    sentence: 'Change the settings of a project, and print it.',
    operands: ['ID'],
    options: {
      '--name NAME': NAME,
      ...KEY_OPTION,
      '--anonymize-ips BOOLEAN':
        'Whether the IP addresses of senders are not stored: true or false.',
      ...CHANGE_OPTIONS,
    },
    run(input) {
      const id = input.operandId
      const changes = demandChanges(readChanges(input))
      return changeOrganization(input, ({ projects }) =>
        describeProject(projects.setProject(id, changes)),
      )
    },
  },
  {
    name: 'project show',
    sentence: 'Print one project.',
    operands: ['ID'],
    options: JSON_OPTION,
    run: async (input) => describeProject(await projectOf(input, input.operandId)),
  },
]

function readChanges(input: CommandInput): ProjectChanges {
  return given({
    name: input.text('name'),
    apiKey: input.text('project-key'),
    isIpAnonymized: input.boolean('anonymize-ips'),
    isPrivate: input.boolean('private'),
    areGroupTypesClosed: input.boolean('group-types-closed'),
    isAutocaptureOff: input.boolean('autocapture-opt-out'),
    areExceptionsCaptured: input.boolean('autocapture-exceptions-opt-in'),
    areWebVitalsCaptured: input.boolean('autocapture-web-vitals-opt-in'),
    dailyEventsMax: readMaximum(input, 'daily-events-limit', integer(0, DAILY_EVENTS_LIMIT_MAX)),
    dailyBytesMax: readMaximum(input, 'daily-bytes-limit', bytes(0, DAILY_BYTES_LIMIT_MAX)),
    timezone: input.text('timezone'),
    testAccountFilters: readObjects(input, 'test-account-filters'),
    pathCleaningFilters: readPathRules(input),
    customChannelTypeRules: readChannelRules(input),
  })
}

/**
 * Returns the daily limit in an option. Null stands for `none`, which removes the limit. Undefined means that the
 * option is not given.
 */
function readMaximum(
  input: CommandInput,
  name: string,
  { parse, allowed }: ValueKind<number>,
): number | null | undefined {
  const text = input.text(name)
  if (text === undefined || text === 'none') return text === undefined ? undefined : null
  const value = parse(text)
  if (value === undefined) throw new UsageError(`--${name} must be ${allowed}, or none.`)
  return value
}

/**
 * Returns the partition in an option. Throws if no machine stores the partition, because events of the project would
 * then stay in outboxes.
 */
async function readPartition(input: CommandInput): Promise<{ readonly partition?: number }> {
  const text = input.text('partition')
  const { parse, allowed } = integer(0, PARTITION_MAX)
  const partition = parse(text ?? '0')
  if (partition === undefined) throw new UsageError(`--partition must be ${allowed}.`)
  if (partition === 0) return {}
  const { notedBrokers } = await import('../../cluster/shared-change.ts')
  const servers = notedBrokers(input.dataDir)
  if (servers.length === 0) {
    throw new OperatorError(
      '--partition is only for a cluster, and this data directory belongs to a single machine.',
    )
  }
  const { lookAtCluster, holdersOf } = await import('../../cluster/cluster-view.ts')
  const { nodes } = await lookAtCluster(servers)
  // Machines may run different versions. An older version, which reports no partition, would send the events of the
  // project to partition 0.
  const old = nodes.find((node: Partial<(typeof nodes)[number]>) => node.partition === undefined)
  if (old !== undefined) {
    throw new OperatorError(
      `${old.host} runs a version of Tenrec without partitions. Upgrade it first.`,
    )
  }
  if (holdersOf(nodes, partition).length > 0) return { partition }
  const how = `Start a machine with --partitions ${partition} first.`
  throw new OperatorError(
    `No machine of the cluster reports that it stores partition ${partition}. ${how}`,
  )
}

function readObjects(input: CommandInput, option: string): readonly JsonObject[] | undefined {
  const value = input.json(option)
  if (value === undefined || (Array.isArray(value) && value.every(isObject))) return value
  throw new UsageError(`--${option} must be a JSON list of objects.`)
}

function readPathRules(input: CommandInput): readonly JsonObject[] | undefined {
  const rules = readObjects(input, 'path-cleaning-filters')
  for (const { regex, alias } of rules ?? []) {
    if (typeof regex !== 'string' || typeof alias !== 'string') {
      throw new UsageError(
        'Each rule in --path-cleaning-filters must have the strings `regex` and `alias`.',
      )
    }
  }
  return rules
}

function readChannelRules(input: CommandInput): readonly JsonObject[] | undefined {
  const rules = readObjects(input, 'custom-channel-type-rules')
  const fault = rules?.map(channelRuleFault).find((found) => found !== null)
  if (fault == null) return rules
  throw new UsageError(`--custom-channel-type-rules: ${fault}.`)
}

function describeProject(project: Project) {
  return {
    id: project.id,
    name: project.name,
    api_key: project.apiKey,
    anonymize_ips: project.isIpAnonymized,
    private: project.isPrivate === true,
    group_types_closed: project.areGroupTypesClosed === true,
    autocapture_opt_out: project.isAutocaptureOff,
    autocapture_exceptions_opt_in: project.areExceptionsCaptured,
    autocapture_web_vitals_opt_in: project.areWebVitalsCaptured,
    daily_events_limit: project.dailyEventsMax ?? null,
    daily_bytes_limit: project.dailyBytesMax ?? null,
    timezone: project.timezone,
    partition: project.partition ?? 0,
    test_account_filters: project.testAccountFilters,
    path_cleaning_filters: project.pathCleaningFilters,
    custom_channel_type_rules: project.customChannelTypeRules,
    created_at: isoTime(project.createdAtMs),
  }
}
