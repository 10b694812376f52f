/** The error that is thrown during a decision if a flag cannot be computed. It becomes the outcome of the flag. */
import type { DecisionReason } from './types.ts'

/** Thrown when the flag that is being evaluated cannot be computed. */
export class EvaluationFailure extends Error {
  readonly reason: DecisionReason

  constructor(reason: DecisionReason) {
    super(reason)
    this.reason = reason
  }
}
