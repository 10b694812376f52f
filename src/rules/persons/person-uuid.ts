/** The uuid that a person has when it is made from a distinct_id, and that events without a person carry. */
import { uuidV5 } from '../../base/ids.ts'

const NAMESPACE = '932979b4-65c3-4424-8467-0b66ec27bc22'
/** A uuid of version 5. */
const DERIVED = /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i

/**
 * The deterministic person uuid of a distinct_id in a project, as text. About 2 us.
 * Source: docs/compatibility/persons.md, "Person uuid".
 */
export function personUuid(projectId: number, distinctId: string): string {
  return uuidV5(NAMESPACE, `${projectId}:${distinctId}`)
}

/**
 * The uuid of a person whose distinct_id once gave its uuid to another person, now deleted or split. It
 * comes out the same when the log is replayed and cannot be that of any distinct_id: those hold no NUL.
 */
export function laterPersonUuid(projectId: number, distinctId: string, number: number): string {
  return uuidV5(NAMESPACE, `${projectId}:${distinctId}\u0000${number}`)
}

/** Whether a text looks like the uuid of a distinct_id. */
export function isPersonUuid(text: string): boolean {
  return DERIVED.test(text)
}
