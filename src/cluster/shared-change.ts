/**
 * Makes a change of the catalogue for a command, on a machine of a cluster, with or without a running daemon. The
 * change is sent to the brokers that the daemon last used. The brokers give it its position in the stream. It is then
 * applied to this machine by the daemon or by the command, whichever receives it first.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeDurably } from '../base/durable-file.ts'
import { OperatorError } from '../base/errors.ts'
import { createLogger } from '../base/log.ts'
import { SHARED_CATALOGUE } from '../store/catalog/organization-store.ts'
import { outboxFolder } from '../store/directory/data-dir.ts'
import { ControlState } from './control-state.ts'
import { CONTROL_MS_MAX } from './limits.ts'
import { CONTROL_STREAM, NatsBrokers } from './nats.ts'

const FILE = 'brokers'

/** Stores the brokers that a machine uses. The folder of its outbox must exist. */
export function noteBrokers(dataDir: string, servers: readonly string[]): void {
  const text = JSON.stringify(servers)
  if (readBrokers(dataDir) !== text) writeDurably(join(outboxFolder(dataDir), FILE), text)
}

/**
 * Returns the addresses of the brokers that the daemon of a machine last used. The list is empty for a single machine.
 */
export function notedBrokers(dataDir: string): readonly string[] {
  // The cast is right: `noteBrokers` wrote the file.
  return JSON.parse(readBrokers(dataDir) ?? '[]') as readonly string[]
}

/**
 * Makes a change on all machines of the cluster. `action` opens stores and makes one change in them. It may be called
 * more than once. Throws the errors of `action`, and `OperatorError` if no majority of the brokers answers.
 */
export async function shareChange<T>(
  dataDir: string,
  action: () => T | Promise<T>,
  servers = notedBrokers(dataDir),
): Promise<T> {
  const copy = SHARED_CATALOGUE.open(dataDir)
  const logger = createLogger({ level: 'silent', format: 'json' })
  const brokers = new NatsBrokers(servers, logger)
  const control = new ControlState({
    stream: brokers.stream(CONTROL_STREAM),
    copy,
    place: copy.place(),
    logger,
    onChange: () => {},
    isGuest: true,
  })
  const endProposing = SHARED_CATALOGUE.propose(dataDir)
  const decide = async () => ({ result: await action(), proposal: SHARED_CATALOGUE.takeProposal() })
  try {
    await control.caughtUp(CONTROL_MS_MAX)
    return await control.commit(await decide(), decide)
  } catch (cause) {
    if (control.counts.refused === 0) throw cause
    const brokerList = servers.join(', ')
    const what = `No majority of the brokers (${brokerList}) has confirmed the change. It may still be made, so check before you repeat it.`
    throw new OperatorError(what, { cause })
  } finally {
    endProposing()
    control.close()
    await brokers.close()
    await copy.close()
  }
}

function readBrokers(dataDir: string): string | null {
  try {
    return readFileSync(join(outboxFolder(dataDir), FILE), 'utf8')
  } catch {
    return null
  }
}
