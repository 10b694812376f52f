/**
 * Gives a data directory that was never part of a cluster the catalogue of the cluster, before the machine serves
 * requests. If the cluster has no catalogue yet, the catalogue of this directory becomes that of the cluster. If the
 * directory has none either, one is created first.
 */
import { OperatorError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { warehouseName } from '../config/warehouse-address.ts'
import { SHARED_CATALOGUE } from '../store/catalog/organization-store.ts'
import { ControlState } from './control-state.ts'
import { JOIN_MS_MAX } from './limits.ts'
import { CONTROL_STREAM, NatsBrokers } from './nats.ts'
import { shareChange } from './shared-change.ts'

const LOOK_MS = 50
const TELL_MS = 5000

/** What is needed to join a cluster. */
export interface JoinOptions {
  /** The data directory. It is locked by this process, and its catalogue is not open for writing. */
  readonly dataDir: string
  readonly servers: readonly string[]
  readonly logger: Logger
  /** The address of the warehouse to which this machine copies events, as in `parseWarehouse`, or null. */
  readonly warehouse: string | null
  /** Creates a catalogue in the directory if there is none. Returns true if it has created one. */
  readonly fill: () => boolean
}

/**
 * Returns true if the directory has kept its own catalogue, and false if it took over that of the cluster. A directory
 * that was already part of the cluster keeps its catalogue, and does not wait for the brokers. Any other directory
 * waits for them. Throws `OperatorError` if no broker answers within a minute, if the catalogue of the cluster belongs
 * to another organization, or if the cluster has another warehouse.
 */
export async function joinCatalogue(options: JoinOptions): Promise<boolean> {
  const isKept = await join(options)
  const { dataDir, servers, warehouse } = options
  const name = warehouse === null ? null : warehouseName(warehouse)
  if (name === null || (await SHARED_CATALOGUE.warehouse(dataDir)) === name) return isKept
  const note = () => shareChange(dataDir, () => SHARED_CATALOGUE.warehouse(dataDir, name), servers)
  // Store the name of the warehouse before anything is copied, so that from now on receipts of erasures wait for this
  // machine. Make up to three attempts, because the brokers may be electing a leader.
  const known = await note().catch(note).catch(note)
  if (known === name) return isKept
  const how = 'first run `tenrec cluster forget-warehouse` on one of its machines'
  throw new OperatorError(`The cluster has the warehouse ${known}. To use another one, ${how}.`)
}

async function join(options: JoinOptions): Promise<boolean> {
  const { dataDir, servers, logger, fill } = options
  const copy = SHARED_CATALOGUE.open(dataDir)
  try {
    if (copy.place() !== null) {
      fill()
      return true
    }
    const brokers = new NatsBrokers(servers, logger)
    const control = new ControlState({
      stream: brokers.stream(CONTROL_STREAM),
      copy,
      place: null,
      logger,
      onChange: () => {},
      onEmpty: () => {
        if (fill()) copy.isNew = true
      },
    })
    try {
      await settled(control, logger)
      await control.caughtUp(JOIN_MS_MAX)
      return control.isBeginner
    } finally {
      control.close()
      await brokers.close()
    }
  } finally {
    await copy.close()
  }
}

async function settled(control: ControlState, logger: Logger): Promise<void> {
  const startedAtMs = performance.now()
  let tellAtMs = startedAtMs + TELL_MS
  while (!control.isSettled) {
    if (control.failure instanceof OperatorError) throw control.failure
    const now = performance.now()
    if (now > startedAtMs + JOIN_MS_MAX) {
      const what =
        control.trouble ??
        'No majority of brokers answers, so the catalogue cannot be read. Check the brokers.'
      throw new OperatorError(what, { cause: control.failure })
    }
    if (now > tellAtMs) {
      logger.warn('Waiting for a majority of the brokers, because they have the catalogue.')
      tellAtMs = Number.POSITIVE_INFINITY
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}
