/**
 * `tenrec event why`: shows what happened to an accepted event. Searches all places of the data directory in which an
 * event can leave a trace, whether or not a daemon runs.
 */
import { UsageError } from '../../../base/errors.ts'
import { formatUuid, parseUuid } from '../../../base/ids.ts'
import { fateOf } from '../../../engine/threads/event-fate.ts'
import { openEvents, openStore } from '../../../store/open-store.ts'
import { type Commands, JSON_OPTION, PROJECT_OPTION } from '../../lib/command.ts'
import { print } from '../../lib/output.ts'
import { keptAfterMs } from './event-dropped.ts'

/** `tenrec event why`. */
export const COMMANDS: Commands = [
  {
    name: 'event why',
    sentence:
      'Print whether an event is stored, waits, was dropped, became a dead letter or was erased.',
    operands: ['UUID'],
    options: { ...PROJECT_OPTION, ...JSON_OPTION },
    async run({ operand, projectId, dataDir, io, isJson }) {
      const uuid = parseUuid(operand)
      if (uuid === null) throw new UsageError(`${JSON.stringify(operand)} is not a UUID.`)
      const query = { projectId, uuid, keptAfterMs: keptAfterMs() }
      const found = await openStore(
        { dataDir, environments: ['log'], isWriting: false },
        ({ log }) => openEvents(dataDir, (reader) => fateOf(reader, log, query)),
      )
      print(io, { uuid: formatUuid(uuid, 0), ...found }, isJson)
      return found.fate === 'unknown' ? 1 : 0
    },
  },
]
