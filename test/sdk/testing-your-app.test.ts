/**
 * Runs the node:test example of docs/TESTING-YOUR-APP.md unchanged: its files, `npx` and the SDKs.
 *
 * @lane all
 */
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { writePageFiles } from '../fixtures/page-files.ts'

const run = promisify(execFile)

t.test('the example for node:test passes', async (t) => {
  const folder = t.testdir()
  const names = writePageFiles(folder)
  t.strictSame([...names].sort(), [
    'app.mjs',
    'playwright.config.mjs',
    'signup.spec.mjs',
    'signup.test.mjs',
    'start-app.mjs',
  ])
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, '.bin'), { recursive: true })
  for (const name of ['posthog-js', 'posthog-node']) {
    symlinkSync(resolve('node_modules', name), join(modules, name))
  }
  const command = join(modules, '.bin/tenrec')
  writeFileSync(command, `#!/bin/sh\nexec ${process.execPath} ${resolve('dist/main.js')} "$@"\n`)
  chmodSync(command, 0o755)

  const environment = Object.entries(process.env).filter(
    ([name]) => !/^(NODE_|TENREC_|TAP)/.test(name),
  )
  const { stdout } = await run(process.execPath, ['--test', 'signup.test.mjs'], {
    cwd: folder,
    env: Object.fromEntries(environment),
  })
  t.match(stdout, /pass 2\b/)
  t.match(stdout, /fail 0\b/)
})
