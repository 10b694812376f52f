/**
 * What a process reads is kept for it; when it is killed meanwhile, those who write notice it.
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

/** Lets another process hold the state of now, and kills it. */
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

t.test('the first write of whoever opens a store clears readers that were killed', async (t) => {
  const dataDir = t.testdir()
  const first = open(dataDir)
  const put = (environment: Environment): void =>
    environment.write(() => void environment.table('state').put(KEY, Buffer.from('value')))
  put(first)
  await killReader(dataDir)
  put(first)
  t.equal(first.clearDeadReaders(), 1, 'it is looked for from time to time, not with each write')
  await killReader(dataDir)
  const second = open(dataDir)
  put(second)
  t.equal(second.clearDeadReaders(), 0, 'it was cleared before')
  await second.close()
  await first.close()
})
