/**
 * `tenrec flag pull`, `plan`, `apply`, `rehearse` and `schema`: flags in files. docs/FLAGS-IN-FILES.md describes the
 * files, and how a plan in a pull request becomes a change.
 */
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { REHEARSAL_SAMPLE_MAX, REHEARSAL_SAMPLE_USUAL } from '../../base/limits.ts'
import type { PlanAnswer, PlanRow } from '../../engine/threads/flag-plans.ts'
import {
  publishedFlagsSchema,
  readFlagsFile,
  requireOwnKeys,
} from '../../rules/flags/edit/flags-file.ts'
import {
  type CommandInput,
  type Commands,
  type OptionTexts,
  PROJECT_OPTION,
} from '../lib/command.ts'
import { DAEMON_OPTIONS } from '../lib/daemon-client.ts'
import { parseExactJson } from '../lib/exact-json.ts'
import { type FlagProject, flagProjectOf } from '../lib/flag-project.ts'
import { printable } from '../lib/output.ts'
import { parseYaml, yamlText } from '../lib/yaml.ts'
import { FLAGS_FILE_BYTES_MAX, PLAN_FLIPS_SHOWN_MAX } from '../limits.ts'

/** The exit code of a plan that changes something. It is not 2, which stands for wrong usage. */
const CHANGES = 3
const NOTHING = 0
const FAILED = 1
/** A plan has this member, and a file with flags does not. The value is the version of the format of plans. */
const PLAN_MARK = 'tenrec_flag_plan'
const PLAN_VERSION = 1

const PLACE_OPTIONS: OptionTexts = { ...PROJECT_OPTION, ...DAEMON_OPTIONS }
const SAMPLE_OPTION: OptionTexts = {
  '--sample N': `Maximum number of persons or groups to evaluate, at most ${REHEARSAL_SAMPLE_MAX}. 0 leaves the numbers out. Default: ${REHEARSAL_SAMPLE_USUAL}.`,
}
const JSON_OPTION: OptionTexts = { '--json': 'Print the plan as one JSON object.' }

/** The commands about flags in files. */
export const COMMANDS: Commands = [
  {
    name: 'flag pull',
    sentence: 'Print all feature flags of a project as a file in YAML.',
    options: {
      '--out FILE': 'Write the file instead. A name that ends in .json gets JSON.',
      '--json': 'Print JSON.',
      ...PLACE_OPTIONS,
    },
    run: pull,
  },
  {
    name: 'flag plan',
    sentence:
      'Print what changes if the flags are set to the state in files, and how many persons get another value. The exit code is 3 if anything changes.',
    operands: ['FILE', '...'],
    options: {
      '--out PLAN': 'Write the plan to a file for `flag apply`.',
      ...SAMPLE_OPTION,
      ...JSON_OPTION,
      ...PLACE_OPTIONS,
    },
    run: plan,
  },
  {
    name: 'flag apply',
    sentence:
      'Change flags exactly as a plan says: all or none of them. A file with flags is planned first, and applied after a confirmation.',
    operands: ['PLAN'],
    options: {
      '--yes':
        'Do not ask for confirmation. Required without a terminal, if PLAN is a file with flags.',
      ...SAMPLE_OPTION,
      ...PLACE_OPTIONS,
    },
    run: apply,
  },
  {
    name: 'flag rehearse',
    sentence:
      'Print how many persons have each value of the flags in files, before and after the change.',
    operands: ['FILE', '...'],
    options: { ...SAMPLE_OPTION, ...JSON_OPTION, ...PLACE_OPTIONS },
    run: rehearse,
  },
  {
    name: 'flag schema',
    sentence: 'Print the JSON schema of a file with flags.',
    run(input) {
      input.io.out(`${JSON.stringify(publishedFlagsSchema(), null, 2)}\n`)
      return NOTHING
    },
  },
]

async function pull(input: CommandInput): Promise<number> {
  const out = input.text('out')
  const flags = await flagProjectOf(input).pull()
  const isJson = input.has('json') || out?.endsWith('.json') === true
  const text = isJson ? `${JSON.stringify({ flags }, null, 2)}\n` : await yamlText({ flags })
  if (out === undefined) input.io.out(text)
  else {
    write(out, text)
    input.io.err(`Wrote ${flags.length} flags to ${out}.\n`)
  }
  return NOTHING
}

async function plan(input: CommandInput): Promise<number> {
  const flags = await flagsIn(input.operands)
  const answer = await flagProjectOf(input).plan(flags, sampleOf(input))
  const out = input.text('out')
  if (input.has('json')) input.io.out(`${JSON.stringify(answer)}\n`)
  else for (const line of planLines(answer)) input.io.out(`${printable(line)}\n`)
  if (answer.faults.length > 0) return FAILED
  if (out !== undefined) {
    const versions = versionsOf(answer)
    const content = { [PLAN_MARK]: PLAN_VERSION, project: input.projectId, versions, flags }
    write(out, `${JSON.stringify(content, null, 2)}\n`)
  }
  return changesOf(answer).length === 0 ? NOTHING : CHANGES
}

async function apply(input: CommandInput): Promise<number> {
  const { operand, io } = input
  const content = await contentOf(operand)
  const project = flagProjectOf(input)
  const shown = isObject(content) && Object.hasOwn(content, PLAN_MARK) ? content : null
  const wanted = shown === null ? await planned(input, project, content) : shownPlan(input, shown)
  if (wanted === null) return FAILED
  const { flags, versions } = wanted
  const count = Object.keys(versions).length
  if (count > 0) await project.apply(flags, versions)
  io.err(count === 0 ? 'There is nothing to change.\n' : `Changed ${count} flags.\n`)
  return NOTHING
}

async function rehearse(input: CommandInput): Promise<number> {
  const flags = await flagsIn(input.operands)
  const answer = await flagProjectOf(input).plan(flags, sampleOf(input))
  if (input.has('json')) input.io.out(`${JSON.stringify(answer)}\n`)
  else for (const line of rehearsalLines(answer)) input.io.out(`${printable(line)}\n`)
  return answer.faults.length > 0 ? FAILED : NOTHING
}

interface Wanted {
  readonly flags: readonly JsonObject[]
  readonly versions: JsonObject
}

/** Reads a plan that `flag plan --out` wrote. */
function shownPlan(input: CommandInput, content: JsonObject): Wanted {
  const { project, versions, [PLAN_MARK]: mark } = content
  if (mark !== PLAN_VERSION || !isObject(versions)) {
    throw new OperatorError(
      `${input.operand} is a plan of another version. Make a new plan with 'tenrec flag plan'.`,
    )
  }
  if (project !== input.projectId) {
    throw new UsageError(
      `${input.operand} is a plan for project ${String(project)}. Give --project ${String(project)}.`,
    )
  }
  return { flags: readFlagsFile({ flags: content['flags'] }, input.operand), versions }
}

/** Plans a file with flags, shows the plan and asks for confirmation. Returns null if it must not be applied. */
async function planned(
  input: CommandInput,
  project: FlagProject,
  content: unknown,
): Promise<Wanted | null> {
  const { io, operand } = input
  const flags = readFlagsFile(content, operand)
  const answer = await project.plan(flags, sampleOf(input))
  for (const line of planLines(answer)) io.out(`${printable(line)}\n`)
  if (answer.faults.length > 0) return null
  const versions = versionsOf(answer)
  if (Object.keys(versions).length > 0 && !input.has('yes')) {
    if (io.ask === undefined) throw new UsageError('Give --yes to apply without a confirmation.')
    const said = await io.ask('Apply this plan? Type yes: ')
    if (said.trim() !== 'yes') throw new OperatorError('Nothing was changed.')
  }
  return { flags, versions }
}

function sampleOf(input: CommandInput): number {
  const text = input.text('sample')
  if (text === undefined) return REHEARSAL_SAMPLE_USUAL
  if (/^\d{1,6}$/.test(text) && Number(text) <= REHEARSAL_SAMPLE_MAX) return Number(text)
  throw new UsageError(`--sample must be a whole number from 0 to ${REHEARSAL_SAMPLE_MAX}.`)
}

/** Reads the flags of all files. Throws `OperatorError` and `UsageError`. */
async function flagsIn(paths: readonly string[]): Promise<readonly JsonObject[]> {
  const flags: JsonObject[] = []
  for (const path of paths) flags.push(...readFlagsFile(await contentOf(path), path))
  requireOwnKeys(flags, 'the files')
  return flags
}

async function contentOf(path: string): Promise<unknown> {
  let text: string
  try {
    const { size } = statSync(path)
    if (size > FLAGS_FILE_BYTES_MAX) {
      throw new OperatorError(`${path} has more than ${FLAGS_FILE_BYTES_MAX} bytes. Divide it.`)
    }
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    if (cause instanceof OperatorError) throw cause
    throw new OperatorError(`Cannot read ${path}: ${reasonOf(cause)}.`, { cause })
  }
  if (!path.endsWith('.json')) return parseYaml(text, path)
  const value = parseExactJson(text)
  if (value === undefined) throw new OperatorError(`${path} is not valid JSON.`)
  return value
}

function write(path: string, text: string): void {
  try {
    writeFileSync(path, text)
  } catch (cause) {
    throw new OperatorError(`Cannot write ${path}: ${reasonOf(cause)}.`, { cause })
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
}

function changesOf({ flags }: PlanAnswer): readonly PlanRow[] {
  return flags.filter(({ action }) => action !== 'none')
}

function versionsOf(answer: PlanAnswer): JsonObject {
  return Object.fromEntries(changesOf(answer).map(({ key, version }) => [key, version]))
}

function planLines(answer: PlanAnswer): readonly string[] {
  const { flags, faults } = answer
  const count = (action: PlanRow['action']): number =>
    flags.filter((flag) => flag.action === action).length
  return [
    ...changesOf(answer).flatMap((row) => [
      headOf(row),
      ...row.changes.map((sentence) => `  ${sentence}`),
      ...(row.effect === null ? [] : [`  ${effectText(row)}`]),
      '',
    ]),
    ...faultLines(answer),
    `${count('create')} to create, ${count('update')} to update, ${count('delete')} to delete, ${count('none')} unchanged${faults.length === 0 ? '' : `, ${faults.length} not possible`}.`,
  ]
}

function rehearsalLines(answer: PlanAnswer): readonly string[] {
  return [
    ...changesOf(answer).flatMap((row) => {
      const { effect } = row
      if (effect === null) return [headOf(row), '']
      const flips = effect.flips.slice(0, PLAN_FLIPS_SHOWN_MAX)
      return [
        headOf(row),
        `  ${effectText(row)}`,
        ...effect.values.map(
          ({ value, before, after }) =>
            `  ${valueText(value)}: ${amount(before)} before, ${amount(after)} after`,
        ),
        ...flips.map(({ from, to, count }) => {
          return `  from ${valueText(from)} to ${valueText(to)}: ${amount(count)}`
        }),
        '',
      ]
    }),
    ...faultLines(answer),
    ...(changesOf(answer).length + answer.faults.length === 0 ? ['Nothing changes.'] : []),
  ]
}

function faultLines({ faults }: PlanAnswer): readonly string[] {
  return faults.flatMap(({ key, detail }) => [`${key}: not possible`, `  ${detail}`, ''])
}

function headOf({ key, action, version }: PlanRow): string {
  return `${key}: ${action}${version === null ? '' : ` version ${version}`}`
}

function effectText({ effect }: PlanRow): string {
  if (effect === null) return ''
  const { sampled, total, changed, failed, group_type_index: index } = effect
  const noun = index === null ? 'persons' : 'groups'
  const failures = failed === 0 ? '' : ` ${amount(failed)} could not be evaluated.`
  if (sampled === total) {
    return `${amount(changed)} of ${amount(total)} ${noun} get another value.${failures}`
  }
  const about = sampled === 0 ? 0 : Math.round((changed / sampled) * total)
  return `About ${amount(about)} of ${amount(total)} ${noun} get another value: ${amount(changed)} of ${amount(sampled)} that were evaluated.${failures}`
}

function valueText(value: string | boolean): string {
  return typeof value === 'string' ? value : value ? 'on' : 'off'
}

function amount(count: number): string {
  return count.toLocaleString('en-US')
}
