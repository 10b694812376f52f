/**
 * `tenrec dead-letter ...`: events that were accepted and could not be processed. They are read from the
 * data directory; having them processed again, or giving them up, is the daemon's.
 */
import { OperatorError, UsageError } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import type { StoredDeadLetter } from '../../../rules/events/dead-letter.ts'
import { openEvents } from '../../../store/open-store.ts'
import { idOption } from '../../lib/arguments.ts'
import {
  type Command,
  type CommandInput,
  JSON_OPTION,
  type OptionDefinition,
} from '../../lib/command.ts'
import { DAEMON_OPTIONS, DaemonClient } from '../../lib/daemon-client.ts'
import { isoTime, printRecord, printRows, type Row } from '../../lib/output.ts'

const LIST_LETTERS_DEFAULT = 100
const NUMBER_MAX = 0xffff_ffff
const ROUTES = '/api/organizations/@current/dead_letters/'

const CHOICE_OPTIONS: readonly OptionDefinition[] = [
  { name: 'number', placeholder: 'N', sentence: 'The letter with this number.' },
  { name: 'all', placeholder: null, sentence: 'All letters that there are now.' },
]

/** `tenrec dead-letter list`. */
export const DEAD_LETTER_LIST: Command = {
  name: 'dead-letter list',
  sentence: 'List events that were accepted and could not be processed, oldest first.',
  operands: [],
  options: [
    { name: 'after', placeholder: 'N', sentence: 'Only letters with a higher number.' },
    {
      name: 'limit',
      placeholder: 'N',
      sentence: `At most so many; without it ${LIST_LETTERS_DEFAULT}.`,
    },
    { name: 'raw', placeholder: null, sentence: 'With what was sent.' },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const limit = idOption(input, 'limit', LIST_LETTERS_DEFAULT)
    const after = input.options.has('after') ? idOption(input, 'after', 1) : 0
    const rows = await openEvents(input.settings().dataDir, (reader) => {
      const rows: Row[] = []
      for (const letter of reader.deadLetters(after)) {
        rows.push(rowOf(letter, input.options.has('raw')))
        if (rows.length === limit) break
      }
      return rows
    })
    printRows(input.io, rows, input.options.has('json'))
    return 0
  },
}

/** `tenrec dead-letter replay`. */
export const DEAD_LETTER_REPLAY: Command = {
  name: 'dead-letter replay',
  sentence: 'Process dead letters again; what fails again stays a dead letter.',
  operands: [],
  options: [...CHOICE_OPTIONS, ...DAEMON_OPTIONS, JSON_OPTION],
  settings: ['dataDir'],
  run: (input) => carryOut(input, 'replay'),
}

/** `tenrec dead-letter drop`. */
export const DEAD_LETTER_DROP: Command = {
  name: 'dead-letter drop',
  sentence: 'Give dead letters up for good.',
  operands: [],
  options: [...CHOICE_OPTIONS, ...DAEMON_OPTIONS, JSON_OPTION],
  settings: ['dataDir'],
  run: (input) => carryOut(input, 'drop'),
}

async function carryOut(input: CommandInput, name: 'replay' | 'drop'): Promise<number> {
  const client = new DaemonClient(input)
  let { after, through } = rangeOf(input)
  const total = { done: 0, failed: 0, skipped: 0 }
  // Letters that fail again get new numbers: they are not among those that were there.
  for (;;) {
    const answer = await client.ask('POST', `${ROUTES}${name}/`, { after, through })
    if (!isObject(answer)) throw new OperatorError('the daemon answered nothing')
    total.done += Number(answer['done'])
    total.failed += Number(answer['failed'])
    total.skipped += Number(answer['skipped'])
    through = Math.min(through, Number(answer['newest']))
    after = Number(answer['last'])
    if (answer['has_more'] !== true) break
  }
  printRecord(input.io, total, input.options.has('json'))
  return total.failed > 0 ? 1 : 0
}

function rangeOf(input: CommandInput): { after: number; through: number } {
  const isAll = input.options.has('all')
  if (isAll === input.options.has('number')) {
    throw new UsageError('name the letters: either --number or --all')
  }
  if (isAll) return { after: 0, through: NUMBER_MAX }
  const number = idOption(input, 'number', 1)
  return { after: number - 1, through: number }
}

function rowOf(letter: StoredDeadLetter, hasRaw: boolean): Row {
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
