/** `tenrec version`: prints the version of Tenrec. */
import { VERSION } from '../../base/version.ts'
import { FORMAT_VERSION } from '../../store/directory/data-dir.ts'
import { type Commands, JSON_OPTION } from '../lib/command.ts'

/** `tenrec version`. */
export const COMMANDS: Commands = [
  {
    name: 'version',
    sentence: 'Print the version of Tenrec.',
    options: JSON_OPTION,
    settings: [],
    run({ io, isJson }) {
      if (isJson) {
        return { version: VERSION, node: process.versions.node, store_format: FORMAT_VERSION }
      }
      io.out(`${VERSION}\n`)
      return 0
    },
  },
]
