/**
 * The flags of one project, for the commands about flags in files. They are read from a data directory or, with
 * `--base-url`, from a daemon. The same rules apply to both.
 */
import { OperatorError } from '../../base/errors.ts'
import { type JsonObject, objectsOf } from '../../base/json.ts'
import { type PlanAnswer, planPiece, requirePlanned } from '../../engine/threads/flag-plans.ts'
import { bodyOfPortable, namesIn, portableFlag } from '../../rules/flags/edit/portable-flag.ts'
import type { FlagSet } from '../../rules/flags/types.ts'
import type { OpenStore } from '../../store/open-store.ts'
import type { CommandInput } from './command.ts'
import { DaemonClient } from './daemon-client.ts'
import { commandEntry, withStore } from './with-store.ts'

/** The user in the activity log. A command has no user, so the change is attributed to the system. */
const SYSTEM = { userId: 0, firstName: 'System', email: '' } as const

/** Reads and changes the flags of one project. */
export interface FlagProject {
  /** Returns all flags in the form of a file. */
  pull(): Promise<readonly JsonObject[]>
  /**
   * Plans the change of flags. `sampleMax` is the largest number of persons for whom the plan computes the effect. With
   * 0, the plan does not contain the effect.
   */
  plan(flags: readonly JsonObject[], sampleMax: number): Promise<PlanAnswer>
  /** Changes flags as a plan says: all or none of them. Throws if a flag has another version than in the plan. */
  apply(flags: readonly JsonObject[], versions: JsonObject): Promise<void>
}

/** Returns the project named in a command. Throws `OperatorError` and `UsageError`. */
export function flagProjectOf(input: CommandInput): FlagProject {
  return input.has('base-url') ? servedProject(new DaemonClient(input)) : storedProject(input)
}

function servedProject(client: DaemonClient): FlagProject {
  const path = `${client.projectPath}feature_flags/`
  return {
    async pull() {
      const { flags } = await client.ask('GET', `${path}file/`)
      return objectsOf(flags)
    },
    async plan(flags, sample) {
      // The cast is right: a daemon of a version without this route answers 404, and `ask` throws.
      return (await client.ask('POST', `${path}plan/`, { flags, sample })) as unknown as PlanAnswer
    },
    async apply(flags, versions) {
      await client.ask('POST', `${path}apply/`, { flags, versions })
    },
  }
}

function storedProject(input: CommandInput): FlagProject {
  const nowMs = input.io.clock.now()
  const open = <T>(isWriting: boolean, action: (store: OpenStore, set: FlagSet) => T): Promise<T> =>
    withStore(input, isWriting, (store) => action(store, setOf(store, input.projectId)), [
      'flags',
      'events',
    ])
  return {
    pull: () => open(false, (_, set) => set.flags.map((flag) => portableFlag(flag, set))),
    plan: (flags, sampleMax) =>
      open(false, ({ decisions, flags: stored }, set) => {
        const { projectId, timezone } = set
        const task = { projectId, timezone, nowMs, flags, sampleMax }
        const check = stored.checkFor(projectId)
        let piece = planPiece(task, set, decisions, check)
        while ('rest' in piece) piece = planPiece(task, set, decisions, check, piece.rest)
        return piece.answer
      }),
    apply: (wanted, versions) =>
      open(true, ({ flags }, set) => {
        const context = {
          projectId: set.projectId,
          actor: SYSTEM,
          nowMs,
          cohort: (id: number) => set.cohorts.get(id) ?? null,
          // The store adds the id of the flag to each entry.
          audit: { ...commandEntry(input, set.projectId), objectId: null },
        }
        flags.apply(
          context,
          (stored) => requirePlanned(wanted, versions, { ...set, flags: stored }, nowMs),
          (flag, flagNumber) => bodyOfPortable(flag, namesIn(set, flagNumber)).body,
        )
      }),
  }
}

function setOf({ organization, flags, decisions }: OpenStore, projectId: number): FlagSet {
  const project = organization.projects.project(projectId)
  if (project === null) {
    throw new OperatorError(
      `There is no project ${projectId}. Run 'tenrec project list' to see all projects.`,
    )
  }
  return {
    projectId,
    timezone: project.timezone,
    flags: flags.flags(projectId).flags,
    cohorts: decisions.cohorts(projectId),
    groupTypes: decisions.groupTypes(projectId),
  }
}
