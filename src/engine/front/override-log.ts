/**
 * Writes flag overrides to the log as commands. With an override, a person keeps the same variant after login
 * (experience continuity, store/identity/flag-overrides.ts). Overrides are in the log so that they are applied in order
 * with events and merges. Decisions do not wait for the log, because the decision that creates an override has the same
 * result as a later decision that reads it.
 */
import type { Clock } from '../../base/clock.ts'
import type { ServiceError } from '../../base/errors.ts'
import { writeUuidV7 } from '../../base/ids.ts'
import { SYSTEM_ACTOR } from '../../rules/access/user.ts'
import { ParsedEvents, RECORD_COMMAND } from '../../rules/capture/log-block.ts'
import { commandText } from '../../rules/persons/logged-command.ts'
import type { OverrideRequest, OverrideSink } from './decisions.ts'
import type { GroupCommit } from './group-commit.ts'
import { OVERRIDES_RECENT_MAX } from './limits.ts'

/**
 * The same override is written at most once in this time, in milliseconds. By then, processing should have stored it.
 */
const RECENT_MS = 10_000

/** The dependencies of the log of overrides. */
export interface OverrideLogOptions {
  readonly groupCommit: Pick<GroupCommit, 'add'>
  readonly clock: Clock
  /** Returns the error with which writes are refused at the moment, or null if they are possible. */
  readonly refusal: () => ServiceError | null
}

/** Writes overrides to the log. */
export class OverrideLog implements OverrideSink {
  readonly #options: OverrideLogOptions
  #recent = new Map<string, number>()

  constructor(options: OverrideLogOptions) {
    this.#options = options
  }

  /** Writes an override to the log. Throws the error of `refusal` if nothing can be written. */
  add(projectId: number, request: OverrideRequest): void {
    const { groupCommit, clock, refusal } = this.#options
    const name = JSON.stringify([projectId, request])
    const nowMs = clock.now()
    const writtenAtMs = this.#recent.get(name)
    if (writtenAtMs !== undefined && nowMs - writtenAtMs < RECENT_MS) return
    const refused = refusal()
    if (refused !== null) throw refused
    const uuid = new Uint8Array(16)
    writeUuidV7(uuid, 0, nowMs)
    const command = { kind: 'set_flag_overrides', ...request } as const
    const text = commandText({ actor: SYSTEM_ACTOR, command, at: nowMs })
    const header = {
      projectId,
      flags: RECORD_COMMAND,
      arrivedAtMs: nowMs,
      sentAtMs: Number.NaN,
      address: '',
    }
    if (this.#recent.size >= OVERRIDES_RECENT_MAX) this.#recent = new Map()
    this.#recent.set(name, nowMs)
    groupCommit.add(header, new ParsedEvents([text], [uuid]), {
      acknowledge: (error) => {
        if (error !== null) this.#recent.delete(name)
      },
    })
  }
}
