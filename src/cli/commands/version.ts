/** `tenrec version`. */
import { VERSION } from '../../base/version.ts'
import { FORMAT_VERSION } from '../../store/directory/data-dir.ts'
import { type Command, JSON_OPTION } from '../lib/command.ts'

/** `tenrec version`. */
export const VERSION_COMMAND: Command = {
  name: 'version',
  sentence: 'Print the version.',
  operands: [],
  options: [JSON_OPTION],
  settings: [],
  async run({ io, options }) {
    const facts = { version: VERSION, node: process.versions.node, store_format: FORMAT_VERSION }
    io.out(`${options.has('json') ? JSON.stringify(facts) : VERSION}\n`)
    return 0
  },
}
