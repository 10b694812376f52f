/** What is thrown inside of a decision when a flag cannot be computed; it becomes the flag's outcome. */
import type { DecisionReason } from './types.ts'

/** The flag that is being evaluated cannot be computed. */
export class EvaluationFailure extends Error {
  readonly reason: DecisionReason

  constructor(reason: DecisionReason) {
    super(reason)
    this.reason = reason
  }
}
