#!/usr/bin/env node
/**
 * The entry of the process. It passes the arguments to the command line. Before it loads the rest of the program, it
 * checks that Tenrec supports this release of Node and that the limits of the process are high enough.
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
