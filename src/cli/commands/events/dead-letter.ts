/**
 * `tenrec dead-letter ...`: events that were accepted and could not be processed. They are read from the
 * data directory; having them processed again, or giving them up, is the daemon's.
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
  '--number N': 'The letter with this number.',
  '--all': 'All letters that there are now.',
  ...ANSWER_OPTIONS,
}

/** `tenrec dead-letter ...`. */
export const COMMANDS: Commands = [
  {
    name: 'dead-letter list',
    sentence: 'List events that were accepted and could not be processed, oldest first.',
    options: {
      '--after N': 'Only letters with a higher number.',
      '--limit N': `At most so many; without it ${LIST_LETTERS_DEFAULT}.`,
      '--raw': 'With what was sent.',
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
    sentence: 'Process dead letters again; what fails again stays a dead letter.',
    options: CHOICE_OPTIONS,
    run: (input) => carryOut(input, 'replay'),
  },
  {
    name: 'dead-letter drop',
    sentence: 'Give dead letters up for good.',
    options: CHOICE_OPTIONS,
    run: (input) => carryOut(input, 'drop'),
  },
]

async function carryOut(input: CommandInput, name: 'replay' | 'drop'): Promise<number> {
  const client = new DaemonClient(input)
  let { after, through } = rangeOf(input)
  const total = { done: 0, failed: 0, skipped: 0 }
  // Letters that fail again get new numbers: they are not among those that were there.
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
    throw new UsageError('name the letters: either --number or --all')
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
