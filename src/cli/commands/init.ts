/** `tenrec init`: creates and fills a data directory without serving it. */
import { existsSync } from 'node:fs'
import { DataDir } from '../../store/directory/data-dir.ts'
import { initialise } from '../../store/open-store.ts'
import type { Command } from '../lib/command.ts'
import { firstStartMessage } from '../lib/first-start-message.ts'
import { noteInStore } from '../lib/with-store.ts'

/** `tenrec init`. */
export const INIT: Command = {
  name: 'init',
  sentence: 'Create the data directory with project 1 and its keys, and print them.',
  operands: [],
  options: [],
  settings: ['dataDir', 'host', 'port', 'publicUrl', 'isNetworkDiskAllowed'],
  async run(input) {
    const { io } = input
    const resolved = input.settings()
    const { dataDir } = resolved
    const holder = existsSync(dataDir) ? DataDir.holder(dataDir) : null
    if (holder?.purpose === 'daemon') {
      io.err(`${dataDir} is set up already and in use by ${holder.description}\n`)
      return 0
    }
    const first = await initialise(resolved, io.clock)
    if (first === null) {
      io.err(`${dataDir} is set up already; nothing was changed\n`)
      return 0
    }
    await noteInStore(input, dataDir, null)
    io.out(firstStartMessage(first))
    return 0
  },
}
