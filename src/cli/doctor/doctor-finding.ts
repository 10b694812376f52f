/** What a check of `tenrec doctor` says. */

/** How a check ended: only a problem makes the command end with 3. */
export type Verdict = 'ok' | 'warning' | 'problem'

/** The outcome of one check: one sentence, which for anything but `ok` tells what to do. */
export interface Finding {
  /** What was looked at, in snake_case: `file_system`. */
  readonly check: string
  readonly verdict: Verdict
  readonly message: string
}

/** A finding that asks for nothing. */
export function fine(check: string, message: string): Finding {
  return { check, verdict: 'ok', message }
}

/** A finding that somebody should look at. */
export function warning(check: string, message: string): Finding {
  return { check, verdict: 'warning', message }
}

/** A finding that keeps the daemon from running safely. */
export function problem(check: string, message: string): Finding {
  return { check, verdict: 'problem', message }
}

/** The findings of a run, in their order. */
export class Findings {
  readonly all: Finding[] = []

  /** Adds those of a check; what it throws becomes a problem with that name. */
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

/** Bytes for people: `12.5 GiB`. */
export function bytesText(bytes: number): string {
  const gibibytes = bytes / 1024 ** 3
  if (gibibytes >= 1) return `${gibibytes.toFixed(1)} GiB`
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`
}
