/**
 * Gives ranges of a file back to the file system: they read as zeros and take no room on the disk until they are
 * written again. Node cannot do that, so a program does: `perl` calls fallocate(2) for all ranges, else `fallocate` of
 * util-linux is started for each of them.
 *
 * The program must not outlive this process unseen: a new daemon could write to a range that the program is about to
 * give back. So it inherits a descriptor that holds the lock on the data directory. While the program runs, no other
 * process can open the store. `perl` also ends before the next range once this process is gone.
 */
import { spawnSync } from 'node:child_process'
import { HOLE_PUNCH_MS_MAX } from './limits.ts'

/** Bytes of a file. */
export interface FileRange {
  readonly offset: number
  readonly bytes: number
}

/** Why ranges were not given back. `isUnsupported`: it will never work here. */
export interface PunchFailure {
  readonly reason: string
  readonly isUnsupported: boolean
}

/** The number of the system call fallocate(2) by processor. Source: arch/x86/entry/syscalls, asm-generic/unistd.h. */
const FALLOCATE_CALLS: Readonly<Record<string, number>> = { x64: 285, arm64: 47 }
/** FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE. */
const PUNCH_HOLE = 3
const FILE_DESCRIPTOR = 3
/** Reads `OFFSET BYTES` lines; the arguments are the system call and the process that must be there. */
const PERL = `
while (<STDIN>) {
  exit 0 if getppid() != $ARGV[1];
  my ($offset, $bytes) = split;
  syscall($ARGV[0] + 0, ${FILE_DESCRIPTOR}, ${PUNCH_HOLE}, $offset + 0, $bytes + 0) == 0 or die "$!\\n";
}`
const USUAL_PATH = '/usr/bin:/bin:/usr/sbin:/sbin'
/** As strerror(3) and the two programs say that the file system, or the program, cannot do it. */
const UNSUPPORTED = /not supported|unsupported|not implemented|unrecognized option|invalid option/i

/**
 * Gives ranges of the file `descriptor` back, which begin and end at a page. `lockDescriptor` holds the lock that
 * keeps other processes from writing to the file. Null: it is done. A failure may leave some ranges given back. Cost:
 * some milliseconds.
 */
export function punchHoles(
  descriptor: number,
  ranges: readonly FileRange[],
  lockDescriptor: number,
): PunchFailure | null {
  const call = FALLOCATE_CALLS[process.arch]
  if (call !== undefined) {
    const lines = ranges.map(({ offset, bytes }) => `${offset} ${bytes}\n`).join('')
    const words = ['-e', PERL, String(call), String(process.pid)]
    const outcome = run('perl', words, lines, descriptor, lockDescriptor)
    if (outcome !== 'missing') return outcome
  }
  for (const { offset, bytes } of ranges) {
    const file = `/proc/self/fd/${FILE_DESCRIPTOR}`
    const words = ['--punch-hole', '--offset', String(offset), '--length', String(bytes), file]
    const outcome = run('fallocate', words, '', descriptor, lockDescriptor)
    if (outcome === 'missing') {
      return {
        reason: "neither 'perl' nor 'fallocate' is there: install util-linux",
        isUnsupported: true,
      }
    }
    if (outcome !== null) return outcome
  }
  return null
}

function run(
  name: string,
  words: readonly string[],
  input: string,
  descriptor: number,
  lockDescriptor: number,
): PunchFailure | null | 'missing' {
  const { error, status, stderr } = spawnSync(name, words, {
    input,
    stdio: ['pipe', 'ignore', 'pipe', descriptor, lockDescriptor],
    env: { PATH: process.env['PATH'] ?? USUAL_PATH, LC_ALL: 'C' },
    timeout: HOLE_PUNCH_MS_MAX,
    killSignal: 'SIGKILL',
    encoding: 'utf8',
  })
  if (error !== undefined && 'code' in error && error.code === 'ENOENT') return 'missing'
  if (status === 0) return null
  const complaint = stderr?.trim() || (error?.message ?? '')
  const reason = `${name}: ${complaint || `ended with ${status}`}`
  return { reason, isUnsupported: UNSUPPORTED.test(complaint) }
}
