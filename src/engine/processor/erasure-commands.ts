/**
 * Carries out commands about the erasure of events and about retention, on the processing thread (see
 * command-runner.ts). An erasure becomes a job. The thread works on jobs when it is idle.
 */
import { timeText } from '../../base/time.ts'
import type { Actor } from '../../rules/access/user.ts'
import type { ErasureCommand, ErasureCriteria } from '../../rules/events/erasure.ts'
import {
  type ErasureSpan,
  type JobOrder,
  newJob,
  receiptOf,
} from '../../rules/events/erasure-job.ts'
import type { CommandResult } from '../../rules/persons/commands.ts'
import type { ProcessingWriter } from '../../store/events/write/processing-writer.ts'

/** The data with which one command about erasure is carried out. */
export interface ErasureStep {
  readonly persons: ReturnType<ProcessingWriter['persons']>
  readonly actor: Actor
  readonly atMs: number
  /** The sequence number of the project's newest event. The erasure does not apply to later events. */
  readonly lastSequence: number
}

const NO_CRITERIA: ErasureCriteria = {
  event: null,
  afterMs: null,
  beforeMs: null,
  distinctId: null,
  personId: null,
}

/** Carries out one command. The next commit stores its changes. */
export function runErasureCommand(step: ErasureStep, command: ErasureCommand): CommandResult {
  switch (command.kind) {
    case 'set_retention':
      step.persons.retention.set(command.rules)
      return { kind: 'done' }
    case 'finish_erasure':
      return finished(step, command.job)
    case 'erase_events':
      return eraseEvents(step, command.criteria)
    case 'run_retention':
      return added(step, {
        ...orderOf(step, NO_CRITERIA),
        origin: 'retention',
        rules: command.rules,
        oldestThrough: Math.min(command.oldestThrough, step.lastSequence),
        arrivedThroughMs: command.arrivedThroughMs,
      })
  }
}

/** Returns the job that erases the events of a deleted person. */
export function orderForPerson(
  step: ErasureStep,
  personId: string,
  ids: readonly ErasureSpan[],
): JobOrder {
  return { ...orderOf(step, { ...NO_CRITERIA, personId }), origin: 'person', ids }
}

function eraseEvents(step: ErasureStep, criteria: ErasureCriteria): CommandResult {
  const { event, afterMs, beforeMs } = criteria
  const ids = spansOf(step, criteria)
  if (ids === undefined) return { kind: 'not_found' }
  return added(step, { ...orderOf(step, criteria), ids, rules: [{ event, afterMs, beforeMs }] })
}

function orderOf({ actor, atMs, lastSequence }: ErasureStep, criteria: ErasureCriteria): JobOrder {
  return {
    origin: 'request',
    criteria,
    requestedBy: actor.email,
    requestedAt: timeText(atMs),
    ids: null,
    rules: [{ event: null, afterMs: null, beforeMs: null }],
    oldestThrough: 0,
    arrivedThroughMs: null,
    through: lastSequence,
  }
}

function finished({ persons, atMs }: ErasureStep, job: number): CommandResult {
  if (job > persons.counters.jobs) return { kind: 'not_found' }
  persons.doneJobs.add(job, timeText(atMs))
  return { kind: 'done' }
}

function added({ persons }: ErasureStep, order: JobOrder): CommandResult {
  const job = newJob(order)
  return { kind: 'done', erasure: receiptOf(persons.addJob(job), job) }
}

/**
 * Returns the distinct_ids whose events are erased. For each, only the events in a range of sequence numbers are
 * erased. Returns null to erase the events of all distinct_ids, and undefined if the person does not exist.
 */
function spansOf(
  { persons, lastSequence }: ErasureStep,
  { distinctId, personId }: ErasureCriteria,
): readonly ErasureSpan[] | null | undefined {
  const wanted = distinctId === null ? null : persons.ids.find(distinctId)
  if (personId === null) return wanted === null ? null : [[wanted, 0, lastSequence]]
  const person = persons.personByUuid(personId)
  if (person === null) return undefined
  return persons
    .idsOf(person)
    .filter((id) => wanted === null || id === wanted)
    .map((id) => [id, persons.owners.sinceOf(id), lastSequence])
}
