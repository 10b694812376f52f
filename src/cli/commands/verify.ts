/** `tenrec verify`. */
import { type VerifyFinding, verifyStore } from '../../store/care/verify/verify-store.ts'
import { type Command, type CommandIo, JSON_OPTION } from '../lib/command.ts'
import { printable } from '../lib/output.ts'
import { Progress } from '../lib/progress.ts'

/** The exit code for what is damaged. Source: docs/OPERATIONS.md, "Exit codes". */
export const PROBLEMS_FOUND = 3

/** `tenrec verify`. */
export const VERIFY: Command = {
  name: 'verify',
  sentence: 'Check every page and every record of the store; the daemon may run meanwhile.',
  operands: [],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    return verifyAndReport(input.io, input.settings().dataDir, input.options.has('json'))
  },
}

/** Checks a store and prints what was found; answers the exit code: 0 sound, 3 damaged. */
export async function verifyAndReport(
  io: CommandIo,
  dataDir: string,
  isJson: boolean,
): Promise<number> {
  const startedAtMs = io.clock.monotonic()
  const progress = new Progress(io, 'verify', 'bytes')
  try {
    const report = await verifyStore(dataDir, (bytes) => progress.update(bytes, null))
    progress.finish()
    const { findings, entries, bytes, pages } = report
    const elapsedMs = Math.round(io.clock.monotonic() - startedAtMs)
    if (isJson) {
      const row = { is_sound: findings.length === 0, entries, bytes, pages, elapsed_ms: elapsedMs }
      io.out(`${JSON.stringify({ ...row, findings })}\n`)
    } else {
      for (const finding of findings) io.out(`${describe(finding)}\n`)
      const verdict = findings.length === 0 ? 'sound' : `damaged: ${findings.length} findings`
      io.out(`${verdict} (${entries} records, ${pages} pages, ${elapsedMs} ms)\n`)
    }
    return findings.length === 0 ? 0 : PROBLEMS_FOUND
  } finally {
    progress.finish()
  }
}

function describe({ file, where, what }: VerifyFinding): string {
  return printable(`${file}: ${where}: ${what}`)
}
