/** `tenrec verify`: checks all data of a store, whether or not a daemon runs. */
import { type VerifyFinding, verifyStore } from '../../store/maintenance/verify/verify-store.ts'
import { type CommandInput, type Commands, JSON_OPTION } from '../lib/command.ts'
import { print, printable } from '../lib/output.ts'
import { withProgress } from '../lib/progress.ts'

/** The exit code for damaged data. Source: docs/OPERATIONS.md, "Exit codes". */
export const PROBLEMS_FOUND = 3

/** `tenrec verify`. */
export const COMMANDS: Commands = [
  {
    name: 'verify',
    sentence:
      'Check every page and every record of the store, even while the daemon runs. The exit code is 3 if the store is damaged.',
    options: JSON_OPTION,
    run: (input) => verifyAndReport(input),
  },
]

/**
 * Checks the store and prints the findings. Returns the exit code: 0 if it is sound, 3 if it is damaged. `silentIfSound`
 * prints nothing about a sound store.
 */
export async function verifyAndReport(
  { io, dataDir, isJson }: CommandInput,
  silentIfSound = false,
): Promise<number> {
  const startedAtMs = io.clock.monotonic()
  const report = await withProgress(io, 'verify', (progress) =>
    verifyStore(dataDir, (bytes) => progress.update(bytes)),
  )
  const { findings, entries, bytes, pages } = report
  const isSound = findings.length === 0
  if (isSound && silentIfSound) return 0
  const elapsedMs = Math.round(io.clock.monotonic() - startedAtMs)
  if (isJson) {
    const row = { is_sound: isSound, entries, bytes, pages, elapsed_ms: elapsedMs }
    print(io, { ...row, findings }, true)
  } else {
    for (const finding of findings) io.out(`${describe(finding)}\n`)
    const verdict = isSound
      ? 'The store is sound'
      : `The store is damaged: ${findings.length} findings`
    io.out(`${verdict} (${entries} records, ${pages} pages, ${elapsedMs} ms).\n`)
  }
  return isSound ? 0 : PROBLEMS_FOUND
}

function describe({ file, where, what }: VerifyFinding): string {
  return printable(`${file}: ${where}: ${what}`)
}
