/** `tenrec init`: creates a data directory with its first project and keys, without starting a daemon. */
import { existsSync } from 'node:fs'
import { DataDir } from '../../store/directory/data-dir.ts'
import { initialize } from '../../store/open-store.ts'
import type { Commands } from '../lib/command.ts'
import { firstStartMessage } from '../lib/first-start-message.ts'
import { noteInStore } from '../lib/with-store.ts'

/** `tenrec init`. */
export const COMMANDS: Commands = [
  {
    name: 'init',
    sentence: 'Create the data directory with project 1 and its keys, and print the keys.',
    settings: ['dataDir', 'host', 'port', 'publicUrl', 'isNetworkDiskAllowed'],
    async run(input) {
      const { io, dataDir } = input
      const holder = existsSync(dataDir) ? DataDir.holder(dataDir) : null
      if (holder?.purpose === 'daemon') {
        io.err(`${dataDir} is already set up and in use by ${holder.description}.\n`)
        return 0
      }
      const first = await initialize(input.settings(), io.clock)
      if (first === null) {
        io.err(`${dataDir} is already set up. Nothing was changed.\n`)
        return 0
      }
      await noteInStore(input, null)
      io.out(firstStartMessage(first))
      return 0
    },
  },
]
