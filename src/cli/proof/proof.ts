/**
 * `tenrec prove-durability`: tests whether this machine and its disk keep acknowledged events. It works only in an
 * empty directory chosen by the operator. See docs/OPERATIONS.md, "Proving durability".
 */
import { randomBytes, randomInt } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { OperatorError, UsageError } from '../../base/errors.ts'
import { type DiskSpeed, measureDisk } from '../doctor/doctor-disk-speed.ts'
import { type CommandInput, type CommandIo, type Commands, JSON_OPTION } from '../lib/command.ts'
import { print } from '../lib/output.ts'
import {
  PROOF_CONNECTIONS_MAX,
  PROOF_KILLS_MAX,
  PROOF_SECONDS_MAX,
  PROOF_SEED_MAX,
} from '../limits.ts'
import { type KillOutcome, killAndCompare } from './kill-rounds.ts'
import { ChildLauncher, ownProgram } from './proof-daemon.ts'
import { reportOf, verdictOf } from './proof-report.ts'

const KILLS_DEFAULT = 20
const SECONDS_DEFAULT = 2
const CONNECTIONS_DEFAULT = 8
const DURABILITIES = ['fsync', 'commit'] as const

const PROBLEMS_FOUND = 3

/** The note in the report that says what a passed proof does not show. */
const SCOPE =
  '\nThis test killed the daemon, not the machine. To survive a power failure, the disk must also keep the\nwrites that it has confirmed. See disk_flush_p50_ms, and "Proving durability" in docs/OPERATIONS.md.\n'

/** `tenrec prove-durability`. */
export const COMMANDS: Commands = [
  {
    name: 'prove-durability',
    sentence:
      'Start a daemon in an empty directory, kill it repeatedly under load, and count lost and duplicated events. The exit code is 3 if there are any.',
    options: {
      '--data-dir DIR': {
        sentence: 'An empty directory on the disk to test, or one that does not exist.',
        isRequired: true,
      },
      '--kills NUMBER': 'Number of kills. Default: 20.',
      '--seconds NUMBER': 'Maximum time in seconds under load before a kill. Default: 2.',
      '--connections NUMBER': 'Number of connections that send events. Default: 8.',
      '--durability LEVEL': {
        sentence: 'Setting durability of the daemon: fsync or commit. Default: fsync.',
        choices: DURABILITIES,
      },
      '--seed NUMBER':
        'Seed for the random moments of the kills. Default: a new seed for each run.',
      '--keep': 'Keep the data in the directory. It is always kept if events are lost.',
      ...JSON_OPTION,
    },
    settings: [],
    run: (input) => prove(input),
  },
]

async function prove(input: CommandInput): Promise<number> {
  const { io } = input
  const plan = planOf(input)
  const { dataDir, isNew } = plan
  const startedAtMs = io.clock.now()
  const startedAt = io.clock.monotonic()
  let isStopped = false
  const forget = io.onStopSignal(() => {
    isStopped = true
  })
  try {
    const disk = measure(io, dataDir)
    const outcome = await kill(io, plan, () => isStopped)
    requireProof(outcome)
    const report = reportOf({
      ...plan,
      outcome,
      disk,
      startedAtMs,
      elapsedMs: io.clock.monotonic() - startedAt,
    })
    print(io, report, input.isJson)
    const hasPassed = verdictOf(outcome) === 'passed'
    if (!input.isJson) io.out(SCOPE)
    if (hasPassed && !input.has('keep')) clear(dataDir, isNew)
    else io.err(`The data is in ${dataDir}.\n`)
    return hasPassed ? 0 : PROBLEMS_FOUND
  } catch (error) {
    if (error instanceof OperatorError) io.err(`The data is in ${dataDir}.\n`)
    throw error
  } finally {
    forget()
  }
}

interface Plan {
  readonly dataDir: string
  /** True if the command created the directory. */
  readonly isNew: boolean
  readonly kills: number
  readonly seconds: number
  readonly connections: number
  readonly durability: (typeof DURABILITIES)[number]
  readonly seed: number
}

/** Reads the options and creates the directory. Throws `UsageError` and `OperatorError`. */
function planOf(input: CommandInput): Plan {
  const durability = input.text('durability') ?? 'fsync'
  const known = DURABILITIES.find((name) => name === durability)
  if (known === undefined) {
    throw new UsageError(`--durability must be one of ${DURABILITIES.join(', ')}.`)
  }
  const options = {
    kills: bounded(input, 'kills', KILLS_DEFAULT, PROOF_KILLS_MAX),
    seconds: bounded(input, 'seconds', SECONDS_DEFAULT, PROOF_SECONDS_MAX),
    connections: bounded(input, 'connections', CONNECTIONS_DEFAULT, PROOF_CONNECTIONS_MAX),
    seed: bounded(input, 'seed', randomInt(1, PROOF_SEED_MAX), PROOF_SEED_MAX),
    durability: known,
  }
  const dataDir = resolve(input.text('data-dir') ?? '')
  return { ...options, dataDir, isNew: requireEmpty(dataDir) }
}

function bounded(input: CommandInput, name: string, byDefault: number, max: number): number {
  const value = input.id(name, byDefault)
  if (value <= max) return value
  throw new UsageError(`--${name} must be at most ${max}, but it is ${value}.`)
}

/** Makes sure that a directory exists and is empty, and returns whether it was created. Throws `OperatorError`. */
function requireEmpty(path: string): boolean {
  try {
    if (!existsSync(path)) {
      mkdirSync(path, { recursive: true, mode: 0o700 })
      return true
    }
    const isEmpty = statSync(path).isDirectory() && readdirSync(path).length === 0
    if (isEmpty) return false
  } catch (cause) {
    throw new OperatorError(`${path} cannot be used: ${String(cause)}.`, { cause })
  }
  throw new OperatorError(
    `${path} is not an empty directory. Name a directory that is empty or does not exist, such as ${join(path, 'proof')}.`,
  )
}

/** Removes everything that the proof created. */
function clear(dataDir: string, isNew: boolean): void {
  if (isNew) rmSync(dataDir, { recursive: true, force: true })
  else for (const name of readdirSync(dataDir)) rmSync(join(dataDir, name), { recursive: true })
}

/** Measures the disk. Throws `OperatorError`. */
function measure({ clock }: CommandIo, dataDir: string): DiskSpeed {
  try {
    return measureDisk(dataDir, clock)
  } catch (cause) {
    throw new OperatorError(`${dataDir} cannot be written: ${String(cause)}.`, { cause })
  }
}

async function kill(io: CommandIo, plan: Plan, isStopped: () => boolean): Promise<KillOutcome> {
  const projectKey = `phc_${randomBytes(20).toString('hex')}`
  const personalKey = `phx_${randomBytes(20).toString('hex')}`
  const launcher = new ChildLauncher({
    program: await ownProgram(),
    words: [
      '--data-dir',
      plan.dataDir,
      '--host',
      '127.0.0.1',
      '--port',
      '0',
      '--durability',
      plan.durability,
      '--log-format',
      'json',
      '--log-level',
      'info',
    ],
    environment: {
      ...environmentOf(io),
      TENREC_BOOTSTRAP_PROJECT_KEY: projectKey,
      TENREC_BOOTSTRAP_PERSONAL_KEY: personalKey,
    },
    clock: io.clock,
  })
  return killAndCompare({
    ...plan,
    launcher,
    projectKey,
    personalKey,
    isStopped,
    clock: io.clock,
    onKill(number, moment, acknowledgedCount) {
      const when = moment.replaceAll('_', ' ')
      const count = acknowledgedCount.toLocaleString('en')
      io.err(`Kill ${number} of ${plan.kills}, ${when}: ${count} events acknowledged so far.\n`)
    },
  })
}

/**
 * Returns the environment without variables that contain settings or come from a service manager, so that only the
 * options of the proof apply.
 */
function environmentOf({ environment }: CommandIo): Record<string, string | undefined> {
  const kept = Object.entries(environment).filter(
    ([name]) => !/^(TENREC_|NOTIFY_SOCKET$|WATCHDOG_|JOURNAL_STREAM$)/.test(name),
  )
  return Object.fromEntries(kept)
}

/** Throws `OperatorError` if there were no kills or no acknowledged events, because such a proof shows nothing. */
function requireProof({ acknowledgedCount, moments }: KillOutcome): void {
  const kills = Object.values(moments).reduce((sum, count) => sum + count, 0)
  if (kills > 0 && acknowledgedCount > 0) return
  throw new OperatorError(
    `The run proves nothing, with ${kills} kills and ${acknowledgedCount} acknowledged events. Repeat it with more --kills or --seconds.`,
  )
}
