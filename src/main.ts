#!/usr/bin/env node
/**
 * Process entry: hands the arguments to the command line. The rest of the program is loaded only if this release of
 * Node can run it and the limits of the process are high enough for it.
 */
import { nodeObstacle } from './base/node-versions.ts'
import { commandObstacle } from './base/process-limits.ts'

process.title = 'tenrec'
const obstacle = nodeObstacle(process.versions.node) ?? commandObstacle()
if (obstacle === null) {
  const { runProcess } = await import('./cli/entry.ts')
  await runProcess()
} else {
  process.stderr.write(`tenrec: ${obstacle}\n`)
  process.exitCode = 78
}
