/**
 * flock(2) for Node, which has none. The lock belongs to the open file description, and a child shares
 * that: so `flock` of util-linux or busybox (else perl) locks a descriptor of ours, ends, and the lock
 * stays with us until it is closed or the process ends in whatever way. Node opens with O_CLOEXEC, so no
 * later child keeps it. Only folders are locked: their inode stays as long as what they hold. About 3 ms.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, fstatSync, openSync, statSync } from 'node:fs'
import { OperatorError } from '../../base/errors.ts'
import { LOCK_SPAWN_MS_MAX } from './limits.ts'

/** Who else may hold the lock at the same time: nobody, or others that share it. */
export type LockMode = 'exclusive' | 'shared'

/** Each locks descriptor 3, and ends with 1 and without a word when somebody else has the lock. */
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

  /** Opens the folder and locks nothing. Throws `OperatorError`. */
  constructor(path: string) {
    this.#path = path
    try {
      this.#descriptor = openSync(path, 'r')
    } catch (error) {
      throw new OperatorError(`${path} cannot be opened: ${String(error)}`, { cause: error })
    }
  }

  /** A process that inherits it keeps the lock. */
  get descriptor(): number {
    return this.#descriptor
  }

  /** Device and inode of the folder. */
  get identity(): string {
    const { dev, ino } = fstatSync(this.#descriptor, { bigint: true })
    return `${dev}.${ino}`
  }

  /** False once another folder, or none, stands at the path. */
  get isInPlace(): boolean {
    const stat = statSync(this.#path, { throwIfNoEntry: false, bigint: true })
    return stat !== undefined && `${stat.dev}.${stat.ino}` === this.identity
  }

  /**
   * Takes the lock, or changes its mode; false when another process, or another `KernelLock` of this one,
   * is in the way. A change of mode gives the lock up for a moment. Throws `OperatorError` when no program
   * can lock, or the file system cannot.
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
        `${this.#path} cannot be locked: ${name}: ${complaint || `ended with ${status}`}`,
      )
    }
    throw new OperatorError(
      `${this.#path} cannot be locked: neither 'flock' nor 'perl' is there: install util-linux`,
    )
  }

  /** Gives up the lock, if it was taken, and closes the folder. */
  release(): void {
    closeSync(this.#descriptor)
  }
}
