/** The results of the checks of `tenrec doctor`. */

/** The verdict of a check. `problem` makes the command end with exit code 3. */
export type Verdict = 'ok' | 'warning' | 'problem'

/** The outcome of one check. If the verdict is not `ok`, the message says what to do. */
export interface Finding {
  /** Name of the check in snake_case, such as `file_system`. */
  readonly check: string
  readonly verdict: Verdict
  readonly message: string
}

/** Creates a finding that requires no action. */
export function fine(check: string, message: string): Finding {
  return { check, verdict: 'ok', message }
}

/** Creates a finding that the operator should examine. */
export function warning(check: string, message: string): Finding {
  return { check, verdict: 'warning', message }
}

/** Creates a finding that prevents the daemon from running safely. */
export function problem(check: string, message: string): Finding {
  return { check, verdict: 'problem', message }
}

/** The findings of one call of `tenrec doctor`, in order. */
export class Findings {
  readonly all: Finding[] = []

  /**
   * Adds the findings of a check. If the check throws an error, the error becomes a problem with the name of the check.
   */
  async add(
    check: string,
    look: () => readonly Finding[] | Promise<readonly Finding[]>,
  ): Promise<void> {
    try {
      this.all.push(...(await look()))
    } catch (error) {
      this.all.push(problem(check, error instanceof Error ? error.message : String(error)))
    }
  }
}

/** Formats bytes for people, such as `12.5 GiB`. */
export function bytesText(bytes: number): string {
  const gibibytes = bytes / 1024 ** 3
  if (gibibytes >= 1) return `${gibibytes.toFixed(1)} GiB`
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`
}
