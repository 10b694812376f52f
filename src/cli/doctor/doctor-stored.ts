/** Checks of `tenrec doctor` on what is stored: events that wait, and events that could not be processed. */
import { openStore } from '../../store/open-store.ts'
import { type Finding, fine, problem, warning } from './doctor-finding.ts'

/** A daemon that keeps up leaves a few blocks at any moment. */
const BLOCKS_MANY = 5000

/** Dead letters and backlog. Throws `OperatorError`. Cost: a few reads, and a count of the dead letters. */
export async function checkStored(dataDir: string, isServed: boolean): Promise<readonly Finding[]> {
  const request = { dataDir, environments: [], isWriting: false }
  return openStore(request, ({ events, log }) => {
    const { deadLetters, position } = events.statistics()
    const last = log.extent()?.last ?? 0
    return [judgeDeadLetters(deadLetters), judgeBacklog(Math.max(0, last - position), isServed)]
  })
}

/** The verdict on events that were acknowledged and could not be processed. */
export function judgeDeadLetters(count: number): Finding {
  const check = 'dead_letters'
  if (count === 0) return fine(check, 'none')
  const message = `${count} acknowledged events or blocks could not be processed and are kept: report them, the log of the daemon names the reasons`
  return problem(check, message)
}

/** The verdict on blocks of accepted events that wait to be processed. */
export function judgeBacklog(blocks: number, isServed: boolean): Finding {
  const check = 'backlog'
  if (blocks === 0) return fine(check, 'everything that was accepted is processed')
  const waiting = `${blocks} blocks of accepted events wait to be processed`
  if (!isServed) return fine(check, `${waiting}: the daemon goes on with them when it starts`)
  if (blocks < BLOCKS_MANY) return fine(check, waiting)
  return warning(
    check,
    `${waiting}: processing is behind; if that lasts, give the machine more cores or send less`,
  )
}
