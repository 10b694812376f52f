/** `tenrec project ...`: projects and their settings. A running daemon notices changes within a second. */
import { UsageError } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { boolean } from '../../config/value-kinds.ts'
import type { Project, ProjectChanges } from '../../rules/access/organization.ts'
import { parseId } from '../lib/arguments.ts'
import {
  type Command,
  type CommandInput,
  JSON_OPTION,
  type OptionDefinition,
} from '../lib/command.ts'
import { isoTime, printRecord, printRows, type Row } from '../lib/output.ts'
import { changeOrganization, withStore } from '../lib/with-store.ts'

const NAME_OPTION: OptionDefinition = {
  name: 'name',
  placeholder: 'NAME',
  sentence: 'Name of the project.',
}

const CHANGE_OPTIONS: readonly OptionDefinition[] = [
  {
    name: 'project-key',
    placeholder: 'KEY',
    sentence: 'Key that SDKs carry; without it a random one.',
  },
  {
    name: 'anonymize-ips',
    placeholder: 'BOOLEAN',
    sentence: 'Whether no address of a sender is stored: true or false.',
  },
  {
    name: 'autocapture-opt-out',
    placeholder: 'BOOLEAN',
    sentence: 'Whether browsers capture no clicks, changes and submits.',
  },
  {
    name: 'autocapture-exceptions-opt-in',
    placeholder: 'BOOLEAN',
    sentence: 'Whether browsers capture exceptions.',
  },
  {
    name: 'autocapture-web-vitals-opt-in',
    placeholder: 'BOOLEAN',
    sentence: 'Whether browsers capture web vitals.',
  },
  { name: 'timezone', placeholder: 'ZONE', sentence: 'Such as Europe/Berlin; the default is UTC.' },
  {
    name: 'test-account-filters',
    placeholder: 'JSON',
    sentence: "List of property filters that leave out the team's own events.",
  },
]

const ANONYMIZE_SWITCH: OptionDefinition = {
  name: 'anonymize-ips',
  placeholder: null,
  sentence: 'Store no address of a sender.',
}

/** `tenrec project create`. */
export const PROJECT_CREATE: Command = {
  name: 'project create',
  sentence: 'Create a project and print it with its key.',
  operands: [],
  options: [
    { ...NAME_OPTION, isRequired: true },
    ...CHANGE_OPTIONS.map((option) =>
      option.name === ANONYMIZE_SWITCH.name ? ANONYMIZE_SWITCH : option,
    ),
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const changes = readChanges(input)
    const name = input.options.get('name') ?? ''
    const project = await changeOrganization(input, ({ projects }) =>
      projects.createProject({ ...changes, name }),
    )
    printRecord(input.io, describeProject(project), input.options.has('json'))
    return 0
  },
}

/** `tenrec project set`. */
export const PROJECT_SET: Command = {
  name: 'project set',
  sentence: 'Change the settings of a project and print it.',
  operands: ['ID'],
  options: [NAME_OPTION, ...CHANGE_OPTIONS, JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const id = parseId('ID', input.operands[0] ?? '')
    const changes = readChanges(input)
    if (Object.keys(changes).length === 0) throw new UsageError('there is nothing to change')
    const project = await changeOrganization(input, ({ projects }) =>
      projects.setProject(id, changes),
    )
    printRecord(input.io, describeProject(project), input.options.has('json'))
    return 0
  },
}

/** `tenrec project list`. */
export const PROJECT_LIST: Command = {
  name: 'project list',
  sentence: 'List all projects.',
  operands: [],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const projects = await withStore(input, false, ({ organization }) =>
      organization.projects.listProjects(),
    )
    printRows(input.io, projects.map(describeProject), input.options.has('json'))
    return 0
  },
}

/** `tenrec project show`. */
export const PROJECT_SHOW: Command = {
  name: 'project show',
  sentence: 'Print one project.',
  operands: ['ID'],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const id = parseId('ID', input.operands[0] ?? '')
    const project = await withStore(input, false, ({ organization }) =>
      organization.projects.project(id),
    )
    if (project === null) {
      input.io.err(`tenrec: there is no project ${id}\n`)
      return 1
    }
    printRecord(input.io, describeProject(project), input.options.has('json'))
    return 0
  },
}

function readChanges({ options }: CommandInput): ProjectChanges {
  const name = options.get('name')
  const apiKey = options.get('project-key')
  const isIpAnonymized = readBoolean(options, 'anonymize-ips')
  const isAutocaptureOff = readBoolean(options, 'autocapture-opt-out')
  const areExceptionsCaptured = readBoolean(options, 'autocapture-exceptions-opt-in')
  const areWebVitalsCaptured = readBoolean(options, 'autocapture-web-vitals-opt-in')
  const timezone = options.get('timezone')
  const filters = options.get('test-account-filters')
  return {
    ...(name === undefined ? {} : { name }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(isIpAnonymized === undefined ? {} : { isIpAnonymized }),
    ...(isAutocaptureOff === undefined ? {} : { isAutocaptureOff }),
    ...(areExceptionsCaptured === undefined ? {} : { areExceptionsCaptured }),
    ...(areWebVitalsCaptured === undefined ? {} : { areWebVitalsCaptured }),
    ...(timezone === undefined ? {} : { timezone }),
    ...(filters === undefined ? {} : { testAccountFilters: parseFilters(filters) }),
  }
}

function readBoolean(options: CommandInput['options'], name: string): boolean | undefined {
  const text = options.get(name)
  if (text === undefined) return undefined
  const kind = boolean()
  const value = kind.parse(text)
  if (value === undefined) throw new UsageError(`--${name}: allowed are ${kind.allowed}`)
  return value
}

function parseFilters(text: string): readonly JsonObject[] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new UsageError('--test-account-filters is not valid JSON')
  }
  if (Array.isArray(value) && value.every(isObject)) return value
  throw new UsageError('--test-account-filters must be a JSON list of objects')
}

function describeProject(project: Project): Row {
  return {
    id: project.id,
    name: project.name,
    api_key: project.apiKey,
    anonymize_ips: project.isIpAnonymized,
    autocapture_opt_out: project.isAutocaptureOff,
    autocapture_exceptions_opt_in: project.areExceptionsCaptured,
    autocapture_web_vitals_opt_in: project.areWebVitalsCaptured,
    timezone: project.timezone,
    test_account_filters: project.testAccountFilters,
    created_at: isoTime(project.createdAtMs),
  }
}
