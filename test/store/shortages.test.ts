/**
 * Tests which errors are temporary shortages: errors of the file system as Node throws them, and errors of LMDB and of
 * starting threads and processes, by their message.
 *
 * @lane quick
 */
import t from 'tap'
import { isShortage, type Shortage } from '../../src/store/faults.ts'

/** Errors as Node creates them. */
function systemError(code: string, text: string, syscall: string): Error {
  return Object.assign(new Error(`${code}: ${text}, ${syscall}`), { code, syscall, errno: -1 })
}

const EXPECTED: readonly (readonly [Error, Shortage | null])[] = [
  [systemError('ENOSPC', 'no space left on device', 'write'), 'disk'],
  [systemError('EDQUOT', 'disk quota exceeded', 'write'), 'disk'],
  [systemError('ENOSPC', 'no space left on device', 'fsync'), null],
  [systemError('EMFILE', 'too many open files', "open '/data/log/1'"), 'files'],
  [systemError('EMFILE', 'too many open files', 'statfs'), 'files'],
  [systemError('ENFILE', 'file table overflow', 'open'), 'files'],
  [systemError('EIO', 'i/o error', 'read'), 'io'],
  [systemError('EIO', 'i/o error', 'write'), null],
  [systemError('EIO', 'i/o error', 'fdatasync'), null],
  [systemError('EACCES', 'permission denied', 'open'), null],
  // LMDB ran into it during a write, so the process must end.
  [new Error('No space left on device: Attempting to write page at position 45006848'), null],
  [new Error('MDB_MAP_FULL: Environment mapsize limit reached'), 'disk'],
  [new Error('Too many open files'), 'files'],
  [new Error('Worker initialization failure: EMFILE'), 'files'],
  [new Error('spawn dd EMFILE'), 'files'],
  [Object.assign(new Error('Input/output error'), { code: 5 }), null],
  [Object.assign(new Error('No space left on device'), { code: 28 }), null],
  [new Error('MDB_PANIC: Update of meta page failed or environment had fatal error'), null],
  [new Error('ENOSPC'), null],
]

t.test('a shortage is recognized by the error or its cause', async (t) => {
  for (const [error, shortage] of EXPECTED) {
    t.equal(isShortage(error), shortage, error.message)
    const outer = new Error('the thread ended', { cause: error })
    t.equal(isShortage(outer), shortage, `${error.message} is recognized as a cause`)
  }
  t.equal(isShortage('ENOSPC: no space left on device, write'), null, 'a text is not an error')
})
