/** Chooses the HTTP library: by the setting `http_server`, and by which library can be loaded on this machine. */
import { OperatorError } from '../../base/errors.ts'
import type { HttpServerChoice, HttpServerName } from '../../config/settings-table.ts'
import type { Front } from './front.ts'
import { NodeFront } from './node-front.ts'
import { UwsFront, uwsObstacle } from './uws-front.ts'

/** The name of the chosen library, and why it was chosen. */
export interface ChosenFront {
  readonly name: HttpServerName
  /**
   * The reason why uWebSockets.js could not be chosen for the setting `auto`. Null if it was chosen, or if the setting
   * is not `auto`.
   */
  readonly obstacle: string | null
}

const INVALID_CONFIGURATION = 78

/**
 * Chooses the library. Throws `OperatorError` with exit code 78 if the setting names a library that cannot be loaded.
 * With `node`, uWebSockets.js is not loaded at all.
 */
export function chooseFront(choice: HttpServerChoice): ChosenFront {
  if (choice === 'node') return { name: 'node', obstacle: null }
  const obstacle = uwsObstacle()
  if (obstacle === null) return { name: 'uws', obstacle: null }
  if (choice === 'auto') return { name: 'node', obstacle }
  throw new OperatorError(
    `Setting \`http_server\`: uWebSockets.js cannot be loaded: ${obstacle}. Set \`http_server\` to \`auto\` or \`node\`, or use a Node.js version for which uWebSockets.js has a binary.`,
    { exitCode: INVALID_CONFIGURATION },
  )
}

/** Creates a front with the chosen library, without routes. */
export function openFront(choice: HttpServerChoice): Front {
  return chooseFront(choice).name === 'uws' ? new UwsFront() : new NodeFront()
}
