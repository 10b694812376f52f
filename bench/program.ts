/** Runs commands of the built program, as an operator does, and waits until they end. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { repositoryFolder } from './machine.ts'

/** The result of a command. */
export interface CommandResult {
  readonly code: number | null
  readonly out: string
  readonly err: string
  readonly seconds: number
}

const MS_MAX = 300_000
const SAID_CHARACTERS = 1000

/** Runs `tenrec WORDS`. If it fails or takes too long, throws an error with its last output. */
export async function runTenrec(words: readonly string[]): Promise<CommandResult> {
  const startMs = performance.now()
  const child = spawn(process.execPath, [join(repositoryFolder(), 'dist', 'main.js'), ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const kill = (): void => void child.kill('SIGKILL')
  process.once('exit', kill)
  const timer = setTimeout(kill, MS_MAX)
  const chunks: { readonly out: Buffer[]; readonly err: Buffer[] } = { out: [], err: [] }
  child.stdout.on('data', (chunk: Buffer) => chunks.out.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => chunks.err.push(chunk))
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (ended) => resolve(ended))
  })
  clearTimeout(timer)
  process.removeListener('exit', kill)
  const seconds = (performance.now() - startMs) / 1000
  const [out, err] = [chunks.out, chunks.err].map((of) => Buffer.concat(of).toString('utf8'))
  const result = { code, out: out ?? '', err: err ?? '', seconds }
  if (code === 0) return result
  const said = `${result.out}${result.err}`.slice(-SAID_CHARACTERS)
  throw new Error(`tenrec ${words.join(' ')} ended with ${code}: ${said}`)
}

/** Returns the fields of a command's `--json` output, which is one object. */
export function fieldsOf(result: CommandResult): Record<string, unknown> {
  const value: unknown = JSON.parse(result.out)
  if (typeof value !== 'object' || value === null) throw new Error('the output is no object')
  return Object.fromEntries(Object.entries(value))
}
