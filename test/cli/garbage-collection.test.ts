/**
 * The size of V8's young generation in the main thread and in other threads, the flag that sets the size for the main
 * thread, and the growth of heaps.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'

const FLAG = '--min-semi-space-size=16'
const FLAGS = `${FLAG} --no-memory-reducer`
const MEMORY = 'MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=262144 MALLOC_TRIM_THRESHOLD_=4194304'

/**
 * Returns the size of the young generation before a collection, in MiB, of the main thread and of a thread that it
 * starts.
 */
function youngMib(flags: readonly string[]): readonly number[] {
  const tell = `
    const { getHeapSpaceStatistics } = await import('node:v8')
    const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space')
    console.log((young.space_used_size + young.space_available_size) / 2 ** 20)`
  const code = `
    import ${sourceText('cli/lib/garbage-collection')}
    import { Worker } from 'node:worker_threads'
    ${tell}
    new Worker(${JSON.stringify(`(async () => {${tell}})()`)}, { eval: true })`
  const args = [...flags, ...SCRIPT_WORDS, code]
  return execFileSync(process.execPath, args, { encoding: 'utf8' }).trim().split('\n').map(Number)
}

t.test('only the main thread has a larger young generation', async (t) => {
  const [usualMain = 0, usualThread = 0] = youngMib([])
  const [main = 0, thread = 0] = youngMib([FLAG])
  t.ok(main > 15, 'the main thread has the size from the command line')
  t.ok(usualMain < 8 && usualThread < 8, 'V8 has a smaller default')
  t.ok(thread < 8, 'other threads have the default')
})

/** Returns the largest heap size, in MiB, of a thread that retains 150,000 objects and allocates many more. */
function highestMib(first: string): number {
  const work = `
    const { getHeapStatistics } = require('node:v8')
    const make = (index) => ({ index, text: [index, index] })
    const kept = Array.from({ length: 150_000 }, (_, index) => make(index))
    const passing = []
    let highest = 0
    for (let index = 0; index < 4_000_000; index++) {
      passing[index % 100_000] = make(index)
      if (index % 500 === 0) highest = Math.max(highest, getHeapStatistics().used_heap_size)
    }
    console.log(kept.length > 0 ? highest / 2 ** 20 : 0)`
  const code = `
    ${first}
    const { Worker } = await import('node:worker_threads')
    new Worker(${JSON.stringify(work)}, { eval: true })`
  return Number(execFileSync(process.execPath, [...SCRIPT_WORDS, code], { encoding: 'utf8' }))
}

t.test(
  'the heap of a thread is collected before it reaches several times its live size',
  async (t) => {
    const usual = highestMib('')
    const ours = highestMib(`await import(${sourceText('cli/lib/garbage-collection')})`)
    t.ok(
      ours < usual * 0.75,
      `${ours.toFixed(0)} MiB, and ${usual.toFixed(0)} MiB with the defaults of V8`,
    )
  },
)

t.test('every way to start the service passes the flag and configures the allocator', async (t) => {
  for (const path of ['package.json', 'systemd/tenrec.service', '.ci/debian-tenrec']) {
    const text = readFileSync(path, 'utf8')
    t.match(text, MEMORY, path)
    t.match(text, new RegExp(`node ${FLAGS} \\S*dist/main\\.js`), path)
  }
})
