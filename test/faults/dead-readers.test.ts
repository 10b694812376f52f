/**
 * Tests that the snapshot of a killed reader is released: writers detect that its process is gone.
 *
 * @lane all
 */
import { spawn } from 'node:child_process'
import t from 'tap'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'

const KEY = Buffer.from('key')
const TABLES = ['state']

function open(dataDir: string): Environment {
  return new Environment({ dataDir, name: 'events', tables: TABLES })
}

/** Lets another process hold the current snapshot, and kills it. */
async function killReader(dataDir: string): Promise<void> {
  const options = JSON.stringify({ dataDir, name: 'events', tables: TABLES, isReadOnly: true })
  const script = `
    import { Environment } from ${sourceText('store/lmdb/environment')}
    const pin = new Environment(${options}).pin()
    for (const { value } of pin.entries('state')) console.log(value.toString())
    setInterval(() => pin, 1000)`
  const child = spawn(process.execPath, [...SCRIPT_WORDS, script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}

t.test('the first write after opening a store clears readers that were killed', async (t) => {
  const dataDir = t.testdir()
  const first = open(dataDir)
  const put = (environment: Environment): void =>
    environment.write(() => void environment.table('state').put(KEY, Buffer.from('value')))
  put(first)
  await killReader(dataDir)
  put(first)
  t.equal(
    first.clearDeadReaders(),
    1,
    'dead readers are searched from time to time, not with each write',
  )
  const second = open(dataDir)
  // It dies only now, because lmdb-js clears dead readers when it opens an environment.
  await killReader(dataDir)
  put(second)
  t.equal(second.clearDeadReaders(), 0, 'the reader was cleared before')
  await second.close()
  await first.close()
})
