/** The report of a proof: what was found, and on which machine. */
import { arch, cpus, release, totalmem, type } from 'node:os'
import { VERSION } from '../../base/version.ts'
import { findMount } from '../doctor/doctor-data-dir.ts'
import type { DiskSpeed } from '../doctor/doctor-disk-speed.ts'
import { PROOF_EXAMPLES_MAX } from '../limits.ts'
import type { KillOutcome } from './kill-rounds.ts'

/** The outcome and further facts for the report. */
export interface ReportInput {
  readonly outcome: KillOutcome
  readonly disk: DiskSpeed
  /** The data directory. It must be an absolute path and exist. */
  readonly dataDir: string
  readonly durability: string
  readonly seed: number
  readonly seconds: number
  readonly connections: number
  readonly startedAtMs: number
  readonly elapsedMs: number
}

/** The result of a proof. It passed if all acknowledged events are stored exactly once and unchanged. */
type Verdict = 'passed' | 'failed'

/** Returns the report as a record. Users may rely on the names of its members. */
export function reportOf(input: ReportInput) {
  const { outcome, disk, dataDir } = input
  const mount = findMount(dataDir)
  const [cpu] = cpus()
  return {
    verdict: verdictOf(outcome),
    lost: outcome.lost.length,
    doubled: outcome.doubled.length,
    altered: outcome.altered.length,
    invented: outcome.inventedCount,
    acknowledged: outcome.acknowledgedCount,
    unanswered: outcome.unansweredCount,
    sent: outcome.sentCount,
    kills: Object.values(outcome.moments).reduce((sum, count) => sum + count, 0),
    kills_by_moment: outcome.moments,
    longest_recovery_ms: Math.round(outcome.longestRecoveryMs),
    ended_by_themselves: outcome.endedByThemselves,
    unexpected_answers: Object.fromEntries(outcome.unexpected),
    durability: input.durability,
    disk_flush_p50_ms: rounded(disk.p50Ms),
    disk_flush_p99_ms: rounded(disk.p99Ms),
    disk_flush_max_ms: rounded(disk.maxMs),
    file_system: mount?.type ?? 'unknown',
    mounted_from: mount?.source ?? 'unknown',
    mount_options: mount?.options ?? 'unknown',
    data_dir: dataDir,
    tenrec: VERSION,
    node: process.versions.node,
    kernel: `${type()} ${release()} ${arch()}`,
    cpu: `${cpus().length} x ${cpu?.model ?? 'unknown'}`,
    memory_bytes: totalmem(),
    seed: input.seed,
    seconds_before_a_kill: input.seconds,
    connections: input.connections,
    started_at: new Date(input.startedAtMs).toISOString(),
    duration_seconds: Math.round(input.elapsedMs / 1000),
    ...examplesOf(outcome),
  }
}

/** Returns whether all acknowledged events were kept. */
export function verdictOf({ lost, doubled, altered, inventedCount }: KillOutcome): Verdict {
  const faults = lost.length + doubled.length + altered.length + inventedCount
  return faults === 0 ? 'passed' : 'failed'
}

/** Returns the UUIDs of some lost, doubled and altered events. A kind without events is left out. */
function examplesOf({ lost, doubled, altered }: KillOutcome) {
  const examples = (name: string, uuids: readonly string[]) =>
    uuids.length === 0 ? {} : { [name]: uuids.slice(0, PROOF_EXAMPLES_MAX) }
  return {
    ...examples('lost_uuids', lost),
    ...examples('doubled_uuids', doubled),
    ...examples('altered_uuids', altered),
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000
}
