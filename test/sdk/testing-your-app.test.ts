/**
 * The example of docs/TESTING-YOUR-APP.md for node:test, run as it stands there: its files, `npx` and the SDKs.
 *
 * @lane all
 */
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const run = promisify(execFile)
const PAGE = readFileSync('docs/TESTING-YOUR-APP.md', 'utf8')
/** A line with the name of a file, and the block behind it. */
const FILE = /^`([\w.-]+)`[^\n]*:\n\n```js\n(.*?)```/gms

t.test('the example for node:test passes', async (t) => {
  const folder = t.testdir()
  const names = [...PAGE.matchAll(FILE)].map(([, name = '', content = '']) => {
    writeFileSync(join(folder, name), content)
    return name
  })
  t.strictSame(names.sort(), [
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
