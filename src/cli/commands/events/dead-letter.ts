/**
 * `tenrec dead-letter ...`: events that were accepted but could not be processed. The list is read from the data
 * directory. The running daemon replays and drops dead letters.
 */
import { UsageError } from '../../../base/errors.ts'
import type { StoredDeadLetter } from '../../../rules/events/dead-letter.ts'
import { openEvents } from '../../../store/open-store.ts'
import {
  type CommandInput,
  type Commands,
  JSON_OPTION,
  type OptionTexts,
} from '../../lib/command.ts'
import { ANSWER_OPTIONS, DaemonClient } from '../../lib/daemon-client.ts'
import { isoTime, print } from '../../lib/output.ts'

const LIST_LETTERS_DEFAULT = 100
const NUMBER_MAX = 0xffff_ffff
const ROUTES = '/api/organizations/@current/dead_letters/'

const CHOICE_OPTIONS: OptionTexts = {
  '--number N': 'The dead letter with this number.',
  '--all': 'All dead letters that exist now.',
  ...ANSWER_OPTIONS,
}

/** `tenrec dead-letter ...`. */
export const COMMANDS: Commands = [
  {
    name: 'dead-letter list',
    sentence:
      'List dead letters, oldest first: events that were accepted but could not be processed.',
    options: {
      '--after N': 'Only dead letters with a higher number.',
      '--limit N': `Maximum number of dead letters to list. Default: ${LIST_LETTERS_DEFAULT}.`,
      '--raw': 'Also print the data that the client sent.',
      ...JSON_OPTION,
    },
    run(input) {
      const limit = input.id('limit', LIST_LETTERS_DEFAULT)
      const after = input.has('after') ? input.id('after', 1) : 0
      return openEvents(input.dataDir, (reader) => {
        const rows: object[] = []
        for (const letter of reader.deadLetters(after)) {
          rows.push(rowOf(letter, input.has('raw')))
          if (rows.length === limit) break
        }
        return rows
      })
    },
  },
  {
    name: 'dead-letter replay',
    sentence: 'Process dead letters again. Events that fail again stay dead letters.',
    options: CHOICE_OPTIONS,
    run: (input) => carryOut(input, 'replay'),
  },
  {
    name: 'dead-letter drop',
    sentence: 'Delete dead letters permanently.',
    options: CHOICE_OPTIONS,
    run: (input) => carryOut(input, 'drop'),
  },
]

async function carryOut(input: CommandInput, name: 'replay' | 'drop'): Promise<number> {
  const client = new DaemonClient(input)
  let { after, through } = rangeOf(input)
  const total = { done: 0, failed: 0, skipped: 0 }
  // A dead letter that fails again gets a new number, which is outside of the requested range. The loop therefore ends.
  for (;;) {
    const answer = await client.ask('POST', `${ROUTES}${name}/`, { after, through })
    total.done += Number(answer['done'])
    total.failed += Number(answer['failed'])
    total.skipped += Number(answer['skipped'])
    through = Math.min(through, Number(answer['newest']))
    after = Number(answer['last'])
    if (answer['has_more'] !== true) break
  }
  print(input.io, total, input.isJson)
  return total.failed > 0 ? 1 : 0
}

function rangeOf(input: CommandInput): { after: number; through: number } {
  const isAll = input.has('all')
  if (isAll === input.has('number')) {
    throw new UsageError('Choose the dead letters with either --number or --all.')
  }
  if (isAll) return { after: 0, through: NUMBER_MAX }
  const number = input.id('number', 1)
  return { after: number - 1, through: number }
}

function rowOf(letter: StoredDeadLetter, hasRaw: boolean) {
  return {
    number: letter.number,
    stored_at: isoTime(letter.storedAtMs),
    project: letter.projectId === 0 ? null : letter.projectId,
    step: letter.step,
    bytes: letter.raw.length,
    reason: letter.reason,
    ...(hasRaw ? { raw: Buffer.from(letter.raw).toString() } : {}),
  }
}
