/**
 * Releases ranges of a file to the file system. Such ranges read as zeros and take no disk space until they are written
 * again. Node.js has no function for this, so another program is started. `perl` calls fallocate(2) for all ranges.
 * Without `perl`, the program `fallocate` of util-linux is started once for each range.
 *
 * If this process is killed while the program runs, a new daemon could write to a range before the program releases it.
 * The program therefore inherits a descriptor that holds the lock on the data directory. So no other process can open
 * the store while the program runs. `perl` also stops before the next range if this process has ended.
 */
import { spawnSync } from 'node:child_process'
import { HOLE_PUNCH_MS_MAX } from './limits.ts'

/** A range of bytes in a file. */
export interface FileRange {
  readonly offset: number
  readonly bytes: number
}

/** The reason why some ranges were not released. `isUnsupported` is true if a retry cannot succeed on this machine. */
export interface PunchFailure {
  readonly reason: string
  readonly isUnsupported: boolean
}

/**
 * The number of the system call fallocate(2) for each processor type. Source: the Linux files arch/x86/entry/syscalls
 * and asm-generic/unistd.h.
 */
const FALLOCATE_CALLS: Readonly<Record<string, number>> = { x64: 285, arm64: 47 }
/** The flags FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of fallocate(2). */
const PUNCH_HOLE = 3
const FILE_DESCRIPTOR = 3
/**
 * A Perl program that releases the ranges that it reads from its input, in lines of the form `OFFSET BYTES`. Its
 * arguments are the number of the system call and the process id of this process. If this process has ended, the
 * program ends too.
 */
const PERL = `
while (<STDIN>) {
  exit 0 if getppid() != $ARGV[1];
  my ($offset, $bytes) = split;
  syscall($ARGV[0] + 0, ${FILE_DESCRIPTOR}, ${PUNCH_HOLE}, $offset + 0, $bytes + 0) == 0 or die "$!\\n";
}`
const USUAL_PATH = '/usr/bin:/bin:/usr/sbin:/sbin'
/**
 * Matches error messages which say that the file system or the program does not support the call. The messages come
 * from strerror(3), `perl` and `fallocate`.
 */
const UNSUPPORTED = /not supported|unsupported|not implemented|unrecognized option|invalid option/i

/**
 * Releases ranges of the file `descriptor`. Each range must begin and end at the boundary of a page. `lockDescriptor`
 * holds the lock that keeps other processes from writing to the file. Returns null on success. After a failure, some
 * ranges may have been released. The call takes a few milliseconds.
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
        reason: 'neither `perl` nor `fallocate` was found, install util-linux',
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
