/**
 * Provides flock(2), which Node.js lacks. The lock belongs to an open file description, and a child process shares the
 * file descriptions of its parent. A child process (`flock` of util-linux or busybox, or else perl) therefore takes the
 * lock on a descriptor that it inherited, and ends. The lock then stays with this process until the descriptor is
 * closed or this process ends, for whatever reason. Node.js opens files with O_CLOEXEC, so later child processes do not
 * inherit the lock.
 *
 * Only folders are locked: unlike a lock file, a folder cannot be removed as long as it has contents. Taking a lock
 * takes about 3 ms.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, fstatSync, openSync, statSync } from 'node:fs'
import { OperatorError } from '../../base/errors.ts'
import { LOCK_SPAWN_MS_MAX } from './limits.ts'

/** The kinds of lock. An `exclusive` lock excludes all other locks. A `shared` lock excludes only exclusive ones. */
export type LockMode = 'exclusive' | 'shared'

/**
 * The programs that can take the lock. Each program locks file descriptor 3. If another process has the lock, the
 * program exits with 1 and prints nothing.
 */
const PROGRAMS: readonly { readonly name: string; readonly words: (mode: LockMode) => string[] }[] =
  [
    { name: 'flock', words: (mode) => ['-n', mode === 'exclusive' ? '-x' : '-s', '3'] },
    { name: 'perl', words: (mode) => ['-e', PERL, mode] },
  ]
const PERL = `use Fcntl ':flock';
open(my $folder, '<&=', 3) or die "$!\\n";
flock($folder, LOCK_NB | ($ARGV[0] eq 'shared' ? LOCK_SH : LOCK_EX)) or $!{EWOULDBLOCK} ? exit 1 : die "$!\\n";`
const HELD_BY_ANOTHER = 1
const USUAL_PATH = '/usr/bin:/bin:/usr/sbin:/sbin'

/** A folder that is open and may be locked. */
export class KernelLock {
  readonly #path: string
  readonly #descriptor: number

  /** Opens the folder without locking it. Throws `OperatorError`. */
  constructor(path: string) {
    this.#path = path
    try {
      this.#descriptor = openSync(path, 'r')
    } catch (error) {
      throw new OperatorError(`Cannot open ${path}: ${String(error)}.`, { cause: error })
    }
  }

  /**
   * The file descriptor of the folder. If a child process inherits it, the lock lasts until that process has ended too.
   */
  get descriptor(): number {
    return this.#descriptor
  }

  /** The device and the inode number of the folder, as text. */
  get identity(): string {
    const { dev, ino } = fstatSync(this.#descriptor, { bigint: true })
    return `${dev}.${ino}`
  }

  /** True if the path still leads to this folder. False if the folder was removed or replaced. */
  get isInPlace(): boolean {
    const stat = statSync(this.#path, { throwIfNoEntry: false, bigint: true })
    return stat !== undefined && `${stat.dev}.${stat.ino}` === this.identity
  }

  /**
   * Takes the lock, or changes its mode. Returns false if another process, or another `KernelLock` of this process, has
   * a lock that excludes this one. Changing the mode of a lock releases it for a moment. Throws `OperatorError` if
   * there is no program that can lock, or if the file system does not support locks.
   */
  tryTake(mode: LockMode): boolean {
    for (const { name, words } of PROGRAMS) {
      const { error, status, stderr } = spawnSync(name, words(mode), {
        stdio: ['ignore', 'ignore', 'pipe', this.#descriptor],
        env: { PATH: process.env['PATH'] ?? USUAL_PATH, LC_ALL: 'C' },
        timeout: LOCK_SPAWN_MS_MAX,
        encoding: 'utf8',
      })
      if (error !== undefined && 'code' in error && error.code === 'ENOENT') continue
      const complaint = error === undefined ? stderr.trim() : error.message
      if (status === 0) return true
      if (status === HELD_BY_ANOTHER && complaint === '') return false
      throw new OperatorError(
        `Cannot lock ${this.#path}: ${name}: ${complaint || `ended with ${status}`}.`,
      )
    }
    throw new OperatorError(
      `Cannot lock ${this.#path}, because neither \`flock\` nor \`perl\` was found. Install util-linux.`,
    )
  }

  /** Releases the lock if it was taken, and closes the folder. */
  release(): void {
    closeSync(this.#descriptor)
  }
}
