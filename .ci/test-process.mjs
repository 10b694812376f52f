/**
 * Runs test files in one process, each as a subtest with the name of its file. A test file imports `tap` and uses its
 * root. Here that root is the subtest of the file, so teardowns run at the end of the file, and failures are reported
 * under its name. `progress` in the folder TEST_RUN gets a byte for each finished file, because tap reports a process
 * only when all of it has finished.
 */
import { appendFileSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { root, runWithin } from '../.js/node_modules/tap/index.js'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const FIXTURES = join(ROOT, '.tap/fixtures')

/** Runs `file`, a path below the root such as `test/base/log.test.ts`, and resolves when all its tests have ended. */
export async function runFile(file) {
  const folder = file.replaceAll('/', '-')
  await root.test(file, async (test) => {
    // The name that the folder has if the file runs alone. Paths of sockets must be short.
    test.testdirName = join(FIXTURES, folder)
    runWithin(test)
    await import(join(ROOT, '.js', file.replace(/\.ts$/, '.js')))
  })
  appendFileSync(join(process.env.TEST_RUN, 'progress'), '.')
  if (process.env.TEST_FOLDERS_STAY !== '1') removeFolders(folder)
}

function removeFolders(folder) {
  let names = []
  try {
    names = readdirSync(FIXTURES)
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  for (const name of names.filter((one) => one === folder || one.startsWith(`${folder}-`))) {
    rmSync(join(FIXTURES, name), { recursive: true, force: true, maxRetries: 9 })
  }
}
